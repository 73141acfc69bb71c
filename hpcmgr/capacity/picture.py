"""Everything that the capacity view shows, of one moment."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hpcmgr.capacity.count import Capacity, count
from hpcmgr.capacity.demand import Demand
from hpcmgr.capacity.preempt import Preemptable, preemptable
from hpcmgr.capacity.scope import Scope
from hpcmgr.profile import DeviceProfile, ProfileLibrary
from hpcmgr.settings import JobClass, Site
from hpcmgr.slurm.command import run
from hpcmgr.slurm.jobs import Details, Job
from hpcmgr.slurm.preemption import Controller
from hpcmgr.slurm.reader import Runner, read_cluster, read_controller, read_details, read_jobs
from hpcmgr.slurm.state import ClusterState, NodeState
from hpcmgr.submit.selectors import Selection


@dataclass(frozen=True)
class Picture:
    """``taken``: seconds since 1970 before Slurm was asked, ``age``: seconds that passed until all
    was read and counted. ``jobs``: all that show; ``demand``: those with devices.
    ``details``: by job number, None where they were not asked for."""

    site: Site
    library: ProfileLibrary
    state: ClusterState
    capacity: Capacity
    jobs: tuple[Job, ...]
    demand: Demand
    controller: Controller
    preemptable: Mapping[str, Preemptable]
    details: Mapping[int, Details] | None
    scope: Scope
    taken: float = 0.0
    age: float = 0.0

    @property
    def class_names(self) -> tuple[str, ...]:
        """Those of site.yaml, and ``default``."""
        return tuple(sorted({"default", *self.site.classes}))

    def of_class(self, name: str) -> Capacity:
        """What a request of that class could get: only what it allows, usable by its own needs."""
        job_class = self.site.classes.get(name, JobClass())
        selection = Selection(name, job_class)

        def allowed(node: NodeState, profile: DeviceProfile | None) -> bool:
            return (
                profile is not None
                and selection.allows(profile) is None
                and frozenset(job_class.features) <= node.features
                and (profile.booked_units or 0) >= (job_class.units_per_device_min or 1)
                and (profile.memory_gib or 0) >= (job_class.memory_per_device_gib or 0)
            )

        return count(self.state, self.library, job_class).only(allowed)


def take(
    site: Site,
    library: ProfileLibrary,
    runner: Runner = run,
    *,
    scope: Scope | None = None,
    details: bool = False,
    pending: bool = False,
) -> Picture:
    """Ask Slurm and count.

    Args:
        site: for its classes.
        library: what a device is worth.
        runner: runs Slurm's tools.
        scope: whose view; None: everything.
        details: the class and the single devices of jobs too (slow).
        pending: the queue as admission reads it.

    Raises:
        CommandError: Slurm did not answer.
    """
    taken, started = time.time(), time.monotonic()
    picture = make_picture(
        site,
        library,
        read_cluster(started, runner, pending=pending),
        read_jobs(runner),
        controller=read_controller(runner),
        details=read_details(runner) if details else None,
        scope=scope,
        taken=taken,
    )
    return replace(picture, age=time.monotonic() - started)


def make_picture(
    site: Site,
    library: ProfileLibrary,
    state: ClusterState,
    jobs: Iterable[Job] = (),
    *,
    controller: Controller | None = None,
    details: Mapping[int, Details] | None = None,
    scope: Scope | None = None,
    taken: float = 0.0,
) -> Picture:
    """Count what was read."""
    scope, controller = scope or Scope(), controller or Controller()
    state = scope.limit(state)
    capacity = count(state, library, site.default_class)
    seen = tuple(job for job in jobs if scope.sees(job.partition))
    demand = Demand(capacity, seen)
    stoppable = preemptable(capacity, demand, controller, taken)
    return Picture(
        site, library, state, capacity, seen, demand, controller, stoppable, details, scope, taken
    )
