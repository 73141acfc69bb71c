"""Several devices on one node: when they are free together, before and behind others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.submit.estimate import Running
from hpcmgr.submit.expect import NEVER, Expectation
from hpcmgr.submit.supply import Supply
from tests.builders import node

NOW, HOUR = 1_000_000.0, 3600.0
GPU = "gpu:a100"


def supply(*held: tuple[str, int, float], nodes: int = 2, devices: int = 4) -> Supply:
    """Nodes n0, n1, …; on which so many devices are held for so many hours."""
    used = {name: sum(n for host, n, _ in held if host == name) for name, _, _ in held}
    cluster = [
        node(name, gres={GPU: devices}, used={GPU: used.get(name, 0)})
        for name in (f"n{i}" for i in range(nodes))
    ]
    running = [Running({name: {GPU: n}}, NOW + hours * HOUR) for name, n, hours in held]
    return Supply(NOW, cluster, running)


def hours(moment: float) -> float:
    return (moment - NOW) / HOUR


def test_free_devices_of_two_nodes_are_no_place_on_one() -> None:
    """Two of four are free on each: four together when the first node is given back."""
    found = supply(("n0", 2, 5.0), ("n1", 2, 3.0))

    assert hours(found.start(GPU, 2, 1)) == 0
    assert hours(found.start(GPU, 2, 2)) == 0
    assert hours(found.start(GPU, 4, 1)) == 3
    assert hours(found.start(GPU, 4, 2)) == 5
    assert found.start(GPU, 4, 3) == NEVER
    assert found.start(GPU, 5, 1) == NEVER
    assert found.start("gpu:none", 2, 1) == NEVER


def test_who_waits_for_a_place_is_before_the_next() -> None:
    """The second comes after the first has run, the third when the other node is free."""
    found = supply(("n0", 2, 5.0), ("n1", 2, 3.0))
    starts = []
    for _ in range(3):
        starts.append(hours(found.start(GPU, 4, 1)))
        found.take(GPU, 4, 1, HOUR, 1)

    assert starts == [3, 4, 5]


def test_the_last_task_of_an_array_is_asked_without_taking() -> None:
    found = supply(("n0", 2, 5.0), ("n1", 2, 3.0))

    assert hours(found.last_end(GPU, 4, 1, HOUR, 2)) == 5
    assert hours(found.start(GPU, 4, 1)) == 3


@pytest.mark.parametrize("running", [(), (("n0", 4, 1.0),)])
def test_a_device_that_nobody_accounts_for_comes_back(
    running: tuple[tuple[str, int, float], ...],
) -> None:
    """A job has started since the queue was read: not never, where an end is known."""
    nodes = [node("n0", gres={GPU: 4}, used={GPU: 4}), node("n1", gres={GPU: 4}, used={GPU: 1})]
    held = [Running({name: {GPU: n}}, NOW + end * HOUR) for name, n, end in running]
    found = Supply(NOW, nodes, held)

    assert found.start(GPU, 2, 1) == NOW
    assert (found.start(GPU, 4, 1) < NEVER) is bool(running)


def test_admission_asks_by_the_next_smaller_number() -> None:
    """Three devices as two; where nothing was looked at, nothing is known."""
    found = supply(("n0", 2, 5.0), ("n1", 3, 3.0))
    seen = Expectation(found.left(), places=found.left_together())

    assert seen.together(GPU, 1, 9) == 0
    assert seen.together(GPU, 2, 2) == seen.together(GPU, 3, 2) == 3 * HOUR
    assert seen.together(GPU, 4, 2) == 5 * HOUR
    assert seen.together(GPU, 4, 3) == NEVER
    assert seen.together("gpu:none", 4, 3) == 0


ends = st.lists(
    st.tuples(st.sampled_from(["n0", "n1"]), st.integers(1, 2), st.integers(1, 9)), max_size=4
).filter(lambda held: all(sum(n for h, n, _ in held if h == host) <= 4 for host in ("n0", "n1")))


@given(ends, st.integers(1, 4), st.integers(1, 2))
def test_together_is_never_earlier_than_apart(
    held: list[tuple[str, int, int]], devices: int, nodes: int
) -> None:
    """And all are there in the end."""
    found = supply(*((name, n, float(end)) for name, n, end in held))
    together, apart = found.start(GPU, devices, nodes), found.line(GPU).start(devices * nodes)

    assert apart <= together < NEVER
