"""The expected end: when devices are free behind everybody, and what the score makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.admit import Decision, decide
from hpcmgr.slurm.state import ClusterState
from hpcmgr.submit.expect import MOST_STEPS, NEVER, Expectation, coarse
from hpcmgr.submit.request import read_fields
from hpcmgr.submit.view import make_view
from tests.builders import A100, T4, cluster, node, policy

HOUR = 3600.0
RULES = policy(A100, T4, classes={"any": {}, "pair": {"devices_min": 2}})
FULL = {"gpu:a100": 8}


def decided(
    state: ClusterState,
    expected: Expectation | None,
    minutes: int | None = 60,
    units: int = 2,
    name: str = "any",
) -> Decision:
    view = replace(make_view(state, RULES.library), expected=expected)
    asked: dict[str, object] = {
        "tres_per_node": f"gres/compute:{name}:{units}",
        "partition": "main",
    }
    if minutes:
        asked["time_limit"] = minutes
    return decide(read_fields(asked), RULES, view, {}, "t-1")


@pytest.mark.parametrize(
    ("count", "spare", "seconds"),
    [
        (1, 3, 0.0), (2, 3, 0.0), (3, 3, 60.0), (7, 3, 600.0), (8, 3, NEVER), (1, 1, 60.0),
        (1, -4, 1000.0), (3, -4, 1060.0), (1, -11, 2000.0),
    ],
)  # fmt: skip
def test_devices_are_given_in_order_of_time(count: int, spare: int, seconds: float) -> None:
    """What was submitted since the cycle (spare fell from 3) goes first; what is more than there is
    comes back after a run."""
    expected = Expectation({"gpu:a": ((0.0, 2), (60.0, 1), (600.0, 4))}, {"gpu:a": 3})

    assert expected.wait("gpu:a", count, spare, 1000.0) == seconds
    assert expected.wait("gpu:b", 1, 0, 1.0) == NEVER


@given(st.lists(st.tuples(st.floats(0, 1e7), st.integers(1, 8)), max_size=300).map(sorted))
def test_many_steps_become_few_and_promise_nothing_too_early(
    steps: list[tuple[float, int]],
) -> None:
    """As many devices in all, none before its time, the next ones exactly."""
    few = coarse(tuple(steps))
    exact, rough = (Expectation({"gpu:a": s}) for s in (tuple(steps), few))

    assert len(few) <= MOST_STEPS
    total = sum(number for _, number in steps)
    assert sum(number for _, number in few) == total
    for count in {1, 10, 32, total} - {0}:
        assert rough.wait("gpu:a", count, 0, 9.0) >= exact.wait("gpu:a", count, 0, 9.0)
    assert rough.wait("gpu:a", 1, 0, 9.0) == exact.wait("gpu:a", 1, 0, 9.0)


def test_an_accounts_habit_shortens_its_runs() -> None:
    """Of an account that nobody knows, that of all."""
    expected = Expectation({}, shares={"": 0.5, "chem": 0.1})

    assert expected.run("chem", HOUR) == 360
    assert expected.run("bio", HOUR) == 1800


class TestFinish:
    """In place of free_now and queue_ahead, where the queue was looked at and there is a limit."""

    def test_it_needs_a_look_at_the_queue_and_a_time_limit(self) -> None:
        state = cluster(node("a1", gres=FULL), node("t1", gres={"gpu:t4": 4}))
        seen = Expectation({"gpu:a100": ((0.0, 8),), "gpu:t4": ((0.0, 4),)})

        for decision in (decided(state, None), decided(state, seen, minutes=None)):
            assert "free_now" in decision.ranked[0].terms
            assert "finish" not in decision.ranked[0].terms
        terms = decided(state, seen).ranked[0].terms
        assert terms["finish"] == 1.0
        assert not {"free_now", "queue_ahead"} & set(terms)

    def test_a_long_job_waits_a_little_for_what_ends_it_first(self) -> None:
        """Ten hours on whichever: an hour's wait costs a tenth, ten hours' wait a half."""
        state = cluster(
            node("a1", gres=FULL, used=FULL), node("t1", gres={"gpu:t4": 4}, used={"gpu:t4": 4})
        )
        seen = Expectation({"gpu:a100": ((HOUR, 8),), "gpu:t4": ((10 * HOUR, 4),)})
        found = {c.name: c.terms["finish"] for c in decided(state, seen, minutes=600).ranked}

        assert found["a100-80g"] == 1.0
        assert found["t4"] == pytest.approx(11 / 20)

    def test_devices_on_two_nodes_are_none_together(self) -> None:
        """Two A100 on one node are there in ten hours, though two are free in all."""
        one = {"gpu:a100": 7}
        state = cluster(*(node(n, gres=FULL, used=one) for n in ("a1", "a2")),
                        node("t1", gres={"gpu:t4": 8}, used={"gpu:t4": 8}))  # fmt: skip
        free = {"gpu:a100": ((0.0, 2), (HOUR, 14)), "gpu:t4": ((HOUR, 8),)}
        apart = Expectation(free)
        seen = Expectation(free, places={"gpu:a100": {2: ((10 * HOUR, 1),)}})
        ends = [
            {c.name: c.terms["finish"] for c in decided(state, each, 600, name="pair").ranked}
            for each in (apart, seen)
        ]

        assert ends[0]["a100-80g"] == 1.0
        assert ends[1]["a100-80g"] == pytest.approx(11 / 20)

    def test_where_nothing_ever_ends_it_says_nothing(self) -> None:
        """All devices are held by jobs without end: the other terms decide."""
        state = cluster(node("a1", gres=FULL, used=FULL))
        terms = decided(state, Expectation({"gpu:a100": ()})).ranked[0].terms

        assert "finish" not in terms
