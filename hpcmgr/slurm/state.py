"""Nodes and queue as Slurm tells them, and how its text is read. Asks nothing itself (reader.py).

``scontrol -o`` costs a tenth of ``--json`` at 5,000 nodes. Text is safe only where users cannot
write into it: node records are the administrators'; for jobs only fields without free text are
asked from squeue, and what a user could forge is never read from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from hpcmgr.slurm.accounts import Accounts
from hpcmgr.slurm.partition import Partition
from hpcmgr.slurm.record import known, number, parse_record

_NODE = re.compile(
    r"(?:^|\s)(NodeName|State|Gres|GresUsed|Partitions|AvailableFeatures|Sockets|CoresPerSocket"
    r"|ThreadsPerCore|CPUEfctv|CPUTot|CPUAlloc|RealMemory|MemSpecLimit|AllocMem)=(\S*)"
)
"""What is read of a node; none of these values has blanks."""

_GRES = re.compile(
    r"(?P<name>[A-Za-z][\w.-]*)(?::(?P<type>[A-Za-z][\w.-]*))?:(?P<count>\d+)(?P<suffix>[KMGTP]?)"
    r"(?:\((?P<note>[^)]*)\))?"
)
SHARES = frozenset({"mps", "shard"})
"""Names of shares of devices; Slurm knows no others."""

_OUT = frozenset(
    {
        "DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "INVAL",
        "INVALID_REG", "MAINT", "MAINTENANCE", "NOT_RESPONDING", "POWERING_DOWN", "REBOOT_ISSUED",
        "REBOOT_REQUESTED", "UNKNOWN",
    }
)  # fmt: skip
_MARKS = {
    "*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "%": "POWERING_DOWN",
    "!": "POWER_DOWN", "$": "MAINTENANCE", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}  # fmt: skip
"""What one sign behind a state means (sinfo(1), NODE STATE CODES)."""

_STAMP = re.compile(
    r" ?\[(?P<by>[^\[\]@\s]+)@(?P<since>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\]"
    r"(?=\s*$|\s{4,}| [A-Z][A-Za-z]+=)"
)
"""Slurm puts who and when behind the reason's first line; a further line follows after a gap."""

_FREE_TEXT = re.compile(r" (?:Reason|Comment|Extra|ReservationName)=")
_BEHIND = re.compile(r" (?:Comment|Extra|InstanceId|InstanceType|ReservationName)=")
_RESERVATION = re.compile(r" ReservationName=(\S+)\s*$")
"""Free text stands at the end of a node's record: reason, comment, extra, then the reservation."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node. Memory in MiB, without what is set aside for the system; ``gres`` and ``used`` by
    ``name:type`` (or ``name``); a device of which jobs have shares is used. ``reason`` was set by
    user ``reason_by`` at ``reason_since`` (as Slurm prints it, local time) and may stay after the
    node is back. ``indexed``: GRES whose single devices Slurm tells apart."""

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
    reason_by: str = ""
    reason_since: str = ""
    reservation: str = ""
    indexed: frozenset[str] = frozenset()

    @property
    def words(self) -> frozenset[str]:
        """``IDLE+DRAIN`` or ``idle$`` → its words; signs are spelt out."""
        return state_words(self.state)

    def free(self, gres: str) -> int:
        """Devices of that type that no job holds."""
        return max(0, self.gres.get(gres, 0) - self.used.get(gres, 0))


