"""What of a node must not move under running jobs: its devices in Slurm's order, its cores.

Two configurations are compared node by node, so that another folding of equal lines is no change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpcmgr.slurm.state import without_share_types
from hpcmgr.verify.configuration import Configuration, GresRecord, Node

Item = tuple[str, ...]

_SHAPE = ("boards", "sockets", "socketsperboard", "corespersocket", "threadspercore", "cpus",
          "procs", "corespeccount", "cpuspeclist", "nodeaddr", "nodehostname", "port")  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """``devices``: types and files in the order that gives them their numbers, with their cores
    and flags; counts of CountOnly GRES are not in it. ``shape``: cores and address."""

    devices: tuple[Item, ...]
    shape: tuple[Item, ...]
    line: tuple[Item, ...]
    """The whole NodeName line, as a set of keys."""
    counts: tuple[Item, ...]
    """CountOnly records."""

    def moves_devices(self, other: NodeLayout) -> bool:
        """Whether going from one to the other could renumber or drop a device."""
        return self.devices != other.devices

    def moves_cores(self, other: NodeLayout) -> bool:
        """Whether it could renumber a core, or lose contact with slurmd."""
        return self.shape != other.shape


def layouts(configuration: Configuration) -> dict[str, NodeLayout]:
    """The layout of every node that has a line."""
    found: dict[str, NodeLayout] = {}
    for shape in configuration.shapes:
        for name in shape.names:
            node = configuration.nodes[name]
            found[name] = _layout(configuration, node, shape.records)
    return found


def _layout(
    configuration: Configuration, node: Node, records: tuple[GresRecord, ...]
) -> NodeLayout:
    counted = _count_only(records)
    devices: list[Item] = []
    detect = configuration.autodetect_by_node.get(node.name, configuration.autodetect)
    if detect and detect != "off":
        devices.append(("", "autodetect", detect))
    devices += [
        (item.name, "gres", item.type or "", str(item.number))
        for item in node.gres
        if item.name not in counted
    ]
    for record in records:
        if record.name not in counted:
            devices += _device_items(record)
    # The numbers of one name do not depend on the others': its place among them says nothing.
    devices.sort(key=lambda item: item[0])
    return NodeLayout(
        devices=tuple(devices),
        shape=tuple((key, node.keys[key]) for key in _SHAPE if key in node.keys),
        line=tuple(sorted(node.keys.items())),
        counts=tuple(sorted((r.name, str(r.count)) for r in records if r.name in counted)),
    )


def _count_only(records: tuple[GresRecord, ...]) -> frozenset[str]:
    """Names of which every record is a mere count."""
    flagged = {r.name for r in records if "countonly" in {f.lower() for f in r.flags}}
    return frozenset(flagged - {r.name for r in records if r.has_file})


def _device_items(record: GresRecord) -> list[Item]:
    rest = (record.cores or "", ",".join(sorted(record.flags)), record.entry.get("links") or "")
    kind = record.type or ""
    if record.files is None:
        return [(record.name, "record", kind, record.entry.text.partition("Name=")[2])]
    if record.multiple:
        return [(record.name, "device", kind, ",".join(record.files), *rest)]
    return [(record.name, "device", kind, file, *rest) for file in record.files]


def expected_gres(configuration: Configuration) -> dict[str, dict[str, int]]:
    """Counts that every node should register, by ``name:type``; of shares by name."""
    return {name: without_share_types(_counts(node)) for name, node in configuration.nodes.items()}


def _counts(node: Node) -> dict[str, int]:
    counts: dict[str, int] = {}
    for item in node.gres:
        key = f"{item.name}:{item.type}" if item.type else item.name
        counts[key] = counts.get(key, 0) + (item.number or 0)
    return counts


def same(a: Mapping[str, NodeLayout], b: Mapping[str, NodeLayout], name: str) -> bool:
    """Whether both have the node with the same devices and cores."""
    left, right = a.get(name), b.get(name)
    if left is None or right is None:
        return left is right
    return not left.moves_devices(right) and not left.moves_cores(right)
