"""What a job asks for: fields of job_desc → a checked request.

Grammar: ``compute:N``, ``compute:SELECTOR:N``, ``vram:GiB``, ``vram:each:GiB``; counts per node
(``--gres``) or per task (``--tres-per-task``). Every refusal is a text for the user.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hpcmgr.errors import RequestError
from hpcmgr.slurm.state import array_tasks
from hpcmgr.slurm.tres import GresItem, parse_gres_list
from hpcmgr.submit.messages import text

MOST_UNITS = 1_000_000
ENFORCE_BIND, NTASKS_SET, DISABLE_BIND = 1 << 4, 1 << 14, 1 << 19
EXCLUSIVE = 0
"""``shared`` of a job that wants its nodes alone (JOB_SHARED_NONE)."""

Field = str | int | bool

STRINGS = frozenset(
    [
        "account",
        "admin_comment",
        "array_inx",
        "comment",
        "cpus_per_tres",
        "default_account",
        "exc_nodes",
        "features",
        "licenses",
        "mem_per_tres",
        "partition",
        "qos",
        "req_nodes",
        "reservation",
        "tres_bind",
        "tres_per_job",
        "tres_per_node",
        "tres_per_socket",
        "tres_per_task",
        "user_name",
        "wckey",
    ]
)
NUMBERS = frozenset(
    [
        "bitflags",
        "cores_per_socket",
        "cpus_per_task",
        "het_job_offset",
        "max_cpus",
        "max_nodes",
        "min_cpus",
        "min_mem_per_cpu",
        "min_mem_per_node",
        "min_nodes",
        "ntasks_per_node",
        "ntasks_per_socket",
        "ntasks_per_tres",
        "num_tasks",
        "pn_min_cpus",
        "priority",
        "shared",
        "sockets_per_node",
        "threads_per_core",
        "time_limit",
        "user_id",
    ]
)

_SAYS_NOTHING = frozenset(
    ["admin_comment", "array_inx", "comment", "licenses", "priority", "user_id", "wckey"]
)
"""Of where a job could run."""


@dataclass(frozen=True, slots=True)
class JobFields:
    """The fields of one job, of known names and right types."""

    values: Mapping[str, Field]

    def string(self, name: str) -> str:
        """A string field, "" if unset."""
        value = self.values.get(name, "")
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int | None:
        """A number field, None if unset."""
        value = self.values.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def flag(self, bit: int) -> bool:
        """Whether a bit of ``bitflags`` is set."""
        return bool((self.number("bitflags") or 0) & bit)

    @property
    def nodes(self) -> int:
        """Nodes asked for, at least 1."""
        return max(1, self.number("min_nodes") or 1)

    @property
    def fixed_nodes(self) -> bool:
        """Whether the number of nodes is certain: one number, or none and no list of nodes."""
        least, most = self.number("min_nodes"), self.number("max_nodes")
        if least is None:
            return not self.string("req_nodes") and self.number("num_tasks") in (None, 1)
        return most == least

    @property
    def batch(self) -> bool:
        """Whether it is a batch job; salloc and srun are not told apart."""
        return self.values.get("batch") is True

    @property
    def jobs(self) -> int:
        """Tasks of the array, 1 for a single job."""
        return array_tasks(self.string("array_inx"))

    @property
    def form(self) -> frozenset[tuple[str, Field]]:
        """All that decides where the job could run: requests of one form have the same candidates,
        whatever else they say."""
        return frozenset([item for item in self.values.items() if item[0] not in _SAYS_NOTHING])

    @property
    def exclusive(self) -> bool:
        """Whether the job wants its nodes alone."""
        return self.number("shared") == EXCLUSIVE


@dataclass(frozen=True, slots=True)
class Ask:
    """A neutral request. ``vram_total`` and ``vram_each`` in GiB; ``others`` are GRES that stay as
    they are; ``notes`` are for the user."""

    units: int
    selector: str | None = None
    vram_total: int | None = None
    vram_each: int | None = None
    per_task: bool = False
    others: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = []
        if self.units:
            parts.append(":".join(p for p in ("compute", self.selector, str(self.units)) if p))
        if self.vram_total:
            parts.append(f"vram:{self.vram_total}")
        if self.vram_each:
            parts.append(f"vram:each:{self.vram_each}")
        return ",".join(parts)


@dataclass(frozen=True, slots=True)
class Direct:
    """A request that names devices itself, in the field where it stands: ``items`` keep their form,
    units are added; ``others`` are what else stands there."""

    where: str
    items: tuple[GresItem, ...]
    others: tuple[str, ...]


def read_fields(job: object) -> JobFields:
    """Check the ``job`` object of a request line; fields of unknown names are left out.

    Raises:
        ValueError: no object, or a value of the wrong type.
    """
    if not isinstance(job, dict):
        raise ValueError("'job' is no object")  # noqa: TRY004
    kept: dict[str, Field] = {}
    for name, value in job.items():
        if name in STRINGS:
            good = isinstance(value, str) and len(value) <= 65_536
        elif name in NUMBERS:
            good = isinstance(value, int | float) and not isinstance(value, bool)
            good = good and math.isfinite(value) and value == int(value)
        elif name == "batch":
            good = isinstance(value, bool)
        else:
            continue  # a newer shim may tell more
        if not good:
            raise ValueError(f"field {name!r} has a value of the wrong type")
        kept[name] = int(value) if isinstance(value, float) else value
    return JobFields(kept)


def read_request(fields: JobFields, accelerators: frozenset[str]) -> Ask | Direct | None:
    """What of the job concerns us: a neutral request, a direct one, or nothing.

    Raises:
        RequestError: the request means nothing, or cannot be meant; the text is for the user.
    """
    node = _items(fields.string("tres_per_node"))
    task = _items(fields.string("tres_per_task"))
    where = {
        name: [i for i in _items(fields.string(name)) if i.name in {"compute", "vram"}]
        for name in ("tres_per_job", "tres_per_socket")
    }
    if where["tres_per_job"]:
        raise RequestError(text("per_job"))
    if where["tres_per_socket"]:
        raise RequestError(text("per_socket"))
    neutral_node = [i for i in node if i.name in {"compute", "vram"}]
    neutral_task = [i for i in task if i.name in {"compute", "vram"}]
    if not neutral_node and not neutral_task:
        return _direct(fields, accelerators)
    _refuse_mixture(fields, node, task, accelerators)
    if neutral_node and neutral_task:
        raise RequestError(text("twice", name="compute"))
    others = tuple(_written(i) for i in node if i.name not in {"compute", "vram"})
    if neutral_task:
        return _task_ask(neutral_task, others)
    return _ask(neutral_node, others)


def _items(value: str) -> list[GresItem]:
    # tres_per_task also holds entries such as cpu=4 or license/x=1, which are not ours.
    kept = ",".join(
        part
        for part in value.split(",")
        if not re.match(r"\s*(cpu|mem|billing|energy|node|fs/|bb/|license/|ic/)\b", part)
    )
    try:
        return parse_gres_list(kept)
    except ValueError as error:
        if "compute" in value or "vram" in value:
            raise RequestError(text("bad_form", text=str(error))) from error
        return []


def _written(item: GresItem) -> str:
    return ":".join(part for part in (item.name, item.type, item.count) if part)


def _direct(fields: JobFields, accelerators: frozenset[str]) -> Direct | None:
    """Devices asked by name. Where several fields name them (``--gpus`` beside ``--gpus-per-node``)
    the first of this order says how many a node, a socket or a task has."""
    for where in ("tres_per_node", "tres_per_socket", "tres_per_task", "tres_per_job"):
        items = _items(fields.string(where))
        devices = tuple(i for i in items if i.name in accelerators)
        if devices:
            for item in devices:
                if sum((item.name, item.type) == (i.name, i.type) for i in devices) > 1:
                    raise RequestError(text("twice", name=_written(item)))
            others = tuple(_written(i) for i in items if i.name not in accelerators)
            return Direct(where, devices, others)
    if fields.number("ntasks_per_tres"):
        raise RequestError(text("ntasks_per_gpu"))
    return None


def _refuse_mixture(
    fields: JobFields, node: list[GresItem], task: list[GresItem], accelerators: frozenset[str]
) -> None:
    beside = [i for i in (*node, *task) if i.name in accelerators]
    for name in ("tres_per_job", "tres_per_socket"):
        beside += [i for i in _items(fields.string(name)) if i.name in accelerators]
    if beside:
        raise RequestError(text("mixed_gpus", other=_written(beside[0])))
    for name in ("cpus_per_tres", "mem_per_tres", "ntasks_per_tres"):
        if fields.values.get(name):
            raise RequestError(text("mixed_gpus", other=name.replace("_tres", "-gpu")))


def _ask(items: list[GresItem], others: tuple[str, ...]) -> Ask:
    units, selector, notes = 0, None, []
    vram: dict[str, int] = {}
    for item in items:
        if item.name == "compute":
            if units:
                raise RequestError(text("twice", name="compute"))
            units, selector = _units(item), item.type
            if item.count is None:
                notes.append(text("no_count", request=_written(item)))
        else:
            kind = item.type or "total"
            if kind not in {"total", "each"}:
                raise RequestError(text("vram_selector", word=kind))
            if kind in vram:
                raise RequestError(text("twice", name="vram"))
            vram[kind] = _gib(item)
    if selector == "unbound":
        raise RequestError(text("unbound_word"))
    return Ask(units, selector, vram.get("total"), vram.get("each"), False, others, tuple(notes))


def _task_ask(items: list[GresItem], others: tuple[str, ...]) -> Ask:
    if any(item.name == "vram" for item in items):
        raise RequestError(text("task_vram"))
    ask = _ask(items, others)
    return replace(ask, per_task=True)


def _units(item: GresItem) -> int:
    number = item.number
    if number is None or not 1 <= number <= MOST_UNITS:
        raise RequestError(text("bad_count", name="compute", count=item.count, most=MOST_UNITS))
    return number


def _gib(item: GresItem) -> int:
    """GiB, rounded up; a plain number is GiB."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([KMGTP]?)(?:I?B)?", item.count or "", re.I)
    if not found or float(found[1]) <= 0:
        raise RequestError(text("bad_memory", count=item.count))
    power = {"K": -2, "M": -1, "": 0, "G": 0, "T": 1, "P": 2}[found[2].upper()]
    gib = math.ceil(float(found[1]) * float(1024**power))
    if gib > MOST_UNITS:
        raise RequestError(text("bad_memory", count=item.count))
    return gib
