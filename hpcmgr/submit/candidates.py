"""Which device types could ever serve a request, how many devices it takes, and on which nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hpcmgr.profile import DeviceProfile
from hpcmgr.settings import JobClass
from hpcmgr.slurm.hostlist import expand
from hpcmgr.submit.pool import Pool
from hpcmgr.submit.request import NTASKS_SET, Ask, JobFields
from hpcmgr.submit.selectors import Selection
from hpcmgr.submit.view import ClusterView

VRAM_PER_DEVICE = 40
"""At most one device for every 40 GiB begun, as at most one for every 8 units begun: a request for
much memory shall not become many small devices."""


@dataclass(frozen=True, slots=True)
class Need:
    """CPUs and memory of one node that the job takes beside its devices (MiB)."""

    cpus: int
    memory_mib: int
    cpus_given: bool
    memory_given: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """One device type for one request, per node (or per task).

    ``refused`` says why it can never serve, ``waits`` why it cannot while its nodes are out of
    service; ``terms`` and ``score`` are filled by scoring.
    """

    profile: DeviceProfile
    devices: int = 0
    units: int = 0
    vram_gib: int = 0
    pools: tuple[Pool, ...] = ()
    need: Need = Need(1, 0, cpus_given=False, memory_given=False)
    per_task: bool = False
    refused: str = ""
    waits: str = ""
    terms: Mapping[str, float] = field(default_factory=dict)
    score: float = 0.0

    @property
    def gres(self) -> str:
        """``name:type``."""
        return self.profile.gres_key

    @property
    def node_count(self) -> int:
        """Nodes that can serve."""
        return sum(len(pool.nodes) for pool in self.pools)


def find_candidates(
    ask: Ask, fields: JobFields, selection: Selection, view: ClusterView, rule: int
) -> list[Candidate]:
    """Every device type of the cluster, able or refused with its reason, in order of name.

    ``rule``: at most one device for every so many units begun.
    """
    return [
        _candidate(ask, fields, selection, view, profile, pools, rule)
        for profile, pools in view.types
    ]


def _candidate(
    ask: Ask,
    fields: JobFields,
    selection: Selection,
    view: ClusterView,
    profile: DeviceProfile,
    pools: tuple[Pool, ...],
    rule: int,
) -> Candidate:
    refused = selection.allows(profile)
    if refused:
        return Candidate(profile, refused=refused)
    job_class = selection.job_class
    count = _device_count(ask, job_class, profile, None if selection.named else rule)
    if isinstance(count, str):
        return Candidate(profile, refused=count)
    if ask.per_task and profile.gres.name != "gpu" and fields.number("min_nodes") is None:
        # Slurm 26.05 lets such a job wait for ever, asked directly too.
        return Candidate(profile, refused="per task it needs a number of nodes (-N)")
    need = _need(fields, job_class, profile, count)
    per_node = count * (_tasks_together(fields) if ask.per_task else 1)
    wanted = _Wanted(
        gres=profile.gres_key,
        count=per_node,
        need=need,
        partitions=frozenset(partitions_of(fields, view)),
        features=frozenset(job_class.features) | plain_features(fields.string("features")),
        excluded=frozenset(names_of(fields.string("exc_nodes"))),
        required=frozenset(names_of(fields.string("req_nodes"))),
        reserved=view.reserved_nodes(fields.string("reservation")),
        most=max(pool.count for pool in pools),
    )
    able, waits, refused = _able_pools(pools, wanted, fields.nodes)
    return Candidate(
        profile,
        devices=count,
        units=count * (profile.booked_units or 0),
        vram_gib=count * (profile.memory_gib or 0),
        pools=able,
        need=need,
        per_task=ask.per_task,
        refused=refused,
        waits=waits,
    )


def _device_count(
    ask: Ask, job_class: JobClass, profile: DeviceProfile, rule: int | None
) -> int | str:
    """The fewest devices that fit (for a per-task request: of one task), or why none do.

    ``rule`` None: the user named this type, so many of it are what he wants.
    """
    units, memory = profile.booked_units, profile.memory_gib
    if units is None:
        return "its units are not known: set units in site.yaml"
    if job_class.units_per_device_min and units < job_class.units_per_device_min:
        return f"{units} units a device, the class wants {job_class.units_per_device_min}"
    each = max(ask.vram_each or 0, job_class.memory_per_device_gib or 0)
    if each and (memory is None or memory < each):
        return f"{memory or 'unknown'} GiB a device, {each} asked"
    if ask.vram_total and memory is None:
        return "its memory is not known"
    count = max(1, job_class.devices_min, -(-ask.units // units))
    if ask.vram_total and memory:
        count = max(count, -(-ask.vram_total // memory))
    most = count
    if rule:
        most = max(1, job_class.devices_min, -(-ask.units // rule))
        most = max(most, -(-(ask.vram_total or 0) // VRAM_PER_DEVICE))
    if job_class.devices_max:
        most = min(most, job_class.devices_max)
    if count > most:
        return f"would take {count} devices, at most {most} for this request"
    return count


def _need(fields: JobFields, job_class: JobClass, profile: DeviceProfile, count: int) -> Need:
    cpus, cpus_given = _asked_cpus(fields)
    if not cpus_given:
        each = job_class.cpus_per_device or profile.cpus_per_device
        cpus = each * count if each else 1
    memory, memory_given = _asked_memory(fields, cpus)
    if not memory_given:
        each = job_class.mem_per_device_mib or profile.mem_per_device_mib
        memory = each * count if each else 0
    return Need(cpus, memory, cpus_given, memory_given)


def _asked_cpus(fields: JobFields) -> tuple[int, bool]:
    """CPUs on one node that the user asked for, and whether he asked at all."""
    per_task = fields.number("cpus_per_task")
    tasks = tasks_per_node(fields)
    least = fields.number("pn_min_cpus")
    given = bool(per_task or tasks or (least and least > 1))
    return max((per_task or 1) * _tasks_together(fields), least or 1), given


def tasks_per_node(fields: JobFields) -> int | None:
    """Tasks on one node, if the user gave a task count of any sort."""
    per_node = fields.number("ntasks_per_node")
    if per_node:
        return per_node
    tasks = fields.number("num_tasks")
    if tasks and fields.flag(NTASKS_SET):
        return -(-tasks // fields.nodes)
    return None


def _tasks_together(fields: JobFields) -> int:
    """Tasks that must share a node: without a number of nodes Slurm spreads them as they fit."""
    if fields.number("min_nodes") is None and not fields.number("ntasks_per_node"):
        return 1
    return tasks_per_node(fields) or 1


def _asked_memory(fields: JobFields, cpus: int) -> tuple[int, bool]:
    node = fields.number("min_mem_per_node")
    if node is not None:
        return node, True
    per_cpu = fields.number("min_mem_per_cpu")
    if per_cpu is not None:
        return per_cpu * cpus, True
    return 0, False


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a node must offer; names of nodes that are excluded, or required one and all;
    ``reserved``: those of the request's reservation, None without one."""

    gres: str
    count: int
    need: Need
    partitions: frozenset[str]
    features: frozenset[str]
    excluded: frozenset[str]
    required: frozenset[str]
    reserved: frozenset[str] | None
    most: int

    def missing(self, pool: Pool) -> str:
        """Why no node of the pool can ever run it; "" if they can."""
        if self.partitions and not self.partitions & pool.partitions:
            return f"not in partition {', '.join(sorted(self.partitions))}"
        if not self.features <= pool.features:
            return f"lacks the feature {', '.join(sorted(self.features - pool.features))}"
        if pool.count < self.count:
            return f"at most {self.most} on a node, {self.count} needed"
        if pool.cpus < self.need.cpus:
            return f"{self.need.cpus} CPUs needed, a node has {pool.cpus}"
        if pool.memory < self.need.memory_mib:
            return f"{self.need.memory_mib} MiB needed, a node has {pool.memory}"
        return ""

    def named(self, pool: Pool) -> Pool:
        """The pool without nodes that the request's own lists and its reservation leave out."""
        if not self.excluded and not self.required and self.reserved is None:
            return pool
        return pool.part(node for node in pool.nodes if self._listed(node.name))

    def _listed(self, name: str) -> bool:
        return (
            name not in self.excluded
            and (not self.required or name in self.required)
            and (self.reserved is None or name in self.reserved)
        )


