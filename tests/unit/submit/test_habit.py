"""What accounts use of their time limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.submit.habit import Habit


def test_nothing_is_assumed_of_an_account_that_is_not_known() -> None:
    """The whole limit; with nine jobs still, with ten its own share."""
    habit = Habit()
    assert habit.share("chem") == 1.0
    habit.learn_all([("chem", 600.0, 3600.0)] * 9)
    assert habit.share("chem") == 1.0
    habit.learn("chem", 600.0, 3600.0)

    assert habit.share("chem") == pytest.approx(1 / 6)
    assert habit.share("bio") == pytest.approx(1 / 6)  # all accounts', for want of better


def test_a_running_job_ends_by_habit_and_never_in_the_past() -> None:
    """A sixth of its limit; over that, half-way to its limit; over that too, now."""
    habit = Habit()
    habit.learn_all([("chem", 600.0, 3600.0)] * 10)

    assert habit.end("chem", 0.0, 3600.0, now=100.0) == pytest.approx(600.0)
    assert habit.end("chem", 0.0, 3600.0, now=1600.0) == pytest.approx(2600.0)
    assert habit.end("chem", 0.0, 3600.0, now=9999.0) == 9999.0


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.floats(0, 1e6), st.floats(0, 1e6))))
def test_a_share_is_a_share(ended: list[tuple[str, float, float]]) -> None:
    habit = Habit()
    habit.learn_all(ended)

    assert 0.0 <= habit.share("a") <= 1.0
    assert habit.end("a", 0.0, 100.0, now=50.0) >= 50.0