@dataclass(frozen=True, slots=True)
class PendingJob:
    """One waiting job (an array counts once for each of its tasks still to start). ``queued``: it
    waits for its turn, not for a dependency, a limit, a time or somebody's release."""

    job_id: str
    partition: str
    priority: int
    nodes: int
    tres_per_node: str
    queued: bool


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation on ``nodes`` (a hostlist), ``active`` or to come. ``gres``: the devices it
    holds, by ``name:type``, all nodes together; ``whole``: it holds its nodes with all of them."""

    name: str
    nodes: str
    gres: Mapping[str, int] = field(default_factory=dict)
    whole: bool = True
    active: bool = True


@dataclass(frozen=True, slots=True)
class ClusterState:
    """All of it, as of ``taken`` (time.monotonic of the reader's machine). ``reservations``: those
    that can be seen; some sites hide them. ``gpu_defaults`` hold where a partition has none.
    ``accounts``: None where Slurm enforces none, or they cannot be read."""

    taken: float
    release: str
    nodes: tuple[NodeState, ...]
    partitions: tuple[Partition, ...] = ()
    pending: tuple[PendingJob, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    gpu_defaults: tuple[int, int] = (0, 0)
    accounts: Accounts | None = None

    @property
    def default_partition(self) -> str | None:
        """Where a job goes that names none."""
        return next((p.name for p in self.partitions if p.default), None)

    def defaults_in(self, partition: str) -> tuple[int, int]:
        """CPUs and memory (MiB) that Slurm gives for a device named gpu where a job says nothing;
        of several partitions the first that sets any; "" is the default partition."""
        asked = partition.split(",") if partition else [self.default_partition]
        named = {p.name: p.gpu_defaults for p in self.partitions}
        own = next((named[name] for name in asked if name in named and any(named[name])), (0, 0))
        cpus, memory = self.gpu_defaults
        return own[0] or cpus, own[1] or memory


def parse_nodes(text: str) -> Iterable[NodeState]:
    """Records of ``scontrol -o -d show nodes``."""
    for line in text.splitlines():
        found = _FREE_TEXT.search(line)
        head, tail = (line[: found.start()], line[found.start() :]) if found else (line, "")
        # The first of a name counts: the kernel's name stands behind.
        record = dict(reversed(_NODE.findall(head)))
        if "NodeName" in record:
            yield _node(record, tail)


def _node(record: Mapping[str, str], tail: str) -> NodeState:
    """``tail``: the end of the record, where administrators' words may look like keys."""
    state = record.get("State", "UNKNOWN")
    gres, sockets = _gres(record.get("Gres", ""))
    used, indexed = _used(record.get("GresUsed", ""))
    reason, by, since = _reason(tail)
    reservation = _RESERVATION.search(tail)
    set_aside = number(record.get("MemSpecLimit"), 0)
    return NodeState(
        name=record["NodeName"],
        usable=takes_jobs(state_words(state)),
        state=state,
        reason=reason,
        partitions=tuple(p for p in record.get("Partitions", "").split(",") if p),
        features=frozenset(f for f in known(record.get("AvailableFeatures", "")).split(",") if f),
        sockets=number(record.get("Sockets"), 1),
        cores_per_socket=number(record.get("CoresPerSocket"), 1),
        threads_per_core=number(record.get("ThreadsPerCore"), 1),
        cpus=number(record.get("CPUEfctv") or record.get("CPUTot"), 1),
        cpus_used=number(record.get("CPUAlloc"), 0),
        memory=max(0, number(record.get("RealMemory"), 0) - set_aside),
        memory_used=number(record.get("AllocMem"), 0),
        gres=gres,
        used=used,
        sockets_of=sockets,
        reason_by=by,
        reason_since=since,
        reservation=reservation[1] if reservation else "",
        indexed=indexed,
    )


@lru_cache(maxsize=4096)
def state_words(state: str) -> frozenset[str]:
    """``"MIXED+DRAIN"``, ``"idle~"`` → words in capitals, signs spelt out."""
    words = {word for word in re.split(r"[^A-Z_]+", state.upper()) if word}
    return frozenset(words | {_MARKS[sign] for sign in state if sign in _MARKS})


def takes_jobs(words: frozenset[str]) -> bool:
    """Whether a node in this state is given new jobs, if need be after powering it up."""
    out = words & _OUT
    if words & {"POWERING_UP", "POWERED_DOWN"}:
        out -= {"NOT_RESPONDING"}  # a node that sleeps or wakes answers nobody
    return not out


def _reason(tail: str) -> tuple[str, str, str]:
    """``Reason=two words [root@2026-12-01T04:28:14] Comment=…`` → reason, who, when; a reason of
    several lines becomes one."""
    if not tail.startswith(" Reason="):
        return "", "", ""
    text = tail.removeprefix(" Reason=")
    found = _STAMP.search(text)
    if not found:
        return known(_BEHIND.split(text)[0].strip()), "", ""
    lines = [text[: found.start()].strip(), _BEHIND.split(text[found.end() :])[0].strip()]
    return " ".join(line for line in lines if line), found["by"], found["since"]


@lru_cache(maxsize=4096)
def _used(text: str) -> tuple[Mapping[str, int], frozenset[str]]:
    """``GresUsed``: how many are in use, and which GRES have single devices. Thousands of nodes
    have the same text."""
    used = dict(_gres(text)[0])
    for key, devices in _shared(text).items():
        used[key] = used.get(key, 0) + devices
    return used, _indexed(text)


def _shared(used: str) -> dict[str, int]:
    """Devices of which somebody has shares: ``shard:t4:3(1/4,2/4,0/4)`` → ``{"gpu:t4": 2}``.
    Slurm shares devices named gpu only, and gives none of them whole meanwhile."""
    devices: dict[str, int] = {}
    for found in _GRES.finditer(_plain(used)):
        if found["name"] in SHARES:
            taken = re.findall(r"(?:^|,)([1-9]\d*)/\d+", found["note"] or "")
            key = f"gpu:{found['type']}" if found["type"] else "gpu"
            devices[key] = devices.get(key, 0) + len(taken)
    return {key: count for key, count in devices.items() if count}


def without_share_types(counts: Mapping[str, int]) -> dict[str, int]:
    """The same with shares under their name alone: Slurm shows the type of their device, whether
    its configuration gives one or not."""
    plain: dict[str, int] = {}
    for key, count in counts.items():
        name = key.partition(":")[0]
        known = name if name in SHARES else key
        plain[known] = plain.get(known, 0) + count
    return plain


def _indexed(used: str) -> frozenset[str]:
    keys = set()
    for found in _GRES.finditer(_plain(used)):
        if (found["note"] or "").startswith("IDX:"):
            keys.add(f"{found['name']}:{found['type']}" if found["type"] else found["name"])
    return frozenset(keys)


def _plain(text: str) -> str:
    """Without what is no part of name, type or count: ``gpu:(null):2``, ``nic:no_consume:1``."""
    return text.replace(":(null)", "").replace(":no_consume", "")


@lru_cache(maxsize=4096)
def _gres(text: str) -> tuple[Mapping[str, int], Mapping[str, frozenset[int]]]:
    """``gpu:a100:2(S:0-1),compute:16`` → counts and sockets by ``name:type``."""
    counts: dict[str, int] = {}
    sockets: dict[str, frozenset[int]] = {}
    for found in _GRES.finditer(_plain(text)):
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


def parse_reservations(text: str) -> Iterable[Reservation]:
    """Records of ``scontrol -o show reservations``. One that names GRES holds these alone (and jobs
    of others run beside them), one that names cores no device at all."""
    for line in text.splitlines():
        record = parse_record(line)
        if "ReservationName" in record:
            gres = {
                key: int(count)
                for key, count in re.findall(
                    r"gres/([\w.-]+:[\w.-]+)=(\d+)", record.get("TRES", "")
                )
            }
            whole = not gres and "CoreIDs" not in record
            nodes = known(record.get("Nodes", ""))
            active = record.get("State") == "ACTIVE"
            yield Reservation(record["ReservationName"], nodes, gres, whole, active)


_FIELDS = ("JobArrayID:64", "Partition:256", "PriorityLong:24", "NumNodes:24", "Reason:64",
           "tres-per-node:1100", "tres-per-socket:256")  # fmt: skip
SQUEUE = ("squeue", "-h", "-t", "PD", "-O", ",".join(_FIELDS))


QUEUED = frozenset({"", "None", "Priority", "Resources"})
"""Why a job waits that waits for its turn alone."""


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
            priority=number(priority, 0),
            nodes=number(nodes, 1) * _tasks_of(job_id),
            tres_per_node=tres,
            queued=reason in QUEUED and priority != "0",
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
