"""Slurm's queue → waiting jobs with the types that they may have (pure, given Slurm's records)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hpcmgr.admit import Decision, Policy, decide
from hpcmgr.slurm.queue import QueuedJob
from hpcmgr.slurm.tres import parse_gres_list
from hpcmgr.submit.estimate import Option, Running
from hpcmgr.submit.habit import Habit
from hpcmgr.submit.options import options_of
from hpcmgr.submit.rebind import Waiting
from hpcmgr.submit.remember import is_pinned, recall
from hpcmgr.submit.request import Ask, JobFields, read_request
from hpcmgr.submit.rewrite import MARK
from hpcmgr.submit.view import ClusterView

Record = dict[str, Any]

_Own = tuple[str, int, int]
"""``name:type``, how many of it on each node, and how many types in all."""
_DEFAULTS = "Slurm's DefMemPerGPU is in it, and takes no device of another name"
"""Once Slurm has looked at such a job, every update to another name is refused (24.11.5, 26.05.5),
whatever else it says; only emptying all GRES fields helps, and a job that starts right then has no
device."""
_NO_LIMIT = 365 * 86400.0
_ITS_TURN = frozenset(
    {"", "None", "Priority", "Resources", "ReqNodeNotAvail", "NodeDown", "BadConstraints"}
)
"""Reasons of jobs that wait for devices; the last three also where these are out of service."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A job that hpcmgr bound: the record in its admin_comment, the request behind it, the decision
    on it as of today (None where it cannot be decided anew)."""

    job: QueuedJob
    record: Record
    fields: JobFields | None = None
    decision: Decision | None = None


@dataclass
class Queue:
    """``bound`` and ``specs`` by Slurm's number; ``others`` wait for something else than devices:
    the reason."""

    waiting: list[Waiting] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)
    bound: dict[str, Bound] = field(default_factory=dict)
    specs: dict[str, str] = field(default_factory=dict)
    others: dict[str, tuple[QueuedJob, str]] = field(default_factory=dict)


def record_of(admin_comment: str) -> Record | None:
    """The object in an admin_comment, None if hpcmgr did not write it."""
    if not admin_comment.startswith(MARK):
        return None
    try:
        record = json.loads(admin_comment.removeprefix(MARK))
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def make_queue(
    jobs: Iterable[QueuedJob], policy: Policy, view: ClusterView, habit: Habit, now: float
) -> Queue:
    """All that a cycle looks at."""
    maker = _Maker(policy, view, habit)
    usable = {node.name for node in view.state.nodes if node.usable}
    queue = Queue()
    for job in jobs:
        if job.waits:
            maker.add(job, queue)
        elif job.held and job.holds:
            queue.running.append(_running(job, usable, habit, now))
    return queue


def _running(job: QueuedJob, usable: set[str], habit: Habit, now: float) -> Running:
    # What a drained node gives back is given to nobody.
    held = {node: devices for node, devices in job.held.items() if node in usable}
    limit = _NO_LIMIT if job.limit is None else job.limit
    return Running(held, habit.end(job.account, job.start or now, limit, now))


class _Maker:
    """Turns records into waiting jobs; requests of one sort are decided once."""

    def __init__(self, policy: Policy, view: ClusterView, habit: Habit) -> None:
        self._policy = policy
        self._view = view
        self._habit = habit
        self._sorts: dict[object, tuple[Decision, tuple[Option, ...]]] = {}
        self._names = view.accelerators | {"gpu", "npu"}

    def add(self, job: QueuedJob, queue: Queue) -> None:
        """Put one waiting record where it belongs; what wants no devices is left out."""
        record = record_of(job.admin_comment)
        own = _devices(job, self._names)
        if record is not None and record.get("state") in {"unbound", "refused"}:
            queue.others[str(job.number)] = (job, "it is not bound yet")
        elif own is None:
            if record is not None:
                queue.others[str(job.number)] = (job, "its request was changed by hand")
        elif job.reason not in _ITS_TURN or not job.priority:
            queue.others[str(job.number)] = (job, f"it waits for something else: {job.reason}")
        else:
            self._wait(job, record, own, queue)

    def _wait(self, job: QueuedJob, record: Record | None, own: _Own, queue: Queue) -> None:
        limit = _NO_LIMIT if job.limit is None else job.limit
        bound, fixed = self._bound(job, record, own)
        options: tuple[Option, ...] = ()
        if bound and bound.fields and not fixed:
            decision, options = self._options(bound.fields, enforced=job.enforced)
            bound = Bound(job, bound.record, bound.fields, decision)
            if job.text("cpus_per_tres") or job.text("mem_per_tres"):
                options = tuple(o for o in options if _name(o.gres) == _name(own[0]))
                fixed = "" if len(options) > 1 else _DEFAULTS
        if bound:
            queue.bound[str(job.number)] = bound
        record = record or {}
        queue.specs[str(job.number)] = job.spec
        queue.waiting.append(
            Waiting(
                job_id=str(job.number),
                priority=job.priority,
                gres=own[0],
                devices=own[1],
                run=limit * self._habit.share(job.account),
                limit=limit,
                nodes=max(1, job.node_count),
                tasks=job.tasks,
                since=job.submit,
                options=options,
                planned=job.start,
                moves=_whole(record.get("moves")),
                moved=float(_whole(record.get("moved"))) or None,
                fixed=fixed,
            )
        )

    def _bound(self, job: QueuedJob, record: Record | None, own: _Own) -> tuple[Bound | None, str]:
        """The record with its request; why the job must keep its type, "" if it need not."""
        if record is None:
            return None, "its user asked for these devices by name"
        binding = record.get("binding")
        if not isinstance(binding, dict):
            return None, "its record is not what hpcmgr wrote"
        bound = Bound(job, record, recall(record, _today(job, record)))
        reasons = (
            (is_pinned(job.comment), "it is pinned"),
            (job.het, "it is part of a heterogeneous job"),
            (binding.get("per") == "task", "its devices are asked per task"),
            (own[2] > 1, "it has devices of several types"),
            ((binding.get("gres"), binding.get("devices")) != own[:2],
             "its request was changed by hand"),
            (bool(job.text("reservation")), "it belongs to a reservation"),
            (bool(binding.get("fixed")),
             "cores near the devices are kept for it, which no other type can"),
            (bound.fields is None, "it was bound by an earlier hpcmgr"),
        )  # fmt: skip
        return bound, next((why for holds, why in reasons if holds), "")

    def _options(self, fields: JobFields, *, enforced: bool) -> tuple[Decision, tuple[Option, ...]]:
        key = (enforced, tuple(sorted(fields.values.items())))
        found = self._sorts.get(key)
        if found is None:
            decision = decide(fields, self._policy, self._view, {}, "", late=True)
            options = options_of(
                decision.ranked,
                fields,
                self._view.release,
                self._speeds(decision, fields),
                enforced=enforced,
                exclusive=fields.exclusive
                or self._view.gives_whole_nodes(fields.string("partition")),
            )
            found = self._sorts[key] = decision, options
        return found

    def _speeds(self, decision: Decision, fields: JobFields) -> Mapping[str, float]:
        """Of one device, by profile."""
        ask = read_request(fields, self._names)
        selection = self._policy.selectors.find(ask.selector if isinstance(ask, Ask) else None)
        workload = selection.job_class.workload
        return {
            c.profile.name: self._policy.speeds.of(workload, c.profile).value
            for c in decision.ranked
        }


def _today(job: QueuedJob, record: Record) -> dict[str, object]:
    """What of the request may have changed since it was bound."""
    names = ("account", "qos", "partition", "req_nodes", "reservation")
    today: dict[str, object] = {name: job.text(name) for name in names if job.text(name)}
    if not record["binding"].get("avoids"):
        today["exc_nodes"] = job.text("exc_nodes")
    given = record.get("given")
    if isinstance(given, dict):
        before = max(1, _whole(given.get("min_nodes")))
        spread = "min_nodes" not in given and _whole(given.get("num_tasks")) > 1
        if job.node_count != before and not spread:
            today |= {"min_nodes": job.node_count, "max_nodes": job.node_count}
    return today


def _devices(job: QueuedJob, names: frozenset[str]) -> _Own | None:
    """What the job waits for; None where no type is told."""
    found: list[tuple[str, int]] = []
    for where in ("tres_per_node", "tres_per_socket", "tres_per_task", "tres_per_job"):
        text = ",".join(p for p in job.text(where).split(",") if p.strip().startswith("gres"))
        try:
            items = parse_gres_list(text)
        except ValueError:
            continue
        found += [
            (f"{item.name}:{item.type}", item.number)
            for item in items
            if item.name in names and item.type and item.number
        ]
    return (*found[0], len(found)) if found else None


def _name(gres: str) -> str:
    return gres.partition(":")[0]


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
