"""Who chooses the device type: the user, Slurm, or hpcmgr at submission and later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from bench.replay.cluster import Cluster, Running, Waiting
from bench.replay.jobs import Job


class Policy(Protocol):
    """Chooses types at submission, and may choose anew while jobs wait."""

    interval: float
    """Seconds between two looks at the queue; 0: never."""

    def submit(self, job: Job, cluster: Cluster) -> tuple[str, ...]:
        """Types that the job may start on, best first."""

    def ended(self, run: Running, cluster: Cluster) -> None:
        """A job is over."""

    def look(self, cluster: Cluster) -> int:
        """Move waiting jobs; returns how many."""


class Native:
    """What users do without hpcmgr: ``choose`` types once, by themselves."""

    interval = 0.0

    def __init__(self, choose: Callable[[Job], tuple[str, ...]]) -> None:
        self._choose = choose

    def submit(self, job: Job, cluster: Cluster) -> tuple[str, ...]:
        """As typed."""
        del cluster
        return self._choose(job)

    def ended(self, run: Running, cluster: Cluster) -> None:
        """Nothing is learnt."""

    def look(self, cluster: Cluster) -> int:
        """Nothing moves."""
        del cluster
        return 0


def fastest() -> Native:
    """(a) The type on which the job runs fastest, as if every user had measured it."""
    return Native(lambda job: (job.fastest,))


def untyped(order: Sequence[str]) -> Native:
    """(b) Any type that can run it, ``order`` (node weights, a list of partitions) first."""
    return Native(lambda job: tuple(kind for kind in order if kind in job.seconds))


def moved(waiting: Waiting, kind: str) -> None:
    """Bind a waiting job to another type."""
    waiting.types = (kind,)
    waiting.moves += 1
