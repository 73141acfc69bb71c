"""Which device types could ever serve a request, and how many devices it takes of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hpcmgr.profile import DeviceProfile
from hpcmgr.settings import JobClass
from hpcmgr.submit.access import Access
from hpcmgr.submit.limits import over_all
from hpcmgr.submit.messages import text
from hpcmgr.submit.need import NO_NEED, Asked, Need, read_asked
from hpcmgr.submit.nodes import (
    Able,
    Devices,
    Wanted,
    able_pools,
    booked_by,
    node_count,
    read_wanted,
)
from hpcmgr.submit.pool import Pool
from hpcmgr.submit.request import Ask, JobFields
from hpcmgr.submit.selectors import Selection
from hpcmgr.submit.view import ClusterView

VRAM_PER_DEVICE = 40
"""At most one device for every 40 GiB begun, as at most one for every 8 units begun: a request for
much memory shall not become many small devices."""


@dataclass(frozen=True, slots=True)
class Part:
    """Devices of one type on each node (or for each task)."""

    profile: DeviceProfile
    devices: int

    @property
    def gres(self) -> str:
        """``name:type``."""
        return self.profile.gres_key


@dataclass(slots=True, eq=False)
class Candidate:
    """One device type for one request, per node (or per task); of a template several types on one
    node, the others ``beside``. ``units`` and ``vram_gib`` are those of all.

    ``refused`` says why it can never serve, ``waits`` why it cannot while its nodes are out of
    service. ``avoid``: nodes that have its devices and whose drivers cannot serve; ``notes`` are
    for the user. ``terms``, ``score`` and ``estimated`` (terms that were not measured) are those of
    one decision. Nobody changes it; it is not frozen because that costs a third of a decision.
    """

    profile: DeviceProfile
    devices: int = 0
    units: int = 0
    vram_gib: int = 0
    pools: tuple[Pool, ...] = ()
    need: Need = NO_NEED
    per_task: bool = False
    refused: str = ""
    waits: str = ""
    terms: Mapping[str, float] = field(default_factory=dict)
    score: float = 0.0
    estimated: tuple[str, ...] = ()
    beside: tuple[Part, ...] = ()
    avoid: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def scored(
        self, terms: Mapping[str, float], score: float, estimated: tuple[str, ...]
    ) -> Candidate:
        """The same in one decision."""
        return Candidate(
            self.profile, self.devices, self.units, self.vram_gib, self.pools, self.need,
            self.per_task, self.refused, self.waits, terms, score, estimated, self.beside,
            self.avoid, self.notes,
        )  # fmt: skip

    @property
    def gres(self) -> str:
        """``name:type`` of the first."""
        return self.profile.gres_key

    @property
    def parts(self) -> tuple[Part, ...]:
        """All its types."""
        return (Part(self.profile, self.devices), *self.beside)

    @property
    def name(self) -> str:
        """Its profiles: ``a100-80g``, ``a100-80g+ascend910b3``."""
        if not self.beside:
            return self.profile.name
        return "+".join(part.profile.name for part in self.parts)

    @property
    def becomes(self) -> str:
        """``1 x gpu:a100 + 2 x npu:ascend910b3``."""
        return " + ".join(f"{part.devices} x {part.gres}" for part in self.parts)

    @property
    def node_count(self) -> int:
        """Nodes that can serve."""
        return node_count(self.pools)


def find_candidates(
    ask: Ask, fields: JobFields, selection: Selection, view: ClusterView, rule: int
) -> list[Candidate]:
    """Every device type of the cluster, able or refused with its reason, in order of name.

    ``rule``: at most one device for every so many units begun.
    """
    asked = read_asked(fields)
    wanted = read_wanted(fields, selection.job_class.features, view)
    # Slurm 26.05 lets such a job wait for ever, asked directly too.
    spread = ask.per_task and fields.number("min_nodes") is None
    defaults = view.state.defaults_in(fields.string("partition"))
    return [
        _candidate(
            ask, asked, wanted, selection, profile, pools, rule, spread=spread, defaults=defaults
        )
        for profile, pools in view.types
    ]


def _candidate(
    ask: Ask,
    asked: Asked,
    wanted: Wanted,
    selection: Selection,
    profile: DeviceProfile,
    pools: tuple[Pool, ...],
    rule: int,
    *,
    spread: bool,
    defaults: tuple[int, int],
) -> Candidate:
    refused = selection.allows(profile)
    if refused:
        return Candidate(profile, refused=refused)
    count = device_count(ask, selection.job_class, profile, None if selection.named else rule)
    if isinstance(count, str):
        return Candidate(profile, refused=count)
    if spread and profile.gres.name != "gpu":
        return Candidate(profile, refused=text("per_task_nodes"))
    need = asked.need(*device_needs(selection.job_class, profile, count, defaults))
    per_node = count * (asked.together if ask.per_task else 1)
    versions = selection.job_class.needs.get(profile.runtime, "")
    devices = devices_of(profile, per_node, versions)
    able = able_pools(pools, (devices,), need, wanted)
    return Candidate(
        profile,
        devices=count,
        units=count * (profile.booked_units or 0),
        vram_gib=count * (profile.memory_gib or 0),
        pools=able.pools,
        need=need,
        per_task=ask.per_task,
        refused=able.refused,
        waits=able.waits,
        avoid=able.avoid,
        notes=unsure_notes(able, (devices,)),
    )


def devices_of(profile: DeviceProfile, count: int, versions: str = "") -> Devices:
    """``count`` devices on a node, with the units that are booked for them."""
    units, vram = count * (profile.booked_units or 0), count * (profile.memory_gib or 0)
    return Devices(profile.gres_key, count, profile.runtime, versions, units, vram)


def unsure_notes(able: Able, devices: Sequence[Devices]) -> tuple[str, ...]:
    """What the user is told where nobody knows whether the drivers serve what the class needs."""
    if not able.unsure or not able.pools:
        return ()
    needs = " and ".join(f"{d.runtime} {d.versions}" for d in devices if d.versions)
    return (text("unsure", needs=needs, nodes=able.unsure),)


def device_needs(
    job_class: JobClass,
    profile: DeviceProfile | None,
    count: int,
    defaults: tuple[int, int] = (0, 0),
) -> tuple[int, int]:
    """CPUs and memory (MiB) that the class, or else the profile, sets for ``count`` devices; else
    Slurm's own ``defaults``, which know the name gpu alone: an NPU job had one CPU."""
    own = (profile.cpus_per_device, profile.mem_per_device_mib) if profile else (None, None)
    cpus = job_class.cpus_per_device or own[0] or defaults[0]
    memory = job_class.mem_per_device_mib or own[1] or defaults[1]
    return cpus * count, memory * count


