"""Pins: a word in the job's comment, which its owner may write as well as an administrator.

So Slurm itself decides who may set one, with or without a service; the next cycle sees it.
"""

from __future__ import annotations

from hpcmgr.errors import HpcmgrError, UsageProblem
from hpcmgr.service.waiting import record_of
from hpcmgr.slurm.command import run
from hpcmgr.slurm.queue import read_job
from hpcmgr.submit.remember import PIN, is_pinned

_LONGEST = 1024
"""Slurm's own limit of a comment."""


def set_pin(job_id: str, *, pinned: bool) -> str:
    """Pin or unpin a job; returns what to tell its user.

    Raises:
        HpcmgrError: Slurm knows no such job, or it waits no more.
        UsageProblem: hpcmgr did not bind it, or its comment has no room left.
        CommandError: Slurm refuses (another user's job) or does not answer.
    """
    jobs = read_job(job_id)
    waiting = [job for job in jobs if job.waits]
    if not waiting:
        raise HpcmgrError(
            f"job {job_id} waits no more" if jobs else f"Slurm knows no job {job_id} in its queue"
        )
    if all(record_of(job.admin_comment) is None for job in waiting):
        raise UsageProblem(
            f"job {job_id} asks for its devices by name", "late binding never moves such a job"
        )
    changed = False
    for job in waiting:
        if is_pinned(job.comment) == pinned:
            continue
        words = [word for word in job.comment.split(" ") if word != PIN]
        comment = " ".join([*words, PIN] if pinned and job.comment else [PIN] if pinned else words)
        if len(comment) > _LONGEST:
            raise UsageProblem(f"the comment of job {job_id} has no room left for {PIN}")
        run("scontrol", "update", f"JobId={job.spec}", f"Comment={comment}")
        changed = True
    if pinned:
        return f"job {job_id} {'stays' if changed else 'is pinned already: it stays'} where it is"
    return f"job {job_id} {'may move again' if changed else 'is not pinned'}"
