"""What changed on a node since its last inventory, device by device, in words.

Devices are compared by what they are (``identity``), never by a number of the vendor's tool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hpcmgr.inventory.identity import doubles, pair_up
from hpcmgr.inventory.node import Device, Nic, NodeInventory

SCHEMA = "hpcmgr.drift/1"

Level = Literal["warning", "note"]


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that changed. ``what`` is a stable word for scripts; ``subject`` a device
    (``Device.key``), an interface, or empty for the node; ``about`` the same in words. A warning
    should be looked at."""

    level: Level
    what: str
    subject: str
    text: str
    before: object = None
    after: object = None
    about: str = ""
    uuid: str | None = None
    serial: str | None = None

    def __str__(self) -> str:
        return f"{self.about}: {self.text}" if self.about else self.text


@dataclass(frozen=True, slots=True)
class Position:
    """A device where Slurm counts it: the ``number`` th of GRES ``name`` on the node."""

    name: str
    number: int
    type: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drift:
    """Everything that changed on one node; ``first``: nothing was published before."""

    node: str
    first: bool = False
    changes: tuple[Change, ...] = ()

    def as_json(self, *, published: bool) -> dict[str, Any]:
        """The document of ``hpcmgr sync --json``."""
        return {
            "schema": SCHEMA,
            "node": self.node,
            "first": self.first,
            "published": published,
            "changes": [
                {
                    "level": change.level,
                    "what": change.what,
                    "subject": change.subject or None,
                    "text": str(change),
                    "before": change.before,
                    "after": change.after,
                    "uuid": change.uuid,
                    "serial": change.serial,
                }
                for change in self.changes
            ],
        }


@dataclass(frozen=True, slots=True)
class Placed:
    """A device of one node as ``identity`` compares it."""

    device: Device
    node: str
    vendor: str = field(init=False)
    model: str = field(init=False)
    chip: int | None = field(init=False)
    uuid: str | None = field(init=False)
    serial: str | None = field(init=False)
    place: Hashable = field(init=False)

    def __post_init__(self) -> None:
        for name in ("vendor", "model", "chip", "uuid", "serial"):
            object.__setattr__(self, name, getattr(self.device, name))
        object.__setattr__(self, "place", (self.node, self.device.key))


def compare(
    before: NodeInventory | None,
    after: NodeInventory,
    *,
    old_positions: Sequence[Position] = (),
    new_positions: Sequence[Position] = (),
    elsewhere: Callable[[Device], str | None] = lambda _: None,
) -> Drift:
    """What changed; nothing where ``before`` is None.

    Args:
        before: the last inventory of the node.
        after: the new one.
        old_positions: the devices as Slurm counts them now.
        new_positions: as it would count them.
        elsewhere: says on which other node a device that is new here was seen before.
    """
    if before is None:
        return Drift(after.node, first=True)
    pairs, gone, new = pair_up(
        [Placed(d, before.node) for d in before.devices],
        [Placed(d, after.node) for d in after.devices],
    )
    changes = [
        *_node(before, after),
        *_gone_and_new([p.device for p in gone], [p.device for p in new], elsewhere),
        *(change for old, now in pairs for change in changes_of(old.device, now.device)),
        *_doubles(after),
        *_positions(old_positions, new_positions),
        *_nics(before, after),
        *_links(before, after),
    ]
    return Drift(after.node, changes=tuple(changes))


def named(device: Device) -> str:
    """A device in words: model, place, serial number or uuid."""
    known = f"serial {device.serial}" if device.serial else device.uuid or "no serial number known"
    return f"{device.model} at {device.key} ({known})"


def changes_of(before: Device, after: Device) -> Iterator[Change]:
    """What changed about one device."""
    yield from _where(before, after)
    for what, title in _FIELDS.items():
        old, new = getattr(before, what), getattr(after, what)
        if old != new:
            yield _of(after, "note", what, f"{title} {_shown(old)} is now {_shown(new)}", old, new)
    if before.memory_mib != after.memory_mib:
        less = (after.memory_mib or 0) < (before.memory_mib or 0)
        text = f"memory {_mib(before.memory_mib)} is now {_mib(after.memory_mib)}"
        yield _of(after, "warning" if less else "note", "memory", text,
                  before.memory_mib, after.memory_mib)  # fmt: skip
    if before.profile != after.profile:
        lost = after.profile is None
        text = f"profile {_shown(before.profile)} is now {_shown(after.profile)}"
        yield _of(after, "warning" if lost else "note", "profile", text,
                  before.profile, after.profile)  # fmt: skip
    yield from _health(before, after)
    old_slices, new_slices = [s.name for s in before.slices], [s.name for s in after.slices]
    if before.slices != after.slices:
        text = f"slices {_counted(old_slices)} are now {_counted(new_slices)}"
        yield _of(after, "warning", "slices", text, old_slices, new_slices)


