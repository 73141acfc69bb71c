"""Nodes and queue as Slurm tells them, and how its text is read. Asks nothing itself (reader.py).

``scontrol -o`` costs a tenth of ``--json`` at 5,000 nodes. Text is safe only where users cannot
write into it: node records are the administrators'; for jobs only fields without free text are
asked from squeue, and what a user could forge is never read from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z:/]*)=")
_GRES = re.compile(
    r"(?P<name>[A-Za-z][\w.-]*)(?::(?P<type>[A-Za-z][\w.-]*))?:(?P<count>\d+)(?P<suffix>[KMGTP]?)"
    r"(?:\((?P<note>[^)]*)\))?"
)
_OUT = frozenset(
    {
        "DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "FUTURE", "INVAL", "INVALID_REG",
        "MAINT", "MAINTENANCE", "NOT_RESPONDING", "POWERING_DOWN", "REBOOT_ISSUED",
        "REBOOT_REQUESTED", "UNKNOWN",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node. Memory in MiB; ``gres`` and ``used`` by ``name:type`` (or ``name``)."""

    name: str
    usable: bool
    state: str = "IDLE"
    reason: str = ""
    partitions: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()
    sockets: int = 1
    cores_per_socket: int = 1
    threads_per_core: int = 1
    cpus: int = 1
    cpus_used: int = 0
    memory: int = 0
    memory_used: int = 0
    gres: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    sockets_of: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def free(self, gres: str) -> int:
        """Devices of that type that no job holds."""
        return max(0, self.gres.get(gres, 0) - self.used.get(gres, 0))


@dataclass(frozen=True, slots=True)
class PendingJob:
    """One waiting job (an array counts once for each of its tasks still to start)."""

    job_id: str
    partition: str
    priority: int
    nodes: int
    tres_per_node: str
    held: bool


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition; ``nodes`` is not needed since each node names its partitions."""

    name: str
    default: bool = False
    up: bool = True
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class ClusterState:
    """All of it, as of ``taken`` (time.monotonic of the reader's machine)."""

    taken: float
    release: str
    nodes: tuple[NodeState, ...]
    partitions: tuple[Partition, ...] = ()
    pending: tuple[PendingJob, ...] = ()

    @property
    def default_partition(self) -> str | None:
        """Where a job goes that names none."""
        return next((p.name for p in self.partitions if p.default), None)


def parse_record(line: str) -> dict[str, str]:
    """``Key=value`` pairs of one line of ``scontrol -o``; values may hold spaces."""
    marks = list(_KEY.finditer(line))
    ends = [*(mark.start() for mark in marks[1:]), len(line)][: len(marks)]
    record: dict[str, str] = {}
    for mark, end in zip(marks, ends, strict=True):
        record.setdefault(mark[1], line[mark.end() : end].strip())
    return record


def parse_nodes(text: str) -> Iterable[NodeState]:
    """Records of ``scontrol -o -d show nodes``."""
    for line in text.splitlines():
        record = parse_record(line)
        if "NodeName" in record:
            yield _node(record)


def _node(record: Mapping[str, str]) -> NodeState:
    state = record.get("State", "UNKNOWN")
    flags = set(re.split(r"[+*~#!%$@^-]+", state.upper()))
    # A star means not responding, whatever the state's name is.
    usable = not (flags & _OUT) and "*" not in state
    gres, sockets = _gres(record.get("Gres", ""))
    used, _ = _gres(record.get("GresUsed", ""))
    return NodeState(
        name=record["NodeName"],
        usable=usable,
        state=state,
        reason=_known(record.get("Reason", "")),
        partitions=tuple(p for p in record.get("Partitions", "").split(",") if p),
        features=frozenset(f for f in _known(record.get("AvailableFeatures", "")).split(",") if f),
        sockets=_number(record.get("Sockets"), 1),
        cores_per_socket=_number(record.get("CoresPerSocket"), 1),
        threads_per_core=_number(record.get("ThreadsPerCore"), 1),
        cpus=_number(record.get("CPUEfctv") or record.get("CPUTot"), 1),
        cpus_used=_number(record.get("CPUAlloc"), 0),
        memory=_number(record.get("RealMemory"), 0),
        memory_used=_number(record.get("AllocMem"), 0),
        gres=gres,
        used=used,
        sockets_of=sockets,
    )


def _gres(text: str) -> tuple[dict[str, int], dict[str, frozenset[int]]]:
    """``gpu:a100:2(S:0-1),compute:16`` → counts and sockets by ``name:type``."""
    counts: dict[str, int] = {}
    sockets: dict[str, frozenset[int]] = {}
    for found in _GRES.finditer(text):
        key = f"{found['name']}:{found['type']}" if found["type"] else found["name"]
        factor = 1024 ** " KMGTP".index(found["suffix"] or " ")
        counts[key] = counts.get(key, 0) + int(found["count"]) * factor
        note = found["note"] or ""
        if note.startswith("S:"):
            sockets[key] = sockets.get(key, frozenset()) | _ranges(note[2:])
    return counts, sockets


def _ranges(text: str) -> frozenset[int]:
    numbers: set[int] = set()
    for low, high in re.findall(r"(\d+)(?:-(\d+))?", text):
        numbers.update(range(int(low), int(high or low) + 1))
    return frozenset(numbers)


def _number(text: str | None, default: int) -> int:
    found = re.match(r"\d+", text or "")
    return int(found[0]) if found else default


def _known(text: str) -> str:
    return "" if text in {"(null)", "N/A", "none"} else text


def parse_partitions(text: str) -> Iterable[Partition]:
    """Records of ``scontrol -o show partitions``."""
    for line in text.splitlines():
        record = parse_record(line)
        if "PartitionName" in record:
            yield Partition(
                record["PartitionName"],
                default=record.get("Default") == "YES",
                up=record.get("State", "UP") == "UP",
                exclusive=record.get("OverSubscribe") == "EXCLUSIVE",
            )


_FIELDS = ("JobArrayID:64", "Partition:256", "PriorityLong:24", "NumNodes:24", "Reason:64",
           "tres-per-node:1100", "tres-per-socket:256")  # fmt: skip
SQUEUE = ("squeue", "-h", "-t", "PD", "-O", ",".join(_FIELDS))


def parse_pending(text: str) -> Iterable[PendingJob]:
    """Lines of the squeue call above: fields of fixed width, none of them free text."""
    widths = [int(f.split(":")[1]) for f in _FIELDS]
    for line in text.splitlines():
        cells, start = [], 0
        for width in widths:
            cells.append(line[start : start + width].strip())
            start += width
        job_id, partition, priority, nodes, reason, per_node, per_socket = cells
        tres = ",".join(part for part in (per_node, per_socket) if part not in {"", "N/A"})
        yield PendingJob(
            job_id=job_id,
            partition=partition,
            priority=_number(priority, 0),
            nodes=_number(nodes, 1) * _tasks_of(job_id),
            tres_per_node=tres,
            held="Held" in reason or priority == "0",
        )


def _tasks_of(job_id: str) -> int:
    """``12_[3-6,9%2]`` → 5, ``12`` and ``12_3`` → 1."""
    found = re.search(r"_\[([^\]]*)", job_id)
    return array_tasks(found[1]) if found else 1


def array_tasks(indices: str) -> int:
    """Tasks of an array: ``"3-6,9%2"`` → 5; 1 for "" or what cannot be read."""
    total = 0
    for low, high, step in re.findall(r"(\d+)(?:-(\d+)(?::(\d+))?)?", indices.split("%")[0]):
        total += len(range(int(low), int(high or low) + 1, int(step or 1) or 1))
    return max(1, total)
