"""Facts of several sources → devices.

Facts belong together by PCI address (and chip, where chips share one), else by uuid. For each
field the first source that knows it is believed, in the order of the registry; NUMA nodes come
from sysfs wherever it was seen. Where sources differ, the device says so in ``conflicts``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hpcmgr.discovery import amd_ids
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.registry import ANSWERING, TOOLS
from hpcmgr.discovery.source import Collected, DeviceFacts
from hpcmgr.inventory import Device, DeviceLink, Health, Nic, Slice, SourceReport
from hpcmgr.inventory.pci_address import sort_key
from hpcmgr.profile import ProfileLibrary

_MERGED = ("model", "pci_id", "index", "files", "uuid", "serial", "memory_mib", "driver",
           "firmware", "runtime_version", "nvlink_domain", "sliced", "slices")  # fmt: skip
_COMPARED = ("pci_id", "index", "files", "uuid", "serial", "driver")
_WORST = {"failed": 0, "degraded": 1, "unknown": 2, "ok": 3}


@dataclass(slots=True)
class _Group:
    """All facts of one device, by source, in the order of trust."""

    facts: list[tuple[str, DeviceFacts]] = field(default_factory=list)

    def first(self, name: str) -> Any:
        """The first known value of a field."""
        for _, fact in self.facts:
            value = getattr(fact, name)
            if value not in (None, ()):
                return value
        return None

    def conflicts(self) -> list[str]:
        """Fields that sources tell differently."""
        found = []
        for name in _COMPARED:
            said = [(src, getattr(f, name)) for src, f in self.facts]
            said = [(source, value) for source, value in said if value not in (None, ())]
            if _differ(name, [value for _, value in said]):
                told = ", ".join(f"{source} says {_shown(value)}" for source, value in said)
                found.append(f"{name}: {told}")
        return found


def devices(
    collected: Sequence[Collected], host: Host, library: ProfileLibrary
) -> tuple[tuple[Device, ...], dict[tuple[str, str], Device]]:
    """The devices in the order of kind and place, and each by (source, ref)."""
    groups = _grouped(collected)
    reports = {one.report.name: one.report for one in collected}
    nodes = host.device_nodes()
    present = None if nodes is None else frozenset(node.path for node in nodes)
    doubles = _doubles(groups)
    made = []
    for group in groups:
        device = _device(group, reports, present, doubles)
        profile = library.match(device)
        if profile is not None:
            device = device.model_copy(update={"profile": profile.name, "kind": profile.kind})
        made.append((device, group))
    made.sort(key=lambda pair: _order(pair[0]))
    by_ref = {(source, fact.ref): device for device, group in made for source, fact in group.facts}
    return tuple(device for device, _ in made), by_ref


def links(
    collected: Sequence[Collected],
    by_ref: dict[tuple[str, str], Device],
    nics: Sequence[Nic],
) -> tuple[DeviceLink, ...]:
    """Links between devices and NICs, each pair once, in order."""
    rdma = {nic.rdma: nic.name for nic in nics if nic.rdma} | {nic.name: nic.name for nic in nics}
    found: dict[tuple[str, str], DeviceLink] = {}
    for one in collected:
        for link in one.links:
            ends = []
            for ref in (link.a, link.b):
                device = by_ref.get((one.report.name, ref))
                ends.append(device.key if device is not None else rdma.get(ref))
            a, b = ends
            if a is None or b is None or a == b or (a in rdma.values() and b in rdma.values()):
                continue
            a, b = min(a, b), max(a, b)
            found.setdefault((a, b), DeviceLink(a=a, b=b, kind=link.kind, direct=link.direct))
    return tuple(found[pair] for pair in sorted(found))


def _grouped(collected: Sequence[Collected]) -> list[_Group]:
    """Facts of one device together. Facts without chip belong to every chip of their address."""
    groups: dict[tuple[object, ...], _Group] = {}
    by_pci: dict[str, list[_Group]] = defaultdict(list)
    by_uuid: dict[str, _Group] = {}
    facts = [(one.report.name, fact) for one in collected for fact in one.devices]
    # Facts that tell chips apart come first, so that the others find them.
    for source, fact in sorted(facts, key=lambda item: item[1].chip is None):
        if fact.pci is not None and fact.chip is None and by_pci[fact.pci]:
            targets = by_pci[fact.pci]
        elif fact.pci is None and fact.uuid in by_uuid:
            targets = [by_uuid[fact.uuid]]
        else:
            key = (fact.pci, fact.chip) if fact.pci else (source, fact.ref)
            if key not in groups:
                groups[key] = _Group()
                if fact.pci:
                    by_pci[fact.pci].append(groups[key])
            targets = [groups[key]]
        for group in targets:
            group.facts.append((source, fact))
            if fact.uuid:
                by_uuid.setdefault(fact.uuid, group)
    trust = {one.report.name: number for number, one in enumerate(collected)}
    for group in groups.values():
        group.facts.sort(key=lambda item: trust[item[0]])
    return list(groups.values())


def _device(
    group: _Group,
    reports_: dict[str, SourceReport],
    present: frozenset[str] | None,
    doubles: dict[tuple[str, str], set[str]],
) -> Device:
    merged = {name: group.first(name) for name in _MERGED}
    conflicts = group.conflicts()
    pci, vendor = group.first("pci"), group.facts[0][1].vendor
    for name in ("uuid", "serial"):
        others = doubles.get((name, merged[name] or ""), set()) - {pci or ""}
        if others:
            conflicts.append(f"{name}: {merged[name]} also stands on {', '.join(sorted(others))}")
    files = merged["files"] or ()
    missing = [f for f in files if present is not None and f not in present]
    health = _health(group, vendor, reports_, missing)
    return Device(
        vendor=vendor,
        kind=group.facts[0][1].kind,
        pci=pci,
        chip=group.first("chip"),
        numa_node=_numa_node(group),
        health=health,
        conflicts=tuple(conflicts),
        **{
            **merged,
            "model": merged["model"] or _unnamed(merged["pci_id"]),
            "files": () if missing else files,
            "sliced": bool(merged["sliced"]),
            "slices": tuple(_with_nodes(piece, present) for piece in merged["slices"] or ()),
        },
    )


def _with_nodes(piece: Slice, present: frozenset[str] | None) -> Slice:
    """A slice of which a device node is missing has none: slurmd would not start with it."""
    if present is None or present.issuperset(piece.files):
        return piece
    return piece.model_copy(update={"files": ()})


def _numa_node(group: _Group) -> int | None:
    """As sysfs says; a tool's word counts only where sysfs was not seen."""
    for source, fact in group.facts:
        if source == "pci":
            return fact.numa_node
    node: int | None = group.first("numa_node")
    return node


