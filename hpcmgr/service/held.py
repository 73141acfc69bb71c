"""Jobs that the shim held as unbound, as Slurm tells of them.

One job id may be several records: components of a heterogeneous job, tasks that were split from
their array. Each has its own request, admin_comment and hold, and is bound and released by itself.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from hpcmgr.errors import CommandError
from hpcmgr.slurm.command import run
from hpcmgr.slurm.queue import number_of, spec_of
from hpcmgr.slurm.tres import parse_gres_list
from hpcmgr.submit.request import JobFields, read_fields
from hpcmgr.submit.rewrite import MARK

Record = dict[str, Any]
_ID = re.compile(r"(\d+)(?:([_+])(\d+))?")


@dataclass(frozen=True, slots=True)
class Held:
    """``job_id``: what ``scontrol update`` takes (``12``, ``12+1``, ``12_3``, ``12_[4-9]``).
    ``by_admin``: an administrator held it after the shim did. ``refusal``: what its user was told
    last, "" if nothing; ``record``: the object in its admin_comment."""

    job_id: str
    fields: JobFields
    trace: str
    tasks: int
    by_admin: bool
    refusal: str
    record: Record

    @property
    def owner(self) -> int:
        """The submitting user's uid, -1 if the shim did not tell."""
        uid = self.fields.number("user_id")
        return -1 if uid is None else uid


def base_id(job_id: str) -> str:
    """``12_[3-6]``, ``12+1`` → ``12``."""
    return re.split(r"[_+]", job_id, maxsplit=1)[0]


def is_unbound(tres_per_node: str) -> bool:
    """Whether a job waits for its binding."""
    if "unbound" not in tres_per_node:
        return False
    try:
        items = parse_gres_list(tres_per_node)
    except ValueError:
        return False
    return any(item.name == "compute" and item.type == "unbound" for item in items)


def read_held(job_id: str) -> list[Held]:
    """The records of a job (by its base id) that wait for their binding.

    Raises:
        CommandError: the job is gone, or Slurm does not answer.
    """
    found = []
    for record in _read(job_id):
        if not is_unbound(str(record.get("tres_per_node") or "")):
            continue
        told = parse_held(str(record.get("admin_comment") or ""))
        if told is None:
            continue
        fields, trace, comment = told
        tasks = max(number_of(record, "tasks") or 1, fields.nodes)
        found.append(
            Held(
                spec_of(record), fields, trace, tasks,
                by_admin=record.get("state_reason") == "JobHeldAdmin",
                refusal=str(comment.get("error") or ""), record=comment,
            )
        )  # fmt: skip
    return found


def read_admin_comment(job_id: str) -> str:
    """The admin_comment, which its user cannot write, of ``12``, ``12+1`` or ``12_3``.

    Raises:
        CommandError: the job is gone, or Slurm does not answer.
    """
    records = _read(job_id)
    record = next((r for r in records if _is(r, job_id)), records[0])
    return str(record.get("admin_comment") or "")


def parse_held(comment: str) -> tuple[JobFields, str, Record] | None:
    """Fields and trace of a job that the shim held, with the whole object; None if it is none."""
    if not comment.startswith(MARK):
        return None
    try:
        record = json.loads(comment.removeprefix(MARK))
        if record.get("state") not in {"unbound", "refused"}:
            return None
        return read_fields(record.get("request")), str(record.get("trace", "")), record
    except (ValueError, AttributeError, TypeError):
        return None


def _read(job_id: str) -> list[Record]:
    """From JSON: in the text form a job's name or comment could pose as another field."""
    argv = ("scontrol", "show", "job", job_id, "--json")
    try:
        # Without it, Slurm cuts the list of an array's tasks.
        jobs = json.loads(run(*argv, env={"SLURM_BITSTR_LEN": "0"}).stdout)["jobs"]
    except (ValueError, LookupError, TypeError) as error:
        raise CommandError(argv, 0, f"unexpected answer: {error}") from error
    if not isinstance(jobs, list) or not jobs or not all(isinstance(job, dict) for job in jobs):
        raise CommandError(argv, 0, "unexpected answer: no jobs in it")
    return jobs


def _is(record: Record, job_id: str) -> bool:
    found = _ID.fullmatch(job_id)
    if not found:
        return False
    number, sign, part = int(found[1]), found[2], found[3]
    if sign is None:
        return number_of(record, "job_id") == number
    of, index = (
        ("het_job_id", "het_job_offset") if sign == "+" else ("array_job_id", "array_task_id")
    )
    return number_of(record, of) == number and number_of(record, index) == int(part)
