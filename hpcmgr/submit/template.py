"""Templates: a class of several device groups that one node must hold together.

``compute:mixed-train:1`` → one GPU and two NPUs of one node; the count is the number of sets. Where
no node holds them, the user is told how to ask for them on different nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from hpcmgr.errors import RequestError
from hpcmgr.profile import DeviceProfile
from hpcmgr.settings import DeviceGroup, JobClass
from hpcmgr.slurm.hostlist import fold
from hpcmgr.submit.candidates import Candidate, Part, device_needs, unsure_notes
from hpcmgr.submit.messages import text
from hpcmgr.submit.need import Asked, read_asked
from hpcmgr.submit.nodes import Able, Devices, Wanted, able_pools, read_wanted
from hpcmgr.submit.pool import Pool
from hpcmgr.submit.request import Ask, JobFields
from hpcmgr.submit.selectors import Selection, refusal_of
from hpcmgr.submit.view import ClusterView

_MOST_COMBINATIONS = 64

Types = Mapping[str, tuple[DeviceProfile, tuple[Pool, ...]]]
"""By ``name:type``."""


def template_candidates(
    ask: Ask, fields: JobFields, selection: Selection, view: ClusterView
) -> list[Candidate]:
    """Every combination of device types that the template allows, those that some node has together
    first; able or refused with its reason.

    Raises:
        RequestError: the request says what a template cannot be asked for.
    """
    if ask.per_task or ask.vram_total or not ask.units:
        raise RequestError(text("template_form", name=selection.class_name))
    job_class = selection.job_class
    asked, types = read_asked(fields), _types(view)
    wanted = read_wanted(fields, job_class.node_features, view)
    found = _combinations(ask, selection, types)
    return [_candidate(parts, asked, wanted, job_class, types) for parts in found]


def _types(view: ClusterView) -> Types:
    return {profile.gres_key: (profile, pools) for profile, pools in view.types}


def _combinations(ask: Ask, selection: Selection, types: Types) -> list[tuple[Part, ...]]:
    """Those on one node; if there are none, those that are nowhere together, to say so."""
    job_class = selection.job_class
    allowed = [
        [p for p, _ in types.values() if not _refusal(p, ask, selection, group)]
        for group in job_class.groups
    ]
    found: dict[frozenset[tuple[str, int]], tuple[Part, ...]] = {}
    for together in _hardware(types):
        here = [[p for p in each if p.gres_key in together] for each in allowed]
        for profiles in islice(product(*here), _MOST_COMBINATIONS):
            parts = _parts(profiles, job_class.groups, ask.units)
            found.setdefault(frozenset((p.gres, p.devices) for p in parts), parts)
    if not found:
        for profiles in islice(product(*allowed), _MOST_COMBINATIONS):
            parts = _parts(profiles, job_class.groups, ask.units)
            found.setdefault(frozenset((p.gres, p.devices) for p in parts), parts)
    return list(found.values())


def _hardware(types: Types) -> set[frozenset[str]]:
    """Device types that stand together in a node."""
    return {
        frozenset(key for key in pool.nodes[0].gres if ":" in key)
        for _, pools in types.values()
        for pool in pools
    }


def _refusal(
    profile: DeviceProfile, ask: Ask, selection: Selection, group: DeviceGroup
) -> str | None:
    """Why a type may not stand in a group."""
    for choice in (selection.job_class, group):
        refused = refusal_of(choice, selection.class_name, profile)
        if refused:
            return refused
        least = max(choice.memory_per_device_gib or 0, ask.vram_each or 0)
        if least > (profile.memory_gib or 0):
            return text("small_memory", memory=profile.memory_gib or "?", asked=least)
        if (choice.units_per_device_min or 1) > (profile.booked_units or 0):
            return text(
                "few_units", units=profile.booked_units or "?", least=choice.units_per_device_min
            )
    return None


def _parts(
    profiles: Sequence[DeviceProfile], groups: Sequence[DeviceGroup], sets: int
) -> tuple[Part, ...]:
    """One part a type: groups that become the same type are added up."""
    counts: dict[str, int] = {}
    for profile, group in zip(profiles, groups, strict=True):
        counts[profile.name] = counts.get(profile.name, 0) + group.devices * sets
    by_name = {profile.name: profile for profile in profiles}
    return tuple(Part(by_name[name], count) for name, count in counts.items())


def _candidate(
    parts: tuple[Part, ...], asked: Asked, wanted: Wanted, job_class: JobClass, types: Types
) -> Candidate:
    needs = [device_needs(job_class, part.profile, part.devices) for part in parts]
    need = asked.need(sum(cpus for cpus, _ in needs), sum(memory for _, memory in needs))
    devices = [_devices(part, job_class) for part in parts]
    able = able_pools(types[parts[0].gres][1], devices, need, wanted)
    first, *beside = parts
    return Candidate(
        first.profile,
        devices=first.devices,
        units=sum(p.devices * (p.profile.booked_units or 0) for p in parts),
        vram_gib=sum(p.devices * (p.profile.memory_gib or 0) for p in parts),
        pools=able.pools,
        need=need,
        refused=able.refused,
        waits=able.waits,
        beside=tuple(beside),
        avoid=able.avoid,
        notes=unsure_notes(able, devices),
    )


def _devices(part: Part, job_class: JobClass) -> Devices:
    runtime = part.profile.runtime
    asked = [choice.needs.get(runtime, "") for choice in (job_class, *job_class.groups)]
    versions = ",".join(dict.fromkeys(text for text in asked if text))
    return Devices(part.gres, part.devices, runtime, versions)


@dataclass(frozen=True, slots=True)
class Apart:
    """The groups on different nodes: ``line`` asks for them, as components of one heterogeneous
    job; ``switch`` holds all these nodes, "" if none does. ``free``: it could start at once."""

    line: str
    switch: str
    free: bool


def apart(ask: Ask, fields: JobFields, selection: Selection, view: ClusterView) -> Apart | None:
    """How a template could be had on different nodes; None if it could not, or is not allowed to.

    Below one switch if some switch has nodes for all groups; above several only if the class falls
    back to ``spread``.
    """
    job_class = selection.job_class
    if job_class.fallback == "refuse":
        return None
    groups = [_group_pools(ask, fields, selection, view, group) for group in job_class.groups]
    if not all(groups):
        return None
    switches = sorted({leaf for group in groups for _, able in group for p in able.pools
                       for leaf in p.leaves})  # fmt: skip
    offers = [_below(groups, switch) for switch in switches]
    if not any(offers) and job_class.fallback == "spread":
        offers = [_below(groups, "")]
    return max((offer for offer in offers if offer), key=lambda offer: offer.free, default=None)


Group = list[tuple[Part, Able]]


def _group_pools(
    ask: Ask, fields: JobFields, selection: Selection, view: ClusterView, group: DeviceGroup
) -> Group:
    """Types that could be this group on nodes of their own."""
    features = (*selection.job_class.features, *group.features)
    wanted, asked, found = read_wanted(fields, features, view), read_asked(fields), []
    for profile, pools in view.types:
        if _refusal(profile, ask, selection, group):
            continue
        part = Part(profile, group.devices * ask.units)
        need = asked.need(*device_needs(selection.job_class, profile, part.devices))
        able = able_pools(pools, [_devices(part, selection.job_class)], need, wanted)
        if not able.refused:
            found.append((part, able))
    return found


def _below(groups: Sequence[Group], switch: str) -> Apart | None:
    """All groups below one switch ("" for anywhere), types that are free first."""
    lines, free = [], True
    for group in groups:
        choices = list(_choices(group, switch))
        if not choices:
            return None
        part, free_now, elsewhere = max(choices, key=lambda choice: choice[1])
        free = free and free_now
        away = f" --exclude={fold(elsewhere)}" if elsewhere else ""
        lines.append(f"-N1 --gres={part.gres}:{part.devices}{away}")
    return Apart(" : ".join(lines), switch, free)


def _choices(group: Group, switch: str) -> Iterator[tuple[Part, bool, list[str]]]:
    """Types of a group with nodes below the switch: whether one is free, and nodes elsewhere."""
    for part, able in group:
        nodes = [(pool, node) for pool in able.pools for node in pool.nodes]
        here = [(p, n) for p, n in nodes if not switch or p.leaf_of.get(n.name) == switch]
        if here:
            free = any(p.usable and p.free_on(n, part.gres) >= part.devices for p, n in here)
            names = {n.name for _, n in here}
            yield part, free, sorted(n.name for _, n in nodes if n.name not in names)


def apart_text(key: str, offer: Apart, selection: Selection, **values: object) -> str:
    """What the user reads of it."""
    note = selection.job_class.fallback_note
    below = f" below switch {offer.switch}" if offer.switch else ""
    return text(key, below=below, line=offer.line, note=f". {note}" if note else "", **values)