def _able_pools(
    pools: tuple[Pool, ...], wanted: _Wanted, asked: int
) -> tuple[tuple[Pool, ...], str, str]:
    """Pools that could run it; why it must wait for nodes that are out of service; why it can
    never run. As Slurm does, a job may wait for a node that is down: it may come back."""
    lost: dict[str, int] = {}
    able: list[Pool] = []
    for pool in pools:
        why = wanted.missing(pool)
        kept = pool if why else wanted.named(pool)
        if not why and not kept.nodes:
            why = "not on the nodes of the request"
        if why:
            lost[why] = lost.get(why, 0) + len(pool.nodes)
        else:
            able.append(kept)
    up = [pool for pool in able if pool.usable]
    # Nodes that are required must all be there, be they in service or not.
    asked = max(asked, len(wanted.required))
    if _nodes(up) >= asked:
        return tuple(up), "", ""
    if _nodes(able) >= asked:
        return tuple(able), _out_of_service([pool for pool in able if not pool.usable]), ""
    if able:
        return (), "", f"{asked} nodes asked, {_nodes(able)} can serve"
    return (), "", max(lost, key=lambda w: (lost[w], w)) if lost else "no node has it"


def _nodes(pools: list[Pool]) -> int:
    return sum(len(pool.nodes) for pool in pools)


def _out_of_service(pools: list[Pool]) -> str:
    """``gpu01 is idle+drain (fan) and 3 more are out``."""
    first = min((node for pool in pools for node in pool.nodes), key=lambda node: node.name)
    reason = f" ({first.reason})" if first.reason else ""
    more = f" and {_nodes(pools) - 1} more are out" if _nodes(pools) > 1 else ""
    return f"{first.name} is {first.state.lower()}{reason}{more}"


def partitions_of(fields: JobFields, view: ClusterView) -> set[str]:
    """Partitions that the job may run in; empty if that is not known."""
    asked = {p for p in fields.string("partition").split(",") if p}
    if asked:
        return asked
    default = view.state.default_partition
    return {default} if default else set()


def plain_features(text: str) -> set[str]:
    """Features that must all be there; an expression with alternatives or counts is Slurm's to
    judge, so nothing is concluded from it."""
    if not text or not re.fullmatch(r"[\w.-]+(?:[&,][\w.-]+)*", text):
        return set()
    return set(re.split(r"[&,]", text))


def names_of(text: str) -> set[str]:
    """Nodes of a list; what is no list names none."""
    try:
        return set(expand(text)) if text else set()
    except ValueError:
        return set()