def _unnamed(pci_id: str | None) -> str:
    return f"PCI {pci_id}" if pci_id else "unnamed"


def _health(
    group: _Group, vendor: str, reports_: dict[str, SourceReport], missing: list[str]
) -> Health:
    """The worst that a source says; unknown with the reason where none says anything."""
    said = [fact.health for _, fact in group.facts if fact.health is not None]
    states = [health.state for health in said]
    reasons = [reason for health in said for reason in health.reasons]
    if not said:
        states, reasons = ["unknown"], [_silence(group, vendor, reports_)]
    if missing:
        states.append("degraded")
        reasons += [f"{path} does not exist" for path in missing]
    worst = min(states, key=lambda state: _WORST[state])
    return Health(state=worst, reasons=tuple(dict.fromkeys(reasons)))


def _silence(group: _Group, vendor: str, reports_: dict[str, SourceReport]) -> str:
    """Why nobody knows how a device is."""
    bound = group.first("bound")
    if any(fact.passthrough for _, fact in group.facts):
        return f"driver {bound} hands it to a virtual machine"
    seen = any(source == "pci" for source, _ in group.facts)
    unbound = "no driver is bound" if seen else "the kernel was not asked"
    driver = f"driver {bound} is bound" if bound else unbound
    told = [source for source, _ in group.facts if source in ANSWERING]
    if told:
        return f"{' and '.join(told)} did not tell its health; {driver}"
    tool = reports_.get(TOOLS.get(vendor, ""))
    if tool is None:
        return f"no tool of {vendor} is known here; {driver}"
    if tool.state == "present":
        return f"{tool.name} does not list it; {driver}"
    return f"{tool.name}: {tool.detail or tool.state}; {driver}"


def _doubles(groups: Sequence[_Group]) -> dict[tuple[str, str], set[str]]:
    """Places of each uuid and serial that stands on several cards."""
    places: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for group in groups:
        where = group.first("pci") or group.facts[0][1].ref
        board = group.first("board")
        for name in ("uuid", "serial"):
            value = group.first(name)
            if value:
                # Devices of one card share its serial number, never a uuid.
                card = f"board {board}" if name == "serial" and board else f"{where} {id(group)}"
                places[name, value].setdefault(card, where)
    return {key: set(cards.values()) for key, cards in places.items() if len(cards) > 1}


def _order(device: Device) -> tuple[object, ...]:
    return (
        device.kind,
        sort_key(device.pci),
        -1 if device.chip is None else device.chip,
        device.files,
        device.uuid or "",
    )


def _differ(name: str, values: Sequence[Any]) -> bool:
    """Whether sources contradict each other: one that knows more files than another does not, nor
    one that spells the same identity otherwise."""
    if name == "files":
        files = [set(value) for value in values]
        return any(not (a <= b or b <= a) for a in files for b in files)
    if name == "uuid":
        values = [amd_ids.unique_of(value) or value for value in values]
    return len({str(value).casefold() for value in values}) > 1


def _shown(value: object) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value)
