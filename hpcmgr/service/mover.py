"""Moving one waiting job in Slurm: looked at right before, changed in one update, read back.

Slurm has no transaction: a refused update may have changed some fields. So what was there is kept,
and put back where that happened; the job then waits as before.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from hpcmgr.admit import Policy
from hpcmgr.errors import CommandError
from hpcmgr.service.binder import with_cpus
from hpcmgr.service.waiting import Bound, Record
from hpcmgr.slurm.queue import QueuedJob, read_job
from hpcmgr.slurm.update import update_job
from hpcmgr.submit.binding import late_binding
from hpcmgr.submit.candidates import Candidate
from hpcmgr.submit.remember import is_pinned
from hpcmgr.submit.request import Ask, JobFields, read_request
from hpcmgr.submit.rewrite import MARK, rewrite
from hpcmgr.submit.view import ClusterView

log = logging.getLogger(__name__)

Values = dict[str, str | int]
_WATCHED = ("tres_per_node", "tres_per_socket", "tres_per_task", "cpus_per_task", "pn_min_cpus",
            "min_mem_per_node", "sockets_per_node", "exc_nodes", "features")  # fmt: skip


def move_job(bound: Bound, to: Candidate, policy: Policy, view: ClusterView, now: float) -> str:
    """Move a job; returns why it was not moved, "" if it was.

    Raises:
        CommandError: Slurm does not answer; the next cycle sees what became of it.
    """
    job = bound.job
    before = _record(job, read_job(str(job.number)))
    why_not = _why_not(before, job)
    if why_not or before is None:
        return why_not
    values = move_values(before, bound, to, policy, view, now)
    refusal = ""
    try:
        update_job(before.spec, values)
    except CommandError as error:
        refusal = error.stderr.strip() or error.message
    records = read_job(str(job.number))
    _keep_started(before, values, records)
    after = _record(job, records)
    if after is None or not after.waits or _shows(after, to):
        return refusal if after is None or not _shows(after, to) else ""
    _put_back(before, after)
    return f"Slurm refused: {refusal}" if refusal else "Slurm took the change but does not show it"


def _record(job: QueuedJob, records: list[QueuedJob]) -> QueuedJob | None:
    return next((r for r in records if r.number == job.number), None)


def _why_not(before: QueuedJob | None, job: QueuedJob) -> str:
    """What has happened to it since the queue was read."""
    if before is None:
        return "it is gone"
    if not before.waits:
        return "it has started or ended"
    if not before.priority:
        return "it is held"
    same = all(
        getattr(before, name) == getattr(job, name) for name in ("admin_comment", "comment", "spec")
    )
    return "" if same and before.asked == job.asked else "it was changed meanwhile"


def move_values(
    job: QueuedJob, bound: Bound, to: Candidate, policy: Policy, view: ClusterView, now: float
) -> Values:
    """Everything that changes with the device, for one update."""
    fields, old = bound.fields, bound.record
    ask = read_request(fields, view.accelerators) if fields else None
    if fields is None or not isinstance(ask, Ask):
        raise ValueError("its record holds no request in neutral units")
    selection = policy.selectors.find(ask.selector)
    exclusive = fields.exclusive or view.gives_whole_nodes(fields.string("partition"))
    binding = late_binding(to, fields, view.release, enforced=job.enforced, exclusive=exclusive)
    trace = str(old.get("trace", ""))
    done = rewrite(
        ask,
        fields,
        to,
        binding,
        selection.class_name,
        trace,
        features=selection.job_class.features,
        exclusive=exclusive,
    )
    values: Values = dict(done.set)
    values.pop("num_tasks", None)
    values.pop("admin_comment", None)
    if not exclusive:
        _cpus(values, job, to)
    if "tres_per_socket" not in values and job.text("tres_per_socket"):
        # The form of another type: Slurm adds the fields up, and takes 0 for "any".
        values |= {"tres_per_socket": "", "sockets_per_node": 0}
    for name in ("exc_nodes", "features"):
        if job.text(name) != fields.string(name):
            values.setdefault(name, fields.string(name))  # what the old type had added
    values["admin_comment"] = moved_comment(old, done.binding, fields, now)
    return with_cpus(values, max(fields.nodes, job.asked.get("num_tasks") or 1))


def pin_record(bound: Bound) -> str | None:
    """The admin_comment that says whether the job is pinned, None where it says so already."""
    state = "pinned" if is_pinned(bound.job.comment) else "bound"
    if bound.record.get("state") == state:
        return None
    return MARK + json.dumps({**bound.record, "state": state}, separators=(",", ":"))


def moved_comment(old: Record, binding: Mapping[str, object], fields: JobFields, now: float) -> str:
    """The record after a move; nodes that its user excluded since are in what was given."""
    given = {**old.get("given", {}), "exc_nodes": fields.string("exc_nodes")}
    first = old.get("from") or old.get("binding", {}).get("gres")
    record = {**old, "binding": dict(binding), "given": given, "from": first,
              "moves": int(old.get("moves") or 0) + 1, "moved": int(now)}  # fmt: skip
    return MARK + json.dumps(record, separators=(",", ":"))


def _cpus(values: Values, job: QueuedJob, to: Candidate) -> None:
    """Of a type that has no CPUs of its own, one; not those of the type before."""
    before = int(job.asked.get("cpus_per_task") or 1)
    if not to.need.cpus_given and "cpus_per_task" not in values and before > 1:
        values["cpus_per_task"] = max(1, to.need.cpus)


def _request(job: QueuedJob) -> tuple[str, ...]:
    return tuple(job.text(name) for name in ("tres_per_node", "tres_per_socket", "tres_per_task"))


def _shows(job: QueuedJob, to: Candidate) -> bool:
    return any(f"{to.gres}:{to.devices}" in text for text in _request(job))


def _keep_started(before: QueuedJob, values: Values, records: list[QueuedJob]) -> None:
    """A task that started in between keeps its devices, so it keeps its record."""
    for record in records:
        renamed = not record.waits and record.admin_comment == values["admin_comment"]
        if renamed and not _shows_values(record, values):
            update_job(record.spec, {"admin_comment": before.admin_comment})


def _shows_values(job: QueuedJob, values: Values) -> bool:
    """Whether its request is the new one."""
    wanted = str(values.get("tres_per_socket") or values.get("gres") or "")
    first = wanted.split(",")[0].removeprefix("gres/")
    return any(first in text for text in _request(job))


def _put_back(before: QueuedJob, after: QueuedJob) -> None:
    changed = [n for n in _WATCHED if before.asked.get(n) != after.asked.get(n)]
    values: Values = {}
    for name in changed:
        value = before.asked.get(name)
        if name == "tres_per_node":
            items = str(value or "").split(",")
            values["gres"] = ",".join(item.removeprefix("gres/") for item in items)
        elif name == "sockets_per_node":
            values[name] = int(value or 0)
        elif name.startswith("tres") or name in ("exc_nodes", "features"):
            values[name] = str(value or "")
        elif isinstance(value, int):
            values[name] = value
    if after.admin_comment != before.admin_comment:
        values["admin_comment"] = before.admin_comment
    if values:
        log.warning("job %s: put back as it was: %s", before.spec, ", ".join(values))
        update_job(before.spec, values)
