"""Late binding: who moves, who stays and why; one device, one job; Slurm's order; no ping-pong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.settings.rebind import Rebind
from hpcmgr.slurm.state import NodeState
from hpcmgr.submit.estimate import Option, Room, Running, Timeline
from hpcmgr.submit.expect import NEVER
from hpcmgr.submit.pool import make_pools
from hpcmgr.submit.rebind import Verdict, Waiting, plan_moves
from tests.builders import node

NOW = 1_000_000.0
HOUR = 3600.0
GPU, NPU = "gpu:a100", "npu:ascend910b3"


def machine(
    gpus: int = 2, npus: int = 4, *, used: dict[str, int] | None = None, **more: object
) -> list[NodeState]:
    """A GPU node, whose GPUs are all held unless ``used`` says otherwise, and an NPU node."""
    used = {GPU: gpus} if used is None else used
    return [
        node("g01", gres={GPU: gpus}, used={k: v for k, v in used.items() if k == GPU}, **more),
        node("n01", gres={NPU: npus}, used={k: v for k, v in used.items() if k == NPU}),
    ]


def option(nodes: Iterable[NodeState], gres: str, **more: object) -> Option:
    pools = make_pools(gres, [n for n in nodes if gres in n.gres])
    values: dict[str, object] = {"devices": 1, **more}
    return Option(gres, pools=pools, **values)  # type: ignore[arg-type]


def either(nodes: Sequence[NodeState], **more: object) -> tuple[Option, ...]:
    """A job that may run on both."""
    return option(nodes, GPU, **more), option(nodes, NPU, **more)


def job(name: str, options: tuple[Option, ...], **more: object) -> Waiting:
    """It waits for a GPU, for up to 10 h."""
    values: dict[str, object] = {
        "priority": 100, "gres": GPU, "devices": 1, "run": 10 * HOUR, "limit": 10 * HOUR, **more,
    }  # fmt: skip
    return Waiting(name, options=options, **values)  # type: ignore[arg-type]


def holder(hours: float, gres: str = GPU, devices: int = 2) -> Running:
    return Running({"g01" if gres == GPU else "n01": {gres: devices}}, NOW + hours * HOUR)


def plan(
    jobs: Iterable[Waiting],
    nodes: Sequence[NodeState],
    *running: Running,
    most: int | None = None,
    closed: frozenset[str] = frozenset(),
    **rules: object,
) -> dict[str, Verdict]:
    plan = plan_moves(
        jobs, running, nodes, Rebind.model_validate(rules), NOW, most=most, closed=closed
    )
    return {v.job.job_id: v for v in plan.verdicts}


def moves(verdicts: dict[str, Verdict]) -> dict[str, str]:
    return {name: v.to.gres for name, v in verdicts.items() if v.to}


class TestWhoMoves:
    def test_where_it_can_start_now(self) -> None:
        """The GPUs are held for 8 h, NPUs are idle: it moves, and is told what it gains."""
        nodes = machine()
        done = plan([job("1", either(nodes))], nodes, holder(8))["1"]

        assert done.to is not None
        assert done.to.gres == NPU
        assert done.there is not None
        assert done.there.start == NOW
        assert done.here.start == NOW + 8 * HOUR
        assert done.reason == "starts now, ends 8.0 h earlier"

    def test_not_where_it_would_end_later(self) -> None:
        """Three times slower: started now it ends after a GPU that comes in 8 h."""
        nodes = machine()
        slow = (option(nodes, GPU, speed=3.0), option(nodes, NPU, speed=1.0))
        done = plan([job("1", slow, run=30 * HOUR, limit=30 * HOUR)], nodes, holder(8))["1"]

        assert done.to is None
        assert done.here.end == NOW + 18 * HOUR
        assert done.there is not None
        assert done.there.end == NOW + 30 * HOUR

    def test_not_where_it_would_start_later(self) -> None:
        """Four times as fast, but an hour later: nobody is put off who could begin."""
        nodes = machine(used={GPU: 2, NPU: 4})
        fast = (option(nodes, GPU), option(nodes, NPU, speed=4.0))
        done = plan([job("1", fast)], nodes, holder(1), holder(2, NPU, 4))["1"]

        assert done.to is None
        assert done.there is not None
        assert done.there.end < done.here.end
        assert done.reason == "no other type would start it earlier"

    @pytest.mark.parametrize(("hours", "goes"), [(0.15, False), (0.2, False), (1.0, True)])
    def test_only_for_a_real_gain(self, hours: float, goes: bool) -> None:
        """Ten minutes at least, and a fifth of the time until its end."""
        nodes = machine()
        done = plan([job("1", either(nodes), run=2 * HOUR)], nodes, holder(hours))

        assert bool(moves(done)) is goes

    def test_not_to_wait_a_little_less_elsewhere(self) -> None:
        """Markedly earlier, not merely earlier."""
        nodes = machine(used={GPU: 2, NPU: 4})
        little = plan([job("1", either(nodes))], nodes, holder(8), holder(7.9, NPU, 4))
        much = plan([job("1", either(nodes))], nodes, holder(8), holder(1, NPU, 4))

        assert moves(little) == {}
        assert moves(much) == {"1": NPU}

    def test_a_job_that_can_start_is_left_alone(self) -> None:
        """A GPU is free, though NPUs are too."""
        nodes = machine(used={GPU: 1})

        done = plan([job("1", either(nodes))], nodes, holder(8, devices=1))["1"]

        assert done.to is None
        assert done.reason == "it can start where it is"

    @pytest.mark.parametrize(
        ("planned", "goes"), [(30, False), (-20, False), (7200, False), (6 * 3600, True)]
    )
    def test_slurms_own_plan_counts(self, planned: float, goes: bool) -> None:
        """Near: it is about to start. In 2 h: no fifth of the 12 h until its end. In 6 h: it is."""
        nodes = machine()

        done = plan([job("1", either(nodes), planned=NOW + planned)], nodes, holder(8))

        assert bool(moves(done)) is goes

    @pytest.mark.parametrize("why", ["pinned", "asked for by name", "part of a heterogeneous job"])
    def test_a_fixed_job_stays_and_still_counts(self, why: str) -> None:
        """Its reason is kept, and it takes its devices from those behind it."""
        nodes = machine(used={GPU: 2, NPU: 3})
        first = job("1", (), gres=NPU, fixed=why)
        done = plan([first, job("2", either(nodes))], nodes, holder(8), holder(20, NPU, 3))

        assert done["1"].reason == why
        assert done["1"].here.start == NOW
        assert moves(done) == {}

    def test_at_most_three_times(self) -> None:
        nodes = machine()

        done = plan([job("1", either(nodes), moves=3)], nodes, holder(8))["1"]

        assert done.to is None
        assert done.reason == "it has moved 3 times"

    def test_not_before_slurm_has_seen_the_last_move(self) -> None:
        nodes = machine()

        done = plan([job("1", either(nodes), moves=1, moved=NOW - 60)], nodes, holder(8))["1"]

        assert done.reason == "it has just moved"

    def test_the_limit_of_a_minute(self) -> None:
        """The first of the queue move; the others are told why not."""
        nodes = machine()
        jobs = [job(str(i), either(nodes), since=i) for i in range(4)]

        done = plan(jobs, nodes, holder(8), most=2)

        assert list(moves(done)) == ["0", "1"]
        assert done["3"].reason == "the moves of this minute are used up"

    def test_an_array_moves_as_a_whole_or_not_at_all(self) -> None:
        """100 tasks, one GPU that comes in an hour, 4 NPUs: all of it. Two tasks: not worth it."""
        nodes = machine(gpus=1)
        many = job("1", either(nodes), tasks=100)

        assert moves(plan([many], nodes, holder(1, devices=1))) == {"1": NPU}
        slower = (option(nodes, GPU, speed=4.0), option(nodes, NPU))
        assert moves(plan([replace(many, options=slower)], nodes, holder(1, devices=1))) == {}


class TestWithdrawal:
    def test_drained_devices_free_their_jobs_at_once(self) -> None:
        """Without gain, though it has moved thrice and just now."""
        nodes = machine(usable=False)
        gone = (option(nodes, GPU, out="g01 is drained (fan)"), option(nodes, NPU))
        done = plan([job("1", gone, moves=3, moved=NOW)], nodes)["1"]

        assert done.to is not None
        assert "g01 is drained (fan)" in done.reason

    def test_where_no_other_type_is_in_service_it_stays(self) -> None:
        nodes = [replace(n, usable=False) for n in machine()]
        gone = (option(nodes, GPU, out="drained"), option(nodes, NPU, out="drained"))

        assert plan([job("1", gone)], nodes)["1"].to is None

    def test_kept_for_a_reservation(self) -> None:
        """Idle NPUs that are reserved are no reason to move."""
        nodes = machine()

        assert moves(plan([job("1", either(nodes))], nodes, holder(8),
                          closed=frozenset({"n01"}))) == {}  # fmt: skip


class TestRoom:
    def test_sixteen_jobs_sixteen_devices(self) -> None:
        """And the seventeenth stays."""
        nodes = machine(npus=16)
        jobs = [job(f"{i:02}", either(nodes), since=i) for i in range(17)]

        done = plan(jobs, nodes, holder(8))

        assert list(moves(done)) == [f"{i:02}" for i in range(16)]

    def test_devices_without_cpus_beside_them_are_not_free(self) -> None:
        nodes = [machine()[0], node("n01", gres={NPU: 4}, cpus_used=31)]

        done = plan([job("1", either(nodes, cpus=2))], nodes, holder(8))

        assert moves(done) == {}

    def test_four_on_one_node_are_not_two_on_two(self) -> None:
        nodes = [*machine(npus=2), node("n02", gres={NPU: 2})]
        pair = (option(nodes, GPU, devices=4), option(nodes, NPU, devices=4))

        assert moves(plan([job("1", pair, devices=4)], nodes, holder(8))) == {}

    def test_a_short_job_fits_before_a_wide_one(self) -> None:
        """4 NPUs are wanted by the first of the queue, one is held for 5 h: until then the other
        three stand idle, and a job of 2 h may have one; one of 9 h may not."""
        nodes = machine(used={GPU: 2, NPU: 1})
        wide = job("1", (), gres=NPU, devices=4, fixed="asked for by name", priority=200)
        short = job("2", either(nodes), run=2 * HOUR, limit=2 * HOUR)
        long = job("3", either(nodes), run=9 * HOUR, limit=9 * HOUR)

        done = plan([wide, short, long], nodes, holder(8), holder(5, NPU, 1))

        assert moves(done) == {"2": NPU}


times = st.integers(0, 20).map(lambda h: h * HOUR)
waiting = st.builds(
    lambda n, p, g, d, r, t: (n, p, g, d, r, t),
    st.integers(0, 99), st.integers(1, 3), st.sampled_from([GPU, NPU]), st.integers(1, 2),
    st.integers(1, 30), st.integers(1, 3),
)  # fmt: skip
clusters = st.tuples(st.integers(1, 4), st.integers(0, 4), st.integers(1, 6), st.integers(0, 6))


def build(
    shape: tuple[int, int, int, int], queue: list[tuple[int, int, str, int, int, int]]
) -> tuple[list[NodeState], list[Waiting], list[Running]]:
    gpus, gpus_used, npus, npus_used = shape
    used = {GPU: min(gpus, gpus_used), NPU: min(npus, npus_used)}
    nodes = machine(gpus, npus, used=used)
    shared = {d: either(nodes, devices=d) for d in (1, 2)}
    jobs = [
        job(str(i), shared[d], priority=p, gres=g, devices=d, run=r * HOUR, limit=r * HOUR,
            tasks=t, since=float(n))
        for i, (n, p, g, d, r, t) in enumerate(queue)
    ]  # fmt: skip
    running = [holder(i + 1, g, 1) for g, n in used.items() for i in range(n)]
    return nodes, jobs, running


@given(clusters, st.lists(waiting, max_size=12))
def test_no_device_is_promised_twice(
    shape: tuple[int, int, int, int], queue: list[tuple[int, int, str, int, int, int]]
) -> None:
    """Jobs that move to start now have, together, no more devices than are free."""
    nodes, jobs, running = build(shape, queue)
    done = plan(jobs, nodes, *running, gain_seconds=0, gain=0)
    taken: dict[str, int] = {}
    for verdict in done.values():
        outlook = verdict.there if verdict.to else verdict.here
        if outlook and outlook.start <= NOW:
            gres = verdict.to.gres if verdict.to else verdict.job.gres
            taken[gres] = taken.get(gres, 0) + verdict.job.devices

    for gres, count in taken.items():
        assert count <= sum(n.free(gres) for n in nodes)


@given(clusters, st.lists(waiting, max_size=12))
def test_the_queues_order_is_slurms(
    shape: tuple[int, int, int, int], queue: list[tuple[int, int, str, int, int, int]]
) -> None:
    """A job's verdict does not depend on anybody behind it."""
    nodes, jobs, running = build(shape, queue)
    done = list(plan(jobs, nodes, *running).values())
    for place in range(len(done)):
        first = [v.job for v in done[: place + 1]]
        assert plan(reversed(first), nodes, *running)[first[-1].job_id] == done[place]


