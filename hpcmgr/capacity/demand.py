"""Who holds devices and who waits for them: jobs summed by user, account, class or type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hpcmgr.capacity.count import NEUTRAL, Capacity
from hpcmgr.slurm.hostlist import expand
from hpcmgr.slurm.jobs import Job


@dataclass
class Load:
    """What some jobs hold or ask together; ``gres``: devices by ``name:type``, or by ``name`` where
    any type is asked. Units as Slurm has them booked."""

    jobs: int = 0
    units: int = 0
    gres: dict[str, int] = field(default_factory=dict)

    @property
    def devices(self) -> int:
        """Of all types."""
        return sum(self.gres.values())

    def add(self, jobs: int, units: int, gres: Mapping[str, int]) -> None:
        """Count so many jobs, each with these units and devices."""
        self.jobs += jobs
        self.units += jobs * units
        for key, number in gres.items():
            self.gres[key] = self.gres.get(key, 0) + jobs * number


@dataclass
class Group:
    """``held``: by running, suspended and completing jobs. ``waiting``: by all that wait;
    ``queued``: by those among them that wait for their turn alone."""

    held: Load = field(default_factory=Load)
    waiting: Load = field(default_factory=Load)
    queued: Load = field(default_factory=Load)


class Demand:
    """The jobs of a cluster that ask for devices or units; others are left out."""

    def __init__(self, capacity: Capacity, jobs: Iterable[Job]) -> None:
        self._types = frozenset(capacity.by_type)
        self._names = frozenset({"gpu", "npu", *(key.split(":")[0] for key in self._types)})
        self._units = {
            key: places[0][1].profile.booked_units or 0 if places[0][1].profile else 0
            for key, places in capacity.by_type.items()
        }
        self._here = {
            node.state.name: frozenset(here.gres for here in node.here) for node in capacity.nodes
        }
        self.jobs = tuple((job, gres) for job in jobs if (gres := self.devices(job)) is not None)

    def devices(self, job: Job) -> dict[str, int] | None:
        """Devices of one task by type; None: it asks for none and for no units."""
        found: dict[str, int] = {}
        for key, number in job.gres.items():
            name = key.split(":")[0]
            if name in NEUTRAL or name not in self._names:
                continue
            known = key if ":" in key else self._only_type(job, name)
            found[known] = found.get(known, 0) + number
        return found if found or any(key.split(":")[0] == "compute" for key in job.gres) else None

    def _only_type(self, job: Job, name: str) -> str:
        """Slurm did not tell the type that the job holds: its nodes may have just one."""
        if not job.nodes:
            return name
        here = {
            key
            for node in expand(job.nodes)
            for key in self._here.get(node, ())
            if key.split(":")[0] == name
        }
        return here.pop() if len(here) == 1 else name

    def units(self, job: Job, gres: Mapping[str, int]) -> int:
        """Units of one task: as booked, else of its devices."""
        booked = sum(n for key, n in job.gres.items() if key.split(":")[0] == "compute")
        return booked or sum(self._units.get(key, 0) * n for key, n in gres.items())

    def by(self, names: Callable[[Job], Iterable[str]]) -> dict[str, Group]:
        """Groups in order of their name; a job may be in several (partitions)."""
        found: dict[str, Group] = {}
        for job, gres in self.jobs:
            for name in names(job):
                _add(found.setdefault(name, Group()), job, self.units(job, gres), gres)
        return dict(sorted(found.items()))

    def by_type(self) -> dict[str, Group]:
        """The same for each type (or name, where any type is asked) of the cluster and the queue;
        ``unbound`` waits for hpcmgr to choose one."""
        found: dict[str, Group] = {key: Group() for key in self._types}
        for job, gres in self.jobs:
            units = self.units(job, gres)
            parts = gres or {"unbound": 0}
            for key, number in parts.items():
                mine = units if len(parts) == 1 else self._units.get(key, 0) * number
                group = found.setdefault(key, Group())
                _add(group, job, mine, {key: number} if number else {})
        return dict(sorted(found.items()))


def _add(group: Group, job: Job, units: int, gres: Mapping[str, int]) -> None:
    if not job.waits:
        group.held.add(1, units, gres)
        return
    group.waiting.add(job.tasks, units, gres)
    if job.queued:
        group.queued.add(job.tasks, units, gres)


def unseen(capacity: Capacity, demand: Demand) -> int:
    """Devices in use that no visible job holds: jobs of others are hidden (PrivateData=jobs), or
    their devices are of a type that Slurm does not tell."""
    used = sum(node.worth.devices.used for node in capacity.nodes)
    held = sum(sum(gres.values()) for job, gres in demand.jobs if not job.waits)
    return max(0, used - held)
