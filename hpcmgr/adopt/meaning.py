"""What a site's own files say of a node, in Slurm's sense."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpcmgr.apply.layout import expected_counts
from hpcmgr.verify.configuration import SHARED, Configuration, GresRecord, Node, Shape, hosts
from hpcmgr.verify.finding import Place
from hpcmgr.verify.values import Machine


@dataclass(frozen=True, slots=True)
class WrittenDevice:
    """One device as gres.conf has it; ``files`` empty: a mere count."""

    name: str
    type: str
    files: tuple[str, ...]
    cores: str
    place: Place

    @property
    def key(self) -> str:
        """``name:type``, or the name alone."""
        return f"{self.name}:{self.type}" if self.type else self.name


@dataclass(frozen=True, slots=True)
class Meaning:
    """One node. ``devices`` are in Slurm's order; ``gres`` is what Gres= counts."""

    machine: Machine | None
    keys: Mapping[str, str]
    gres: Mapping[str, int]
    devices: tuple[WrittenDevice, ...]
    autodetect: str
    place: Place
    records: tuple[Place, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """Features= (or Feature=), sorted."""
        text = self.keys.get("features") or self.keys.get("feature") or ""
        return tuple(sorted(word for word in text.split(",") if word))


def meaning_of(c: Configuration, shape: Shape) -> Meaning:
    """What the lines of these nodes mean."""
    node = shape.node
    return Meaning(
        machine=node.machine,
        keys=node.keys,
        gres=expected_counts(node),
        devices=_in_order(node, shape.records),
        autodetect=c.detection(node.name),
        place=node.place,
        records=tuple(record.place for record in shape.records),
    )


def _in_order(node: Node, records: tuple[GresRecord, ...]) -> tuple[WrittenDevice, ...]:
    """Slurm numbers the devices of a name by the order of types in Gres=, then of the records."""
    types: dict[str, list[str]] = {}
    for item in node.gres:
        types.setdefault(item.name, []).append(item.type or "")
    names = list(dict.fromkeys([*types, *(record.name for record in records)]))

    def rank(device: WrittenDevice) -> tuple[int, int]:
        known = types.get(device.name, [])
        place = known.index(device.type) if device.type in known else len(known)
        return names.index(device.name), place

    devices = [d for record in records if record.name not in SHARED for d in _devices(record)]
    return tuple(sorted(devices, key=rank))


def _devices(record: GresRecord) -> list[WrittenDevice]:
    kind, cores = record.type or "", record.cores or ""
    if record.multiple and record.files:
        return [WrittenDevice(record.name, kind, record.files, cores, record.place)]
    return [
        WrittenDevice(record.name, kind, (file,), cores, record.place)
        for file in record.files or ()
    ]


def leaves(c: Configuration) -> dict[str, str]:
    """The switch or block of every node that topology.conf places: ``switch s1``."""
    found: dict[str, str] = {}
    for entry in c.topology.settings("switchname", "blockname"):
        kind = "switch" if entry.head == "switchname" else "block"
        for name in hosts(entry.get("nodes") or "", entry.place, []) if entry.get("nodes") else ():
            found.setdefault(name, f"{kind} {entry.pairs[0].value}")
    return found
