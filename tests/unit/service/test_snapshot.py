"""View and debits: swapped whole, expiring, never decided on when too old."""

from __future__ import annotations

from dataclasses import replace

from hpcmgr.service.snapshot import Snapshot
from hpcmgr.submit.view import ClusterView, make_view
from tests.builders import A100, cluster, node, policy


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def view(taken: float) -> ClusterView:
    state = replace(cluster(node("a01", gres={"gpu:a100": 2})), taken=taken)
    return make_view(state, policy(A100).library)


def test_a_grant_is_debited_until_a_later_view_shows_it() -> None:
    """Two submissions in one refresh do not count on the same device."""
    clock = Clock()
    snapshot = Snapshot(30, 120, clock)
    snapshot.swap(view(0))
    clock.now = 1
    snapshot.grant([("gpu:a100", 2)])

    before = snapshot.current()
    snapshot.swap(view(0.5))  # taken before the grant: cannot show it yet
    between = snapshot.current()
    snapshot.swap(view(2))
    after = snapshot.current()

    assert before is not None
    assert between is not None
    assert after is not None
    assert (before[1], between[1], after[1]) == ({"gpu:a100": 2}, {"gpu:a100": 2}, {})


def test_a_grant_expires_even_without_a_new_view() -> None:
    """A job that was refused by Slurm later must not hold its debit for ever."""
    clock = Clock()
    snapshot = Snapshot(30, 120, clock)
    snapshot.swap(view(0))
    snapshot.grant([("gpu:a100", 1)])
    clock.now = 31

    current = snapshot.current()

    assert current is not None
    assert current[1] == {}


def test_a_view_that_is_too_old_is_none() -> None:
    """The limit is the site's; the shim holds jobs meanwhile."""
    clock = Clock()
    snapshot = Snapshot(30, 120, clock)
    assert snapshot.current() is None
    snapshot.swap(view(0))
    clock.now = 121

    assert snapshot.current() is None
    assert snapshot.age == 121
