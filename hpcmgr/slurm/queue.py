"""Every job that Slurm still knows, with all that its binding rests on, from ``squeue --json``.

Only JSON tells admin_comment safely: in the text form a job's name could pose as it. It is large
and slow to read, so a process of its own does that (``python -m hpcmgr.slurm.queue``) and hands on
one short line a job; the service that answers submissions never waits for a parser.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hpcmgr.errors import CommandError
from hpcmgr.slurm.command import Output, run
from hpcmgr.slurm.hostlist import expand
from hpcmgr.slurm.state import array_tasks

ARGV = ("squeue", "--json", "--all", "--states=all")
_DEVICES = re.compile(r"([a-z][\w.]*:[a-z][\w.-]*):(\d+)")
_TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """One record of Slurm's: a job, a task, or the waiting tasks of an array (``tasks``).

    ``spec`` names all of the record and nothing else to ``scontrol update``. Times in seconds since
    1970, ``limit`` in seconds, None where Slurm has none; of a waiting job ``start`` is backfill's
    plan, ``end`` what its limit says. ``asked``: the fields of the request as they stand now, by
    job_desc's names. ``held``: what it holds, by node and ``name:type``.
    """

    number: int
    spec: str
    state: str
    reason: str = ""
    uid: int = -1
    account: str = ""
    priority: int = 0
    tasks: int = 1
    node_count: int = 1
    submit: float = 0.0
    start: float | None = None
    end: float | None = None
    limit: float | None = None
    het: bool = False
    enforced: bool = False
    comment: str = ""
    admin_comment: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)
    held: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether it holds its devices."""
        return self.state in {"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING"}

    @property
    def ran(self) -> bool:
        """Whether it has ended by itself, or by its time limit: not cancelled, not failed."""
        return self.state in {"COMPLETED", "TIMEOUT"}

    @property
    def waits(self) -> bool:
        """Whether it has not started."""
        return self.state == "PENDING"

    def text(self, name: str) -> str:
        """A text field of the request, "" if unset."""
        return str(self.asked.get(name) or "")


def read_queue(runner: Callable[..., Output] = run) -> list[QueuedJob]:
    """Ask Slurm for every job that waits, runs or has ended a moment ago (MinJobAge).

    Raises:
        CommandError: Slurm does not answer, or says something else.
    """
    argv = (sys.executable, "-m", "hpcmgr.slurm.queue")
    try:
        lines = runner(*argv, timeout=_TIMEOUT).stdout.splitlines()
        return [QueuedJob(**json.loads(line)) for line in lines]
    except (ValueError, TypeError) as error:
        raise CommandError(ARGV, 0, f"unexpected answer: {error}") from error


def read_job(job_id: str, runner: Callable[..., Output] = run) -> list[QueuedJob]:
    """The records of a job as they are at this moment: of an array or of a heterogeneous job all,
    also ended ones; none if it is gone.

    Raises:
        CommandError: Slurm does not answer.
    """
    argv = ("scontrol", "show", "job", job_id, "--json")
    try:
        return list(parse_queue(runner(*argv, env={"SLURM_BITSTR_LEN": "0"}).stdout))
    except CommandError as error:
        if "Invalid job id" in error.stderr:
            return []
        raise
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CommandError(argv, 0, f"unexpected answer: {error}") from error


def parse_queue(text: str) -> Iterator[QueuedJob]:
    """Jobs of ``--json``.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: it is no such JSON.
    """
    for job in json.loads(text)["jobs"]:
        yield _job(job)