_FIELDS = {
    "model": "model",
    "uuid": "uuid",
    "serial": "serial number",
    "driver": "driver",
    "firmware": "firmware",
    "runtime_version": "runtime of the driver",
    "nvlink_domain": "NVLink domain",
}


def _where(before: Device, after: Device) -> Iterator[Change]:
    if before.key != after.key:
        text = f"moved from {before.key} to {after.key}"
        yield _of(after, "warning", "moved", text, before.key, after.key)
    if before.numa_node != after.numa_node:
        text = f"NUMA node {_shown(before.numa_node)} is now {_shown(after.numa_node)}"
        yield _of(after, "warning", "numa", text, before.numa_node, after.numa_node)
    if before.files != after.files:
        old, new = " ".join(before.files), " ".join(after.files)
        if not new:
            text = f"has no device node any more (was {old}): no job can have it"
        else:
            text = f"renumbered: device node {old or 'none'} is now {new}"
        yield _of(after, "warning", "files", text, list(before.files), list(after.files))
    if before.index != after.index:
        text = f"renumbered: number {_shown(before.index)} in the runtime is now "
        text += _shown(after.index)
        yield _of(after, "warning", "index", text, before.index, after.index)


def _health(before: Device, after: Device) -> Iterator[Change]:
    old, new = before.health, after.health
    if old == new:
        return
    why = f": {'; '.join(new.reasons)}" if new.reasons else ""
    changed = old.state != new.state
    text = f"health {old.state} is now {new.state}{why}" if changed else f"still {new.state}{why}"
    level: Level = "note" if new.state == "ok" else "warning"
    plain = (health.model_dump(mode="json") for health in (old, new))
    yield _of(after, level, "health", text, *plain)


def _gone_and_new(
    gone: list[Device], new: list[Device], elsewhere: Callable[[Device], str | None]
) -> Iterator[Change]:
    """A new card in the place of one that is gone has replaced it."""
    places = {device.key: device for device in new}
    for device in gone:
        other = places.get(device.key)
        text = "is gone"
        if other is not None:
            text = f"is gone; in its place is {named(other)}"
        yield _of(device, "warning", "gone", text, device.key, None)
    for device in new:
        origin = elsewhere(device)
        if origin is not None:
            text = f"moved here from {origin}"
            yield _of(device, "warning", "moved", text, origin, device.key)
        else:
            yield _of(device, "note", "new", "is new", None, device.key)


def _doubles(after: NodeInventory) -> Iterator[Change]:
    """Said each time: who compares devices must know that these cannot be told apart."""
    for name, group in doubles([Placed(device, after.node) for device in after.devices]):
        places = ", ".join(str(one.device.key) for one in group)
        value = group[0].uuid if name == "uuid" else group[0].serial
        text = f"{name} {value} stands on {places}: these are told apart by their place only"
        yield Change("warning", "double", "", text, None, [one.device.key for one in group])


def _positions(old: Sequence[Position], new: Sequence[Position]) -> Iterator[Change]:
    """Numbers in Slurm's list that stand for another device node than before."""
    for name in sorted({p.name for p in old}):
        was = {p.number: p for p in old if p.name == name}
        will = {p.number: p for p in new if p.name == name}
        moved = [
            f"{number} was {' '.join(place.files)}, is now {' '.join(will[number].files)}"
            for number, place in sorted(was.items())
            if number in will and place != will[number]
        ]
        if len(will) < len(was):
            moved.append(f"of {len(was)} {len(will)} are left")
        if moved:
            text = (
                f"positions change: Slurm counts the {name} devices of this node anew "
                f"({'; '.join(moved)}). Under running jobs a device would be handed out twice or a "
                "job be killed: 'hpcmgr apply' waits until no job here has devices; do not put the "
                "new gres.conf into force by hand before that"
            )
            yield Change("warning", "positions", "", text, _listed(was), _listed(will))


