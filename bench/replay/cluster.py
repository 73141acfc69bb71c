"""A cluster in time: nodes of one device type each, a queue in order of submission, backfill.

What Slurm does, and no more: jobs in priority order (here: of submission), each gets the earliest
place that delays none before it, counted by time limits; who fits now starts.
"""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class Stretch:
    """Devices of one node, taken from ``start`` to ``end`` (seconds)."""

    start: float
    end: float
    devices: int


@dataclass(slots=True)
class Node:
    """``taken``: by name of job, until the job's limit."""

    name: str
    kind: str
    devices: int
    taken: dict[str, Stretch] = field(default_factory=dict)

    @property
    def free(self) -> int:
        """Devices that no job holds."""
        return self.devices - sum(s.devices for s in self.taken.values())


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
        planned: dict[str, list[Stretch]] = {}
        for waiting in self.queue[:MOST_TESTED]:
            place = self._earliest(waiting, planned)
            if place is None:
                continue
            node, start = place
            stretch = Stretch(start, start + waiting.job.limit, waiting.job.devices)
            waiting.planned = start
            if start > self.now:
                planned.setdefault(node.name, []).append(stretch)
                continue
            node.taken[waiting.job.name] = stretch
            run = Running(waiting.job, node, self.now, waiting.moves)
            self.running[waiting.job.name] = run
            started.append(run)
        names = {run.job.name for run in started}
        self.queue = [w for w in self.queue if w.job.name not in names]
        return started

    def end(self, name: str) -> Running:
        """A job is over."""
        run = self.running.pop(name)
        del run.node.taken[name]
        return run

    def _earliest(
        self, waiting: Waiting, planned: dict[str, list[Stretch]]
    ) -> tuple[Node, float] | None:
        """Where and when; at one moment the type of the job's preference, then the fullest node."""
        best: tuple[tuple[float, int, int, str], Node] | None = None
        for node in self.nodes:
            if node.kind not in waiting.types or node.devices < waiting.job.devices:
                continue
            start = self._start_on(node, waiting.job, planned.get(node.name, []))
            key = (start, waiting.types.index(node.kind), node.free, node.name)
            if best is None or key < best[0]:
                best = key, node
        return (best[1], best[0][0]) if best else None

    def _start_on(self, node: Node, job: Job, planned: list[Stretch]) -> float:
        stretches = [*node.taken.values(), *planned]
        moments = sorted({self.now, *(s.end for s in stretches if s.end > self.now)})
        for moment in moments:
            if _fits(stretches, node.devices - job.devices, moment, moment + job.limit):
                return moment
        return moments[-1]


def _fits(stretches: list[Stretch], room: int, start: float, end: float) -> bool:
    """Whether never more than ``room`` devices are taken between ``start`` and ``end``."""
    here = [s for s in stretches if s.start < end and s.end > start]
    return all(
        sum(s.devices for s in here if s.start <= moment < s.end) <= room
        for moment in (start, *(s.start for s in here if s.start > start))
    )
