"""Partitions as ``scontrol -o show partitions`` tells them: who may use them, and how much."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hpcmgr.slurm.record import known, number, parse_record, seconds

Names = frozenset[str]


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition; ``nodes`` is not needed since each node names its partitions.

    Allowed and denied accounts count with all accounts below them; of an ``allow_*`` None means
    everybody. Of limits None means none: ``max_nodes`` a job, ``max_minutes`` of its time limit,
    CPUs and memory (MiB) of a job on one node. ``qos``: the partition's own, whose limits every job
    here has. ``gpu_defaults``: CPUs and memory (MiB) that a job gets for a device if it says
    nothing, 0: none. ``tier`` and ``preempt_mode``: whose jobs may stop whose, where the site lets
    partitions decide. ``state``: UP, DOWN (jobs wait), DRAIN or INACTIVE (jobs are not taken).
    """

    name: str
    default: bool = False
    up: bool = True
    exclusive: bool = False
    state: str = "UP"
    allow_accounts: Names | None = None
    deny_accounts: Names = frozenset()
    allow_qos: Names | None = None
    deny_qos: Names = frozenset()
    allow_groups: Names | None = None
    qos: str = ""
    max_nodes: int | None = None
    max_minutes: int | None = None
    max_cpus_per_node: int | None = None
    max_memory_per_node: int | None = None
    gpu_defaults: tuple[int, int] = (0, 0)
    tier: int = 1
    preempt_mode: str = "OFF"


def parse_partitions(text: str) -> Iterable[Partition]:
    """Records of ``scontrol -o show partitions``."""
    for line in text.splitlines():
        record = parse_record(line)
        if "PartitionName" in record:
            yield _partition(record, line)


def _partition(record: Mapping[str, str], line: str) -> Partition:
    state = record.get("State", "UP")
    return Partition(
        record["PartitionName"],
        default=record.get("Default") == "YES",
        up=state == "UP",
        # From 26.05 on Exclusive=NODE, before OverSubscribe=EXCLUSIVE.
        exclusive=record.get("OverSubscribe") == "EXCLUSIVE"
        or "NODE" in record.get("Exclusive", ""),
        state=state,
        allow_accounts=_allowed(record.get("AllowAccounts")),
        deny_accounts=_names(record.get("DenyAccounts")),
        allow_qos=_allowed(record.get("AllowQos")),
        deny_qos=_names(record.get("DenyQos")),
        allow_groups=_allowed(record.get("AllowGroups")),
        qos=known(record.get("QoS", "")),
        max_nodes=_limit(record.get("MaxNodes")),
        max_minutes=minutes(record.get("MaxTime", "")),
        max_cpus_per_node=_limit(record.get("MaxCPUsPerNode")),
        max_memory_per_node=_limit(record.get("MaxMemPerNode")),
        gpu_defaults=parse_gpu_defaults(line),
        tier=number(record.get("PriorityTier"), 1),
        preempt_mode=record.get("PreemptMode", "OFF"),
    )


def parse_gpu_defaults(text: str) -> tuple[int, int]:
    """DefCpuPerGPU and DefMemPerGPU (MiB) of a partition's record, or of ``scontrol show config``;
    0 where they are not set."""
    found = re.search(r"JobDefaults\s*=\s*(\S+)", text)
    pairs = dict(re.findall(r"(Def\w+)=(\d+)", found[1])) if found else {}
    by_name = {name.lower(): int(value) for name, value in pairs.items()}
    return by_name.get("defcpupergpu", 0), by_name.get("defmempergpu", 0)


def _names(text: str | None) -> Names:
    return frozenset(name for name in known(text or "").split(",") if name)


def _allowed(text: str | None) -> Names | None:
    return None if text is None or text.upper() == "ALL" else _names(text)


def _limit(text: str | None) -> int | None:
    return number(text, 0) if text and text[0].isdecimal() else None


def minutes(text: str) -> int | None:
    """``7-00:00:00``, ``01:00:00``, ``30:00`` → whole minutes, begun ones too; None for no limit
    and for what is no time."""
    time = seconds(text)
    return None if time is None else -(-time // 60)
