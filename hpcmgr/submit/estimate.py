"""When a waiting job could start: devices in time and, for this very moment, devices on nodes.

Slurm's queue is looked at in Slurm's order; each job takes the earliest devices of its type, so
what a later job is told counts everybody before it. Times are seconds since 1970. An estimate, no
more: CPUs and memory are looked at for this moment only.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hpcmgr.slurm.state import NodeState
from hpcmgr.submit.candidates import Candidate
from hpcmgr.submit.expect import NEVER, Steps
from hpcmgr.submit.pool import Pool

_MOST_STEPS = 1000
_OVERDUE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Running:
    """A job that holds devices: how many by node and ``name:type``, until when."""

    held: Mapping[str, Mapping[str, int]]
    end: float


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """One device type for a waiting job. ``devices``, ``cpus`` and ``memory`` (MiB) on each of its
    nodes; ``speed`` of the whole job, relative to its other options; ``out`` says why its nodes are
    out of service, "" if they are not. Jobs of the same sort share their options."""

    gres: str
    devices: int
    pools: tuple[Pool, ...]
    cpus: int = 1
    memory: int = 0
    speed: float = 1.0
    out: str = ""
    candidate: Candidate | None = None


class Timeline:
    """Devices of one type (or places for several of them), by the time at which they are free."""

    def __init__(self, now: float, free: int) -> None:
        self._now = now
        self._free: list[tuple[float, int]] = [(now, free)] if free else []
        self._gaps: list[tuple[float, int]] = []
        self._total = free

    @classmethod
    def of(cls, now: float, moments: Iterable[float]) -> Timeline:
        """One at each of ``moments``, some of which are now."""
        line = cls(now, 0)
        soon = now + _OVERDUE_SECONDS
        times = Counter(now if moment <= now else max(moment, soon) for moment in moments)
        line._free, line._total = sorted(times.items()), times.total()
        return line

    def add(self, end: float, count: int) -> None:
        """``count`` devices that are held until ``end``; what is overdue ends soon, not now."""
        insort(self._free, (max(end, self._now + _OVERDUE_SECONDS), count))
        self._total += count

    def start(self, count: int) -> float:
        """When so many are free together, NEVER if the type has not so many."""
        for when, number in self._free:
            count -= number
            if count <= 0:
                return when
        return NEVER

    def ahead(self) -> Steps:
        """Seconds from now until so many devices more are free."""
        return tuple((max(0.0, when - self._now), number) for when, number in self._free)

    def free_now(self) -> int:
        """Devices that nobody before has taken for this moment."""
        return self._free[0][1] if self._free and self._free[0][0] <= self._now else 0

    def waves(self, count: int, tasks: int) -> int:
        """How often all devices of the type must run to serve so many tasks."""
        return -(-tasks // max(1, self._total // count))

    def next_end(self) -> float:
        """When the first device is given back that is not free now."""
        return next((when for when, _ in self._free if when > self._now), NEVER)

    def fits_before(self, count: int, limit: float) -> bool:
        """Whether so many are free now until a job that waits for more of them can start, as
        backfill does it; ``limit`` is the job's time limit."""
        if not self._gaps:
            return self.free_now() >= count
        free = sum(number for until, number in self._gaps if until >= self._now + limit)
        return free + self.free_now() >= count

    def take(self, count: int, run: float, tasks: int = 1) -> tuple[float, float]:
        """Give ``tasks`` times ``count`` devices away, each for ``run`` seconds, as early as may
        be; returns the first start and the last end."""
        if count > self._total:
            return NEVER, NEVER
        first, last = NEVER, self._now
        for _ in range(_MOST_STEPS):
            if tasks <= 0:
                return first, last
            when, number = self._free[0]
            together = min(tasks, number // count)
            if together:
                self._spend(0, together * count)
            else:
                together, when = 1, self._gather(count)
            insort(self._free, (when + run, together * count))
            first, last = min(first, when), max(last, when + run)
            tasks -= together
        # A long array: what is left runs wave after wave.
        return first, last + run * self.waves(count, tasks)

    def fill_gap(self, count: int, limit: float) -> None:
        """Take what ``fits_before`` found: first what nobody waits for."""
        part = min(count, self.free_now())
        if part:
            self._spend(0, part)
            insort(self._free, (self._now + limit, part))
        count -= part
        for place, (until, number) in enumerate(self._gaps):
            if count and until >= self._now + limit:
                part = min(count, number)
                self._gaps[place] = (until, number - part)
                count -= part

    def copy(self) -> Timeline:
        """The same, to try something out."""
        twin = Timeline(self._now, 0)
        twin._free, twin._gaps, twin._total = list(self._free), [], self._total
        return twin

    def _gather(self, count: int) -> float:
        """Take the earliest devices of several entries; returns when all are free. What stands idle
        until then may be used by a short job."""
        when = self.start(count)
        while count:
            since, number = self._free[0]
            part = min(number, count)
            self._spend(0, part)
            if since <= self._now < when:
                self._gaps.append((when, part))
            count -= part
        return when

    def _spend(self, place: int, count: int) -> None:
        when, number = self._free[place]
        if number > count:
            self._free[place] = (when, number - count)
        else:
            del self._free[place]


class _Spot:
    """What one node has left in this cycle."""

    __slots__ = ("cpus", "free", "memory")

    def __init__(self, node: NodeState) -> None:
        self.cpus = node.cpus - node.cpus_used
        self.memory = node.memory - node.memory_used
        self.free = {gres: n for gres in node.gres if (n := node.free(gres)) > 0}


class Room:
    """What could start at this moment, node by node. ``nodes``: those that take jobs."""

    def __init__(self, nodes: Iterable[NodeState]) -> None:
        self._spots = {node.name: _Spot(node) for node in nodes}
        self._open: dict[int, list[_Spot]] = {}
        self._full: set[tuple[int, int, int, int, int]] = set()

    def take(self, option: Option, nodes: int) -> bool:
        """Take the devices, CPUs and memory of one job; False, and nothing taken, if they are not
        there. What does not fit once fits no more in this cycle."""
        shape = (id(option.pools), option.devices, option.cpus, option.memory, nodes)
        if shape in self._full:
            return False
        found = self._find(option, nodes)
        if len(found) < nodes:
            self._full.add(shape)
            return False
        for spot in found:
            spot.free[option.gres] -= option.devices
            spot.cpus -= option.cpus
            spot.memory -= option.memory
        return True

    def has(self, option: Option, nodes: int) -> bool:
        """Whether ``take`` would succeed."""
        shape = (id(option.pools), option.devices, option.cpus, option.memory, nodes)
        if shape in self._full:
            return False
        if len(self._find(option, nodes)) < nodes:
            self._full.add(shape)
            return False
        return True

    def _find(self, option: Option, nodes: int) -> list[_Spot]:
        found: list[_Spot] = []
        for pool in option.pools:
            if not pool.usable:
                continue
            for spot in self._spots_of(pool):
                if (
                    spot.free[option.gres] >= option.devices
                    and spot.cpus >= option.cpus
                    and spot.memory >= option.memory
                ):
                    found.append(spot)
                    if len(found) == nodes:
                        return found
        return found

    def _spots_of(self, pool: Pool) -> list[_Spot]:
        """Nodes with a free device, those with the fewest first: whole nodes stay whole."""
        spots = self._open.get(id(pool))
        if spots is None:
            named = (self._spots.get(node.name) for node in reversed(pool.nodes))
            spots = [spot for spot in named if spot and spot.free.get(pool.gres)]
        elif any(not spot.free[pool.gres] for spot in spots[:1]):
            spots = [spot for spot in spots if spot.free[pool.gres]]
        self._open[id(pool)] = spots
        return spots
