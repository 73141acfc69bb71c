"""A cluster in time: nodes of one device type each, a queue in order of submission, backfill.

What Slurm does, and no more: jobs in priority order (here: of submission), each gets the earliest
place that delays none before it, counted by time limits; who fits now starts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.replay.jobs import Job

MOST_TESTED = 200
"""Waiting jobs that backfill looks at (bf_max_job_test)."""


@dataclass(slots=True)
class Waiting:
    """A job in the queue. ``types``: device types it may start on, in order of preference;
    ``planned``: when backfill expects to start it."""

    job: Job
    types: tuple[str, ...]
    moves: int = 0
    planned: float | None = None


class Ahead:
    """How many devices of a node are free from each of ``times`` on, by the limits of its jobs."""

    def __init__(self, now: float, devices: int) -> None:
        self._times = [now]
        self._free = [devices]

    @property
    def now(self) -> int:
        """Free devices."""
        return self._free[0]

    def start(self, devices: int, seconds: float) -> float:
        """The first moment from which so many are free for so long."""
        start: float | None = None
        for time, free in zip(self._times, self._free, strict=True):
            if start is not None and time >= start + seconds:
                return start
            if free < devices:
                start = None
            elif start is None:
                start = time
        return self._times[-1] if start is None else start

    def take(self, devices: int, start: float, end: float) -> None:
        """They are gone from ``start`` to ``end``."""
        if end <= self._times[0]:
            return
        for place in range(self._step(max(start, self._times[0])), self._step(end)):
            self._free[place] -= devices

    def _step(self, time: float) -> int:
        """The place of ``time``, made if there was none."""
        place = bisect_left(self._times, time)
        if place == len(self._times) or self._times[place] != time:
            self._times.insert(place, time)
            self._free.insert(place, self._free[place - 1])
        return place


@dataclass(slots=True)
class Node:
    """``taken``: by name of job, its devices and when its limit ends."""

    name: str
    kind: str
    devices: int
    taken: dict[str, tuple[int, float]] = field(default_factory=dict)

    @property
    def free(self) -> int:
        """Devices that no job holds."""
        return self.devices - sum(devices for devices, _ in self.taken.values())

    def ahead(self, now: float) -> Ahead:
        """Its devices from ``now`` on."""
        ahead = Ahead(now, self.devices)
        for devices, end in self.taken.values():
            ahead.take(devices, now, end)
        return ahead


@dataclass(slots=True)
class Running:
    """A job on a node."""

    job: Job
    node: Node
    started: float
    moves: int

    @property
    def end(self) -> float:
        """When it will really end."""
        return self.started + self.job.seconds[self.node.kind]


class Cluster:
    """Nodes, queue and running jobs at one moment."""

    def __init__(self, nodes: Iterable[tuple[str, int]]) -> None:
        self.nodes = [Node(f"{k}-{i:04}", k, count) for i, (k, count) in enumerate(nodes)]
        self.queue: list[Waiting] = []
        self.running: dict[str, Running] = {}
        self.now = 0.0

    def start_what_can(self) -> list[Running]:
        """One scheduler pass; returns what it started."""
        started: list[Running] = []
        ahead = {node.name: node.ahead(self.now) for node in self.nodes}
        for waiting in self.queue[:MOST_TESTED]:
            place = self._earliest(waiting, ahead)
            if place is None:
                continue
            job, (node, start) = waiting.job, place
            ahead[node.name].take(job.devices, start, start + job.limit)
            waiting.planned = start
            if start <= self.now:
                node.taken[job.name] = job.devices, start + job.limit
                run = Running(job, node, self.now, waiting.moves)
                self.running[job.name] = run
                started.append(run)
        names = {run.job.name for run in started}
        self.queue = [w for w in self.queue if w.job.name not in names]
        return started

    def end(self, name: str) -> Running:
        """A job is over."""
        run = self.running.pop(name)
        del run.node.taken[name]
        return run

    def _earliest(self, waiting: Waiting, ahead: dict[str, Ahead]) -> tuple[Node, float] | None:
        """Where and when; at one moment the type of the job's preference, then the fullest node."""
        job = waiting.job
        best: tuple[tuple[float, int, int, str], Node] | None = None
        for node in self.nodes:
            if node.kind not in waiting.types or node.devices < job.devices:
                continue
            there = ahead[node.name]
            start = there.start(job.devices, job.limit)
            key = (start, waiting.types.index(node.kind), there.now, node.name)
            if best is None or key < best[0]:
                best = key, node
        return (best[1], best[0][0]) if best else None
