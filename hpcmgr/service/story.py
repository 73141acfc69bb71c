"""What is known of a job's binding: from the job itself, and from the service's journal."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hpcmgr.errors import (
    CommandError,
    CredentialError,
    HpcmgrError,
    ServiceError,
    UsageProblem,
)
from hpcmgr.service.askdoor import ask
from hpcmgr.service.held import read_admin_comment
from hpcmgr.service.journal import read, traces_of
from hpcmgr.settings import Site
from hpcmgr.slurm.command import Output, run
from hpcmgr.submit.rewrite import MARK

Record = dict[str, Any]
_JOB = re.compile(r"(\d{1,10})([_+]\d+)?")
_TRACE = re.compile(r"[a-z]-[0-9a-f]{4,64}")


@dataclass(frozen=True)
class Story:
    """``comment``: the job's admin_comment as an object, empty if unknown. ``silence`` says why the
    journal's part is missing, and ``hint`` what to do; ``asked``: it should have been there."""

    comment: Record = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    silence: str = ""
    hint: str = ""
    asked: bool = False


def tell(site: Site, job_or_trace: str, runner: Callable[..., Output] = run) -> Story:
    """Collect the story.

    Raises:
        UsageProblem: neither a job id nor a trace, or a job that hpcmgr did not bind.
        HpcmgrError: Slurm does not know the job.
        CommandError: Slurm does not answer.
        ServiceError, CredentialError: for a trace, where the journal is all there is.
    """
    job = _JOB.fullmatch(job_or_trace)
    if not job and not _TRACE.fullmatch(job_or_trace):
        raise UsageProblem(
            f"{job_or_trace!r} is neither a job id nor a trace", "for example 1234 or t-9f3c2a1b"
        )
    comment = _comment(job_or_trace, runner) if job else {}
    trace = str(comment.get("trace", "")) if job else job_or_trace
    try:
        records = _records(site, trace, job[1] if job else "")
    except (ServiceError, CredentialError) as error:
        if not comment:
            raise
        return Story(comment, [], error.message, error.hint, asked=site.service.door is not None)
    return Story(comment, records)


def _comment(job_id: str, runner: Callable[..., Output]) -> Record:
    """From slurmctld; from the accounts when it has forgotten the job."""
    text: str | None
    try:
        text = read_admin_comment(job_id)
    except CommandError as error:
        text = _comment_in_accounts(job_id, runner)
        if text is None and (error.returncode == 0 or "Invalid job id" in error.stderr):
            raise HpcmgrError(
                f"Slurm knows no job {job_id}, neither in its queue nor in its accounts"
            ) from error
        if text is None:
            raise
    if not text.startswith(MARK):
        raise UsageProblem(f"job {job_id} was not bound by hpcmgr")
    try:
        comment = json.loads(text.removeprefix(MARK))
    except ValueError:
        comment = None
    if not isinstance(comment, dict):
        raise UsageProblem(f"job {job_id}: its admin_comment is not what hpcmgr wrote")
    return comment


def _comment_in_accounts(job_id: str, runner: Callable[..., Output]) -> str | None:
    """None: no such job, or no accounts here. Slurm writes the comment there at the job's end."""
    argv = ("sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job_id}",
            "--format=AdminComment")  # fmt: skip
    try:
        lines = runner(*argv).stdout.splitlines()
    except CommandError:
        return None
    return lines[-1] if lines else None


def _records(site: Site, trace: str, job: str) -> list[Record]:
    """From the file where it can be read, else through the door."""
    journal = site.service.state_dir / "journal.sqlite"
    if os.access(journal, os.R_OK):
        traces = [trace] if trace else traces_of(journal, job)
        return [record for each in traces for record in read(journal, trace=each)]
    if site.service.door is None:
        raise ServiceError(
            "the service's journal cannot be read here",
            "with service.door in site.yaml the service answers its users",
        )
    request: dict[str, object] = {"op": "explain"}
    request |= {"trace": trace} if trace else {"job": job}
    records = ask(site.service.door, request).get("records")
    return records if isinstance(records, list) else []
