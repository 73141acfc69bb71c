"""Devices that running jobs would have to give back: to whom, and on what ground.

What Slurm's own settings allow (PreemptType by QOS or by partition), whatever jobs there are to
make use of it. Only modes that free devices count: a suspended job keeps its GRES.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hpcmgr.capacity.count import Capacity, OnNode
from hpcmgr.capacity.demand import Demand
from hpcmgr.slurm.hostlist import expand
from hpcmgr.slurm.jobs import Job, seconds_of
from hpcmgr.slurm.preemption import FREEING, Controller, Qos


@dataclass
class Preemptable:
    """Devices of one type. ``devices``: held by jobs that somebody may stop; ``by``: how many each
    QOS (or partition) could have of them."""

    devices: int = 0
    by: dict[str, int] = field(default_factory=dict)


def preemptable(
    capacity: Capacity, demand: Demand, controller: Controller, now: float
) -> dict[str, Preemptable]:
    """By device type, on nodes that take jobs; ``now``: seconds since 1970."""
    rules = _Rules(capacity, controller, now)
    nodes = {node.state.name: node for node in capacity.nodes}
    found: dict[str, Preemptable] = {}
    for job, gres in demand.jobs:
        if job.state != "RUNNING" or not rules.apply(job):
            continue
        for node, share in shares(job, gres):
            here = nodes.get(node)
            if here is None or here.why_out:
                continue
            _count(found, share, rules.stoppers(job, here))
    return found


def _count(
    found: dict[str, Preemptable], share: Mapping[str, int], stoppers: Iterable[str]
) -> None:
    stoppers = list(stoppers)
    for key, number in share.items() if stoppers else ():
        each = found.setdefault(key, Preemptable())
        each.devices += number
        for who in stoppers:
            each.by[who] = each.by.get(who, 0) + number


def shares(job: Job, amounts: Mapping[str, int]) -> Iterator[tuple[str, dict[str, int]]]:
    """What a job holds in all, by node: alike on each, as --gres asks it (an estimate for totals as
    --gpus, which Slurm may split otherwise)."""
    nodes = expand(job.nodes) if job.nodes else []
    for place, node in enumerate(nodes):
        yield (
            node,
            {key: n // len(nodes) + (place < n % len(nodes)) for key, n in amounts.items()},
        )


class _Rules:
    def __init__(self, capacity: Capacity, controller: Controller, now: float) -> None:
        self._partitions = {part.name: part for part in capacity.partitions}
        self._controller = controller
        self._now = now

    def apply(self, job: Job) -> bool:
        """Whether the job can be stopped so that its devices are free."""
        mode, exempt = self._controller.preempt_mode, self._controller.exempt_s
        if self._controller.preempt_by == "qos":
            qos = (self._controller.qos or {}).get(job.qos, Qos())
            if qos.mode not in {"", "OFF", "CLUSTER"}:
                mode = qos.mode
            if qos.exempt_s is not None:
                exempt = qos.exempt_s
        elif self._controller.preempt_by == "partition_prio":
            partition = self._partitions.get(job.partition)
            mode = partition.preempt_mode if partition else "OFF"
        else:
            return False
        return bool(FREEING & set(mode.upper().split(","))) and self._age(job) >= exempt

    def _age(self, job: Job) -> float:
        started = seconds_of(job.start)
        return 0.0 if started is None else self._now - started

    def stoppers(self, job: Job, node: OnNode) -> Iterator[str]:
        """The QOS or partitions whose jobs may stop it there."""
        if self._controller.preempt_by == "qos":
            yield from (
                f"QOS {name}"
                for name, qos in sorted((self._controller.qos or {}).items())
                if job.qos in qos.preempts
            )
            return
        mine = self._partitions[job.partition].tier
        for name in node.state.partitions:
            other = self._partitions.get(name)
            if other and other.up and other.tier > mine:
                yield f"partition {name}"


def basis(controller: Controller) -> str:
    """On what ground the figures stand, in words."""
    if not controller.preempt_by:
        return "no preemption (PreemptType is none)"
    if controller.qos is None:
        return "not known: sacctmgr, which tells the QOS, does not answer"
    words = {"qos": "QOS", "partition_prio": "PriorityTier of partitions"}
    by = words.get(controller.preempt_by, controller.preempt_by)
    return (
        f"PreemptType=preempt/{controller.preempt_by} (by {by}), jobs that are requeued or "
        "cancelled; suspended ones keep their devices"
    )