@given(clusters, st.lists(waiting, max_size=12))
def test_nobody_is_moved_back(
    shape: tuple[int, int, int, int], queue: list[tuple[int, int, str, int, int, int]]
) -> None:
    """With every move made, the next cycle of the same moment makes none."""
    nodes, jobs, running = build(shape, queue)
    done = plan(jobs, nodes, *running, settle=0)
    after = [
        replace(v.job, gres=v.to.gres, moves=1, moved=NOW) if v.to else v.job
        for v in done.values()
    ]  # fmt: skip

    assert moves(plan(after, nodes, *running, settle=0)) == {}


ends = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=8)
asks = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(1, 5)), max_size=8)


@given(ends, asks)
def test_a_timeline_loses_no_device(
    held: list[tuple[int, int]], asked: list[tuple[int, int, int]]
) -> None:
    """However much is taken, as many devices are there as before; nobody starts before now."""
    line = Timeline(NOW, 3)
    for hours, count in held:
        line.add(NOW + hours * HOUR, count)
    total = 3 + sum(count for _, count in held)
    for count, hours, tasks in asked:
        start, end = line.take(count, hours * HOUR, tasks)
        assert (start == NEVER) == (count > total)
        assert start >= NOW
        assert start == NEVER or end >= start + hours * HOUR
        assert line.start(total) < NEVER
        assert line.start(total + 1) == NEVER


def test_a_long_array_is_counted_wave_by_wave() -> None:
    """A million tasks cost no million steps, and no time is lost."""
    line = Timeline(NOW, 4)

    start, end = line.take(1, HOUR, 1_000_000)

    assert start == NOW
    assert end - NOW == pytest.approx(250_000 * HOUR, rel=0.01)


def test_the_room_takes_all_or_nothing() -> None:
    nodes = [node("n01", gres={NPU: 2}), node("n02", gres={NPU: 2}, used={NPU: 1})]
    room = Room(nodes)
    pair = option(nodes, NPU, devices=2)

    assert not room.take(pair, 2)
    assert room.take(pair, 1)
    assert not room.take(pair, 1)
    assert room.take(option(nodes, NPU), 1)
