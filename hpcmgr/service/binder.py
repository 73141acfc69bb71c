"""Jobs that the shim held as unbound are bound here, then released.

Devices first, release last: released without devices a job could not run (no node has the type
``unbound``), so a crash in between loses nothing.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hpcmgr.admit import Decision, Policy, decide
from hpcmgr.errors import CommandError
from hpcmgr.service.held import Held, base_id, is_unbound, read_held
from hpcmgr.service.journal import Journal
from hpcmgr.service.snapshot import Snapshot, devices_of
from hpcmgr.slurm.update import release_job, update_job
from hpcmgr.submit.rewrite import MARK
from hpcmgr.submit.view import ClusterView

log = logging.getLogger(__name__)

_CYCLE_SECONDS = 1.0
"""The next picture of the cluster waits for the binder: what it has not reached is next then."""

_REFUSED_SECONDS, _FAILED_SECONDS = 60.0, 5.0
"""After that long a job is looked at again, at 20 ms each, though the cluster is as it was."""

Shape = tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True)
class _Later:
    """Not to be looked at before ``at`` unless the cluster has another shape."""

    at: float
    shape: Shape


class Binder:
    """Binds what was submitted while the service was away."""

    def __init__(
        self,
        policy: Policy,
        snapshot: Snapshot,
        journal: Journal,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = policy
        self._snapshot = snapshot
        self._journal = journal
        self._clock = clock
        self._later: dict[str, _Later] = {}
        self._told: dict[str, str] = {}

    def bind_held(self) -> int:
        """Bind held jobs of the current view, for about a second; returns how many were bound."""
        current = self._snapshot.current()
        if current is None:
            return 0
        view, started, bound = current[0], self._clock(), 0
        pending = view.state.pending
        jobs = dict.fromkeys(base_id(j.job_id) for j in pending if is_unbound(j.tres_per_node))
        self._later = {job: later for job, later in self._later.items() if job in jobs}
        self._told = {job: why for job, why in self._told.items() if base_id(job) in jobs}
        shape = shape_of(view) if jobs else ()
        for job in jobs:
            later = self._later.get(job)
            if later and self._clock() < later.at and later.shape == shape:
                continue
            if self._clock() - started > _CYCLE_SECONDS:
                break
            done, again = self._bind_all(job, view)
            bound += done
            self._later[job] = _Later(self._clock() + again, shape)
        return bound

    def _bind_all(self, job: str, view: ClusterView) -> tuple[int, float]:
        """Bind each record of a job; how many were, and seconds until the next look."""
        bound, again = 0, _REFUSED_SECONDS
        try:
            records = read_held(job)
        except CommandError as error:
            self._tell(job, error.message)
            return 0, _FAILED_SECONDS
        for held in records:
            try:
                bound += self._bind(held, view)
            except (CommandError, ValueError) as error:
                # Started, cancelled or changed meanwhile, or slurmctld is away.
                self._tell(held.job_id, error.message if isinstance(error, CommandError)
                           else str(error))  # fmt: skip
                again = _FAILED_SECONDS
        return bound, again

    def _bind(self, held: Held, view: ClusterView) -> bool:
        current = self._snapshot.current()
        granted = current[1] if current else {}
        decision = decide(held.fields, self._policy, view, granted, held.trace, late=True)
        if decision.rewrite is None:
            self._refuse(held, decision)
            return False
        update_job(held.job_id, with_cpus(decision.rewrite.set, held.tasks))
        if decision.ranked:
            self._snapshot.grant(devices_of(decision, held.fields))
        self._journal.put(decision, kind="bind", job_id=base_id(held.job_id), uid=held.owner)
        # Priority zero: its user submitted it held; by_admin: an administrator held it since.
        if held.fields.number("priority") != 0 and not held.by_admin:
            release_job(held.job_id)
        log.info("job %s: %s", held.job_id, "; ".join(decision.rewrite.messages))
        return True

    def _refuse(self, held: Held, decision: Decision) -> None:
        """It stays held, nothing is lost: why stands where its user can read it (scontrol show job,
        explain), written once."""
        error = decision.error or "not a request for devices"
        self._tell(held.job_id, error)
        if held.refusal == error:
            return
        first = {"v": 1, "state": "refused", "error": error}
        comment = {**first, **held.record, **first}
        text = MARK + json.dumps(comment, separators=(",", ":"))
        update_job(held.job_id, {"admin_comment": text})
        row = replace(decision, error=error)
        self._journal.put(row, kind="refuse", job_id=base_id(held.job_id), uid=held.owner)

    def _tell(self, job_id: str, why: str) -> None:
        if self._told.get(job_id) != why:
            log.warning("job %s stays held: %s", job_id, why)
        self._told[job_id] = why


def with_cpus(values: Mapping[str, str | int], tasks: int) -> dict[str, str | int]:
    """The CPUs of ``cpus_per_task`` on every node and in all: an update counts nothing itself.

    With CPUsPerTask alone a job of one node runs with one CPU, one of several nodes never starts;
    with NumCPUs but no MinCPUsNode the second node has one CPU.
    """
    each = values.get("cpus_per_task")
    if not isinstance(each, int):
        return dict(values)
    return {"pn_min_cpus": each, "min_cpus": each * tasks, **values}


def shape_of(view: ClusterView) -> Shape:
    """What of the cluster decides whether a request can ever be served."""
    return tuple(
        (profile.name, p.count, p.usable, p.partitions, p.features, p.cpus, p.memory, len(p.nodes))
        for profile, pools in view.types
        for p in pools
    )
