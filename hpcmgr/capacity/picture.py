"""Everything that the capacity view shows, of one moment."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from hpcmgr.admit import Policy
from hpcmgr.capacity.classes import Classes
from hpcmgr.capacity.count import Capacity, count
from hpcmgr.capacity.demand import Demand
from hpcmgr.capacity.preempt import Preemptable, preemptable
from hpcmgr.capacity.scope import Scope, Viewer, needs_accounts, scope_of
from hpcmgr.profile import ProfileLibrary
from hpcmgr.settings import Site
from hpcmgr.slurm.command import run
from hpcmgr.slurm.jobs import Devices, Job
from hpcmgr.slurm.preemption import Controller
from hpcmgr.slurm.reader import (
    Runner,
    read_cluster,
    read_controller,
    read_devices,
    read_jobs,
    with_accounts,
)
from hpcmgr.slurm.state import ClusterState
from hpcmgr.submit.facts import NOTHING_KNOWN, Known


@dataclass(frozen=True)
class Rules:
    """What admission decides by: the policy, and what inventories tell of the nodes."""

    policy: Policy
    known: Known = NOTHING_KNOWN


@dataclass(frozen=True)
class Picture:
    """``taken``: seconds since 1970 before Slurm was asked, ``age``: seconds that passed until all
    was read and counted. ``jobs``: all that show; ``demand``: those with devices.
    ``rules``: None where no decision was to be asked for. ``devices``: which single ones jobs hold,
    by job number; None where they were not asked for."""

    site: Site
    library: ProfileLibrary
    state: ClusterState
    capacity: Capacity
    jobs: tuple[Job, ...]
    demand: Demand
    controller: Controller
    preemptable: Mapping[str, Preemptable]
    devices: Mapping[int, Devices] | None
    scope: Scope
    rules: Rules | None
    taken: float = 0.0
    age: float = 0.0

    @cached_property
    def classes(self) -> Classes:
        """What each class could have.

        Raises:
            ValueError: the picture was taken without rules.
        """
        if self.rules is None:
            raise ValueError("the picture was taken without the rules of admission")
        return Classes(self.rules.policy, self.rules.known, self.state, self.scope)


def take(
    site: Site,
    library: ProfileLibrary,
    runner: Runner = run,
    *,
    viewer: Viewer | None = None,
    every_node: bool = False,
    rules: Rules | None = None,
    devices: bool = False,
) -> Picture:
    """Ask Slurm and count.

    Args:
        site: for its classes and owners.
        library: what a device is worth.
        runner: runs Slurm's tools.
        viewer: whose view; None: everything.
        every_node: nodes without devices too.
        rules: decisions are to be asked for: accounts and the queue are read as admission knows
            them.
        devices: which single ones jobs hold, too (slow).

    Raises:
        CommandError: Slurm did not answer.
    """
    taken, started = time.time(), time.monotonic()
    state = read_cluster(started, runner, pending=rules is not None)
    if rules or (viewer and needs_accounts(state, site.owned)):
        state = with_accounts(state, runner)
    scope = scope_of(viewer, state, site.owned) if viewer else Scope()
    picture = make_picture(
        site,
        library,
        state,
        read_jobs(runner),
        controller=read_controller(runner),
        devices=read_devices(runner) if devices else None,
        scope=replace(scope, every_node=every_node),
        rules=rules,
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
    devices: Mapping[int, Devices] | None = None,
    scope: Scope | None = None,
    rules: Rules | None = None,
    taken: float = 0.0,
) -> Picture:
    """Count what was read."""
    scope, controller = scope or Scope(), controller or Controller()
    state = scope.limit(state)
    capacity = count(state, library, site.default_class)
    seen = tuple(job for job in jobs if scope.sees(job.partition))
    demand = Demand(capacity, seen)
    return Picture(
        site,
        library,
        state,
        capacity,
        seen,
        demand,
        controller,
        preemptable(capacity, demand, controller, taken),
        devices,
        scope,
        rules,
        taken,
    )