def _listed(positions: dict[int, Position]) -> list[str]:
    return [f"{p.name}:{p.type}={','.join(p.files)}" for _, p in sorted(positions.items())]


def _node(before: NodeInventory, after: NodeInventory) -> Iterator[Change]:
    def shape(inventory: NodeInventory) -> str:
        cpu = inventory.cpu
        sizes = f"{cpu.sockets} sockets x {cpu.cores_per_socket} cores x {cpu.threads_per_core}"
        return f"{sizes} threads"

    if shape(before) != shape(after):
        text = f"CPUs: {shape(before)} are now {shape(after)}"
        yield Change("warning", "cpu", "", text, shape(before), shape(after))
    if before.memory_mib != after.memory_mib:
        less = after.memory_mib < before.memory_mib
        text = f"memory of the node: {_mib(before.memory_mib)} is now {_mib(after.memory_mib)}"
        level: Level = "warning" if less else "note"
        yield Change(level, "node_memory", "", text, before.memory_mib, after.memory_mib)
    old, new = ([numa.model_dump(exclude={"memory_mib"}) for numa in inventory.cpu.numa]
                for inventory in (before, after))  # fmt: skip
    if old != new:
        text = f"NUMA nodes: {len(old)} are now {len(new)}, or their CPUs changed"
        yield Change("warning", "node_numa", "", text, old, new)


def _nics(before: NodeInventory, after: NodeInventory) -> Iterator[Change]:
    old, new = nics_by_place(before, after)
    for key in sorted(old.keys() - new.keys()):
        name = old[key].name
        yield Change("warning", "nic_gone", name, "interface is gone", name, None, name)
    for key in sorted(new.keys() - old.keys()):
        name = new[key].name
        yield Change("note", "nic_new", name, "interface is new", None, name, name)
    for key in sorted(old.keys() & new.keys()):
        yield from _nic(old[key], new[key])


def nics_by_place(
    before: NodeInventory, after: NodeInventory
) -> tuple[dict[str, Nic], dict[str, Nic]]:
    """Interfaces by PCI address, or by name where two ports share one address."""
    shared = {
        pci
        for inventory in (before, after)
        for pci, count in Counter(nic.pci for nic in inventory.nics).items()
        if count > 1 or pci is None
    }

    def by_place(inventory: NodeInventory) -> dict[str, Nic]:
        return {
            nic.name if nic.pci is None or nic.pci in shared else nic.pci: nic
            for nic in inventory.nics
        }

    return by_place(before), by_place(after)


def _nic(before: Nic, after: Nic) -> Iterator[Change]:
    for what in ("name", "rdma", "link_layer", "numa_node", "speed_mbps", "state"):
        old, new = getattr(before, what), getattr(after, what)
        if old != new:
            down = what in ("rdma", "state") and old in ("active", "up", before.rdma)
            text = f"{what.replace('_', ' ')} {_shown(old)} is now {_shown(new)}"
            level: Level = "warning" if down else "note"
            yield Change(level, f"nic_{what}", after.name, text, old, new, after.name)


def _links(before: NodeInventory, after: NodeInventory) -> Iterator[Change]:
    """Links between devices that are on both sides, one line for all that changed alike."""
    here = {device.key for device in before.devices} & {device.key for device in after.devices}

    def kinds(inventory: NodeInventory) -> dict[tuple[str, str], str]:
        return {(link.a, link.b): link.kind for link in inventory.links if {link.a, link.b} <= here}

    old, new = kinds(before), kinds(after)
    counts = Counter(
        (old.get(ends), new.get(ends))
        for ends in old.keys() | new.keys()
        if old.get(ends) != new.get(ends)
    )
    for (was, now), count in sorted(counts.items(), key=str):
        text = f"{count} link{'s' if count > 1 else ''} between devices: {_shown(was)} is now "
        yield Change("warning", "links", "", text + _shown(now), was, now)


def _of(
    device: Device, level: Level, what: str, text: str, before: object, after: object
) -> Change:
    return Change(level, what, device.key, text, before, after,
                  named(device), device.uuid, device.serial)  # fmt: skip


def _shown(value: object) -> str:
    return "unknown" if value is None else str(value)


def _mib(value: int | None) -> str:
    return "unknown" if value is None else f"{value} MiB"


def _counted(names: Iterable[str]) -> str:
    counts = Counter(names)
    return ", ".join(f"{n} x {name}" for name, n in sorted(counts.items())) or "none"
