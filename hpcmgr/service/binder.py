"""Jobs that the shim held as unbound are bound here, then released.

Devices first, release last: released without devices a job could not run (no node has the type
``unbound``), so a crash in between loses nothing.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace

from hpcmgr.admit import Decision, Policy, decide
from hpcmgr.errors import CommandError
from hpcmgr.service.journal import Journal
from hpcmgr.service.snapshot import Snapshot, devices_of
from hpcmgr.slurm.command import run
from hpcmgr.slurm.tres import parse_gres_list
from hpcmgr.slurm.update import release_job, update_job
from hpcmgr.submit.request import JobFields, read_fields
from hpcmgr.submit.rewrite import MARK
from hpcmgr.submit.view import ClusterView

log = logging.getLogger(__name__)


class Binder:
    """Binds what was submitted while the service was away."""

    def __init__(self, policy: Policy, snapshot: Snapshot, journal: Journal) -> None:
        self._policy = policy
        self._snapshot = snapshot
        self._journal = journal
        self._told: dict[str, str] = {}

    def bind_held(self) -> int:
        """Bind every held job of the current view; returns how many were bound."""
        current = self._snapshot.current()
        if current is None:
            return 0
        view, _ = current
        jobs = [job.job_id for job in view.state.pending if is_unbound(job.tres_per_node)]
        self._told = {job: why for job, why in self._told.items() if job in jobs}
        return sum(self._bind(job.split("_")[0], view) for job in jobs)

    def _bind(self, job_id: str, view: ClusterView) -> bool:
        try:
            comment = read_admin_comment(job_id)
            held = parse_held(comment)
            if held is None:
                return False
            fields, trace = held
            current = self._snapshot.current()
            granted = current[1] if current else {}
            decision = decide(fields, self._policy, view, granted, trace, late=True)
            if decision.rewrite is None:
                self._refuse(job_id, decision, owner_of(fields))
                return False
            update_job(job_id, decision.rewrite.set)
            if decision.ranked:
                self._snapshot.grant(*devices_of(decision, fields))
            self._journal.put(decision, kind="bind", job_id=job_id, uid=owner_of(fields))
            if fields.number("priority") != 0:  # zero: the user held it himself
                release_job(job_id)
        except CommandError as error:
            # Started, cancelled or changed meanwhile, or slurmctld is away: the next cycle looks.
            self._tell(job_id, error.message)
            return False
        log.info("job %s: %s", job_id, "; ".join(decision.rewrite.messages))
        return True

    def _refuse(self, job_id: str, decision: Decision, uid: int) -> None:
        """It stays held: nothing is lost, and the reason can be read with explain."""
        error = decision.error or "not a request for devices"
        if self._told.get(job_id) != error:
            row = replace(decision, error=error)
            self._journal.put(row, kind="refuse", job_id=job_id, uid=uid)
        self._tell(job_id, error)

    def _tell(self, job_id: str, why: str) -> None:
        if self._told.get(job_id) != why:
            log.warning("job %s stays held: %s", job_id, why)
        self._told[job_id] = why


def owner_of(fields: JobFields) -> int:
    """The submitting user's uid, -1 if the shim did not tell."""
    uid = fields.number("user_id")
    return -1 if uid is None else uid


def is_unbound(tres_per_node: str) -> bool:
    """Whether a job waits for its binding."""
    if "unbound" not in tres_per_node:
        return False
    try:
        items = parse_gres_list(tres_per_node)
    except ValueError:
        return False
    return any(item.name == "compute" and item.type == "unbound" for item in items)


def read_admin_comment(job_id: str) -> str:
    """A job's admin_comment, which its user cannot write.

    From JSON: in the text form a job's name or comment could pose as it.

    Raises:
        CommandError: the job is gone, or Slurm does not answer.
    """
    argv = ("scontrol", "show", "job", job_id, "--json")
    try:
        jobs = json.loads(run(*argv).stdout)["jobs"]
        return str(jobs[0].get("admin_comment") or "")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CommandError(argv, 0, f"unexpected answer: {error}") from error


def parse_held(comment: str) -> tuple[JobFields, str] | None:
    """Fields and trace of a job that the shim held; None if it is no such job."""
    if not comment.startswith(MARK):
        return None
    try:
        record = json.loads(comment.removeprefix(MARK))
        if record.get("state") != "unbound":
            return None
        return read_fields(record.get("request")), str(record.get("trace", ""))
    except (ValueError, AttributeError):
        return None