def _job(job: Mapping[str, Any]) -> QueuedJob:
    states = job["job_state"]
    state = str(states[0] if isinstance(states, list) else states)
    waiting = _waiting_tasks(job)
    minutes = number_of(job, "time_limit")
    flags = job.get("flags") or []
    return QueuedJob(
        number=int(job["job_id"]),
        spec=spec_of(job),
        state="COMPLETING" if "COMPLETING" in states else state,
        reason=str(job.get("state_reason") or ""),
        uid=int(job.get("user_id", -1)),
        account=str(job.get("account") or ""),
        priority=number_of(job, "priority") or 0,
        tasks=array_tasks(waiting) if waiting else 1,
        node_count=number_of(job, "node_count") or 1,
        submit=float(number_of(job, "submit_time") or 0),
        start=float(number_of(job, "start_time") or 0) or None,
        end=float(number_of(job, "end_time") or 0) or None,
        limit=None if minutes is None else 60.0 * minutes,
        het=bool(number_of(job, "het_job_id")),
        enforced="GRES_BINDING_ENFORCED" in flags,
        comment=str(job.get("comment") or ""),
        admin_comment=str(job.get("admin_comment") or ""),
        asked=_asked(job),
        held=dict(_held(job)),
    )


def spec_of(job: Mapping[str, Any]) -> str:
    """What names all of a record of ``--json`` and nothing else to ``scontrol update`` and
    ``release``; a job id alone would mean all components and all tasks."""
    het, array = number_of(job, "het_job_id"), number_of(job, "array_job_id")
    task, waiting = number_of(job, "array_task_id"), _waiting_tasks(job)
    if het:
        return f"{het}+{number_of(job, 'het_job_offset') or 0}"
    if array and waiting:
        return f"{array}_[{waiting}]"
    if array and task is not None:
        return f"{array}_{task}"
    return str(job["job_id"])


def _waiting_tasks(job: Mapping[str, Any]) -> str:
    """``0-2,7`` of ``0-2,7%4``: Slurm shows the throttle with them, but takes it in no id."""
    return str(job.get("array_task_string") or "").partition("%")[0]


_TEXTS = {
    "account": "account", "qos": "qos", "partition": "partition", "features": "features",
    "exc_nodes": "excluded_nodes", "req_nodes": "required_nodes", "reservation": "resv_name",
    "tres_per_node": "tres_per_node", "tres_per_socket": "tres_per_socket",
    "tres_per_task": "tres_per_task", "tres_per_job": "tres_per_job",
    "cpus_per_tres": "cpus_per_tres", "mem_per_tres": "memory_per_tres",
}  # fmt: skip
_NUMBERS = {
    "min_nodes": "node_count", "max_nodes": "max_nodes", "num_tasks": "tasks",
    "cpus_per_task": "cpus_per_task", "pn_min_cpus": "minimum_cpus_per_node", "min_cpus": "cpus",
    "min_mem_per_node": "memory_per_node", "min_mem_per_cpu": "memory_per_cpu",
    "sockets_per_node": "sockets_per_node",
}  # fmt: skip


def _asked(job: Mapping[str, Any]) -> dict[str, str | int]:
    asked: dict[str, str | int] = {}
    for name, key in _TEXTS.items():
        if job.get(key):
            asked[name] = str(job[key])
    for name, key in _NUMBERS.items():
        value = number_of(job, key)
        if value is not None:
            asked[name] = value
    return asked


def _held(job: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, int]]]:
    """``gres_detail`` has a text for each node, in the order of the job's nodes."""
    texts = job.get("gres_detail")
    if not isinstance(texts, list) or not texts:
        return
    for node, text in zip(expand(str(job.get("nodes") or "")), texts, strict=False):
        found = {key: int(count) for key, count in _DEVICES.findall(str(text))}
        if found:
            yield node, found


def number_of(job: Mapping[str, Any], name: str) -> int | None:
    """A number of a record, None if unset."""
    value = job.get(name)
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") else None
    return int(value) if isinstance(value, int | float) else None


def main() -> None:
    """The process of its own: JSON of squeue in, a line a job out."""
    try:
        said = run(*ARGV, env={"SLURM_BITSTR_LEN": "0"}, timeout=_TIMEOUT - 10).stdout
        for job in parse_queue(said):
            sys.stdout.write(json.dumps(dataclasses.asdict(job), separators=(",", ":")) + "\n")
    except CommandError as error:
        sys.exit(error.message)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        sys.exit(f"squeue --json: unexpected answer: {error!r}")


if __name__ == "__main__":
    main()