def device_count(
    ask: Ask, job_class: JobClass, profile: DeviceProfile, rule: int | None
) -> int | str:
    """The fewest devices that fit (for a per-task request: of one task), or why none do.

    ``rule`` None: the user named this type, so many of it are what he wants.
    """
    units, memory = profile.booked_units, profile.memory_gib
    if units is None:
        return text("no_units")
    if job_class.units_per_device_min and units < job_class.units_per_device_min:
        return text("few_units", units=units, least=job_class.units_per_device_min)
    each = max(ask.vram_each or 0, job_class.memory_per_device_gib or 0)
    if each and (memory is None or memory < each):
        return text("small_memory", memory=memory or "?", asked=each)
    if ask.vram_total and memory is None:
        return text("no_memory")
    count = max(1, job_class.devices_min, -(-ask.units // units))
    if ask.vram_total and memory:
        count = max(count, -(-ask.vram_total // memory))
    most = count
    if rule:
        most = max(1, job_class.devices_min, -(-ask.units // rule))
        most = max(most, -(-(ask.vram_total or 0) // VRAM_PER_DEVICE))
    if job_class.devices_max:
        most = min(most, job_class.devices_max)
    if profile.slice_of and count > 1:
        return f"would take {count} slices, and a program can use one"
    if count > most:
        return text("too_many", count=count, most=most)
    return count


def most_within(access: Access, pool: Pool, profile: DeviceProfile, nodes: int) -> int:
    """The most devices on a node that one job may ever have in the pool's partitions."""
    bounds = access.bounds(pool.partitions)
    for count in range(pool.count, 0, -1):
        if not over_all(bounds, booked_by((devices_of(profile, count),), NO_NEED), nodes):
            return count
    return 0
