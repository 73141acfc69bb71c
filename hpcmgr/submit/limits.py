"""Limits that a job can never keep: of its QOS, its associations and its partition.

As Slurm does it, the first that sets a limit for a TRES holds: the partition's QOS, the job's QOS
(before the partition's with OverPartQOS), then the association; groups' limits of an account and of
all above it hold together. Only what one job alone would exceed is told: what others use now may be
free later. Billing and energy are Slurm's to count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hpcmgr.slurm.accounts import Accounts, Limit, Qos
from hpcmgr.slurm.partition import Partition
from hpcmgr.submit.messages import text

Booked = Mapping[str, int]
"""TRES of one node: ``{"gres/gpu:a100": 2, "gres/compute": 16, "cpu": 8, "mem": 4000}``."""


@dataclass(frozen=True, slots=True)
class Cap:
    """The most of one TRES, and who allows no more."""

    most: int
    who: str


@dataclass(frozen=True, slots=True)
class Caps:
    """What a job may take in one partition, in all and on each node."""

    job: dict[str, Cap] = field(default_factory=dict)
    node: dict[str, Cap] = field(default_factory=dict)

    def over(self, booked: Booked, nodes: int) -> str:
        """Why a job that takes ``booked`` on each of ``nodes`` can never run; "" if it can."""
        for caps, factor in ((self.node, 1), (self.job, nodes)):
            for tres, cap in caps.items():
                count = nodes if tres == "node" else booked.get(tres, 0) * factor
                if count > cap.most:
                    what = _WORDS.get(tres, tres.removeprefix("gres/"))
                    most = cap.most or "none"
                    return text("over_limit", count=count, what=what, who=cap.who, most=most)
        return ""


def over_all(bounds: Iterable[Caps], booked: Booked, nodes: int) -> str:
    """Why a job may do so within none of the ``bounds``; "" if within one, or there are none."""
    worst = ""
    for caps in bounds:
        why = caps.over(booked, nodes)
        if not why:
            return ""
        worst = max(worst, why)
    return worst


_WORDS = {"gres/compute": "units", "gres/vram": "GiB of device memory", "cpu": "CPUs",
          "mem": "MiB of memory", "node": "nodes"}  # fmt: skip
_QOS_LIMITS = ("per_job", "per_node", "per_user", "per_account", "group")


def caps_of(
    partition: Partition, account: str, user: str, qos: str, accounts: Accounts | None
) -> Caps:
    """Everything that bounds a job of that account and user in a partition."""
    caps = Caps()
    name = partition.name
    for tres, most in (
        ("cpu", partition.max_cpus_per_node),
        ("mem", partition.max_memory_per_node),
    ):
        if most is not None:
            caps.node[tres] = Cap(most, text("by_partition", partition=name))
    if accounts is None or not accounts.limited:
        return caps
    levels = _in_order(accounts.qos.get(partition.qos), accounts.qos.get(qos))
    for kind in _QOS_LIMITS:
        seen: set[str] = set()
        for level in levels:
            _add(caps, kind, getattr(level, kind), text(f"by_qos_{kind}", qos=level.name), seen)
            seen |= getattr(level, kind).keys()
    _add_associations(caps, account, user, accounts, name, levels)
    return caps


def _in_order(of_partition: Qos | None, of_job: Qos | None) -> list[Qos]:
    order = [of_partition, of_job]
    if of_job and "OverPartQOS" in of_job.flags:
        order.reverse()
    return [qos for qos in order if qos]


def _add_associations(
    caps: Caps, account: str, user: str, accounts: Accounts, partition: str, levels: list[Qos]
) -> None:
    mine = accounts.find(account, user, partition)
    if mine is None:
        return
    set_by_qos = {kind: {t for q in levels for t in getattr(q, kind)} for kind in _QOS_LIMITS}
    who = text("by_user", account=account, user=user)
    for kind, limit in (("per_job", mine.per_job), ("per_node", mine.per_node)):
        each = text(f"by_account_{kind}", account=account)
        _add(caps, kind, limit, each, set_by_qos[kind])
    _add(caps, "group", mine.group, who, set_by_qos["group"])
    for above in accounts.lineage(account):
        group = accounts.associations[above, "", ""].group
        _add(caps, "group", group, text("by_account_group", account=above), set_by_qos["group"])


def _add(caps: Caps, kind: str, limit: Limit, who: str, already: Iterable[str]) -> None:
    """The tighter one of each TRES, but for those that are settled ``already``."""
    into = caps.node if kind == "per_node" else caps.job
    for tres, most in limit.items():
        if tres not in already and (tres not in into or most < into[tres].most):
            into[tres] = Cap(most, who)
