"""Jobs as squeue tells them: who holds which devices, and who waits for which.

Fields of fixed width, none of them free text: a job's name may hold line breaks and whole forged
records, so ``scontrol show jobs`` is not read. admin_comment, which users cannot write, stands last
and is too short for a whole record. What only ``--json`` tells (single devices) is asked apart,
since it costs twenty times as much.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from hpcmgr.slurm.record import number
from hpcmgr.slurm.state import array_tasks
from hpcmgr.slurm.tres import parse_count, parse_gres_list

_FIELDS = {
    "JobID": 16, "JobArrayID": 64, "UserName": 64, "Account": 64, "Partition": 256, "QOS": 64,
    "State": 24, "Reason": 64, "PriorityLong": 24, "NumNodes": 12, "NumTasks": 12, "StartTime": 24,
    "EndTime": 24, "tres-alloc": 1100, "tres-per-node": 1100, "tres-per-job": 512,
    "tres-per-task": 512, "tres-per-socket": 256, "NodeList": 4000, "admin_comment": 512,
}  # fmt: skip
_RECORD = sum(_FIELDS.values()) - _FIELDS["admin_comment"]
"""Characters of a line at least."""
HOLDING = (
    "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STAGE_OUT", "RESIZING", "SIGNALING",
    "STOPPED",
)  # fmt: skip
"""States in which a job holds its devices."""
_STATES = ("PENDING", *HOLDING)
JOBS = (
    "squeue", "-h", "-t", ",".join(_STATES), "-O",
    ",".join(f"{name}:{width}" for name, width in _FIELDS.items()),
)  # fmt: skip
DETAILS = ("squeue", "--json", "-t", ",".join(HOLDING))

_ALLOC = re.compile(r"gres/([A-Za-z][\w.-]*(?::[A-Za-z][\w.-]*)?)=([^,]+)")
_IDX = re.compile(
    r"(?P<name>[A-Za-z][\w.-]*)(?::(?P<type>[A-Za-z][\w.-]*))?:(?P<count>\d+)"
    r"\(IDX:(?P<idx>[\d,-]+)\)"
)
_OWN_TURN = frozenset({"", "None", "Priority", "Resources"})
_CLASS = re.compile(r'hpcmgr:\{[^{]*"class":"([^"\\]*)"')
"""It stands near the beginning of what hpcmgr writes, before anything that a user wrote."""


@dataclass(frozen=True, slots=True)
class Job:
    """One line of squeue: a job, or all tasks of an array that still wait (``tasks``).

    ``gres``, ``cpus`` and ``memory`` (MiB): what one task holds or asks, all its nodes together;
    devices by ``name:type`` (``name`` where the type is not told). ``start``, ``end``: Slurm's
    local time, "" if unknown; of a waiting job what backfill expects. ``nodes`` is a hostlist, ""
    while it waits. ``job_class``: the class by which hpcmgr bound it, "" if it did not.
    """

    number: int
    job_id: str
    user: str
    account: str
    partition: str
    qos: str
    state: str
    reason: str = ""
    priority: int = 0
    tasks: int = 1
    node_count: int = 1
    gres: Mapping[str, int] = field(default_factory=dict)
    cpus: int = 0
    memory: int = 0
    start: str = ""
    end: str = ""
    nodes: str = ""
    job_class: str = ""

    @property
    def waits(self) -> bool:
        """Whether it still waits; else it holds its devices (also suspended and completing)."""
        return self.state == "PENDING"

    @property
    def queued(self) -> bool:
        """Whether it waits for its turn, not for a dependency, a limit, a time or a release."""
        return self.waits and self.reason in _OWN_TURN and self.priority > 0


Devices = Mapping[str, tuple[tuple[str, tuple[int, ...]], ...]]
"""Node → (``name:type``, numbers of the devices in Slurm's order)."""


def parse_jobs(text: str) -> Iterator[Job]:
    """Lines of the call JOBS; a line that is none is left out."""
    for line in text.splitlines():
        if len(line) < _RECORD:
            continue
        cells, start = {}, 0
        for name, width in _FIELDS.items():
            cells[name] = line[start : start + width].strip()
            start += width
        if cells["JobID"].isascii() and cells["JobID"].isdigit():
            yield _job(cells)


def _job(cells: Mapping[str, str]) -> Job:
    waiting = re.search(r"_\[([^\]]*)", cells["JobArrayID"])
    return Job(
        number=int(cells["JobID"]),
        job_id=cells["JobArrayID"],
        user=cells["UserName"],
        account=_known(cells["Account"]),
        partition=cells["Partition"],
        qos=_known(cells["QOS"]),
        state=cells["State"],
        reason=_known(cells["Reason"]),
        priority=number(cells["PriorityLong"], 0),
        tasks=array_tasks(waiting[1]) if waiting else 1,
        node_count=number(cells["NumNodes"], 1),
        gres=_gres_of(
            cells["tres-alloc"],
            cells["tres-per-node"],
            cells["tres-per-job"],
            cells["tres-per-task"],
            cells["NumNodes"],
            cells["NumTasks"],
        ),
        cpus=_tres(cells, "cpu"),
        memory=_tres(cells, "mem") >> 20,
        start=_known(cells["StartTime"]),
        end=_known(cells["EndTime"]),
        nodes=_whole(cells["NodeList"]),
        job_class=_class_of(cells["admin_comment"]),
    )


def _tres(cells: Mapping[str, str], name: str) -> int:
    found = re.search(rf"(?:^|,){name}=([^,]+)", cells["tres-alloc"])
    return (parse_count(found[1]) or 0) if found else 0


@lru_cache(maxsize=4096)
def _gres_of(
    alloc: str, per_node: str, per_job: str, per_task: str, nodes: str, tasks: str
) -> Mapping[str, int]:
    """Slurm's own count where it keeps one of the type (AccountingStorageTRES), else what was
    asked; a name without type only where no type is told."""
    counted = {key: parse_count(n) or 0 for key, n in _ALLOC.findall(alloc)}
    asked: dict[str, int] = {}
    for text, times in ((per_node, nodes), (per_job, "1"), (per_task, tasks)):
        for key, count in _asked(text):
            asked[key] = asked.get(key, 0) + count * max(1, number(times, 1))
    found: dict[str, int] = {}
    for name in {key.split(":")[0] for key in (*counted, *asked)}:
        plain = counted.get(name, asked.get(name, 0))
        found.update(
            _typed(counted, name) or _typed(asked, name) or ({name: plain} if plain else {})
        )
    return found


def _typed(source: Mapping[str, int], name: str) -> dict[str, int]:
    return {key: n for key, n in source.items() if key.startswith(f"{name}:") and n}


def _asked(text: str) -> Iterator[tuple[str, int]]:
    try:
        items = parse_gres_list(_known(text))
    except ValueError:
        return
    for item in items:
        yield (f"{item.name}:{item.type}" if item.type else item.name), item.number or 0


def seconds_of(text: str) -> float | None:
    """Slurm's local time → seconds since 1970; None for what is no time."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def _known(text: str) -> str:
    return "" if text in {"(null)", "N/A", "None", "Unknown"} else text


def _whole(nodes: str) -> str:
    """A hostlist that was cut at the field's width loses its last, broken part."""
    if nodes == "(null)":
        return ""
    if len(nodes) < _FIELDS["NodeList"]:
        return nodes
    return nodes[: nodes.rfind(",", 0, nodes.rfind("["))]


def parse_devices(text: str) -> dict[int, Devices]:
    """``squeue --json`` → the single devices that jobs hold, by job number.

    Raises:
        ValueError: it is no such JSON.
    """
    jobs = json.loads(text).get("jobs", [])
    return {int(job["job_id"]): dict(_devices(job)) for job in jobs if isinstance(job, dict)}


def _class_of(comment: str) -> str:
    found = _CLASS.match(comment)
    return found[1] if found else ""


def _devices(
    job: Mapping[str, object],
) -> Iterable[tuple[str, tuple[tuple[str, tuple[int, ...]], ...]]]:
    """``gres_detail`` has a text for each node, in the order of the job's nodes."""
    resources = job.get("job_resources")
    nodes = resources.get("nodes") if isinstance(resources, dict) else None
    places = nodes.get("allocation") if isinstance(nodes, dict) else None
    names = [place.get("name") for place in places or () if isinstance(place, dict)]
    texts = job.get("gres_detail")
    for name, text in zip(names, texts if isinstance(texts, list) else (), strict=False):
        found = tuple(
            (f"{m['name']}:{m['type']}" if m["type"] else m["name"], _indices(m["idx"]))
            for m in _IDX.finditer(str(text).replace(":(null)", ""))
        )
        if name and found:
            yield str(name), found


def _indices(text: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for low, high in re.findall(r"(\d+)(?:-(\d+))?", text):
        numbers += range(int(low), int(high or low) + 1)
    return tuple(numbers)
