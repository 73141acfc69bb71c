"""What of a node must not move under running jobs: its devices in Slurm's order, its cores.

Two configurations are compared node by node, so that another folding of equal lines is no change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpcmgr.slurm.state import without_share_types
from hpcmgr.verify.configuration import ENV_FLAGS, Configuration, GresRecord, Node
from hpcmgr.verify.values import format_cores, parse_cores

Item = tuple[str, ...]

_MACHINE = ("boards", "sockets", "socketsperboard", "corespersocket", "threadspercore")
_SHAPE = (*_MACHINE, "cpus", "procs", "corespeccount", "cpuspeclist", "nodeaddr", "nodehostname",
          "port")  # fmt: skip


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
    detect = configuration.detection(node.name)
    if detect:
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
        shape=_shape(node),
        line=tuple(sorted(node.keys.items())),
        counts=tuple(sorted((r.name, str(r.count)) for r in records if r.name in counted)),
    )


def _shape(node: Node) -> tuple[Item, ...]:
    """Cores and address; two ways to write the same are one."""
    keys = {key: node.keys[key] for key in _SHAPE if key in node.keys}
    machine = node.machine
    if machine and keys.get("boards", "1") == "1":
        keys = {key: value for key, value in keys.items() if key not in _MACHINE}
        keys["machine"] = machine.synthetic
        cpus = str(machine.cores * machine.threads_per_core)
        keys = {k: v for k, v in keys.items() if k not in {"cpus", "procs"} or v != cpus}
    for key in ("nodeaddr", "nodehostname"):
        if keys.get(key) == node.name:
            del keys[key]
    return tuple(sorted(keys.items()))


def _count_only(records: tuple[GresRecord, ...]) -> frozenset[str]:
    """Names of which every record is a mere count."""
    flagged = {r.name for r in records if "countonly" in {f.lower() for f in r.flags}}
    return frozenset(flagged - {r.name for r in records if r.has_file})


def _device_items(record: GresRecord) -> list[Item]:
    # Variables of a step do not move its devices (seen on 24.11.5 and 26.05.5).
    flags = sorted({flag.lower() for flag in record.flags} - ENV_FLAGS)
    rest = (_same_cores(record.cores), ",".join(flags), record.entry.get("links") or "")
    kind = record.type or ""
    if record.files is None:
        return [(record.name, "record", kind, record.entry.text.partition("Name=")[2])]
    if record.multiple:
        return [(record.name, "device", kind, ",".join(record.files), *rest)]
    return [(record.name, "device", kind, file, *rest) for file in record.files]


def _same_cores(text: str | None) -> str:
    try:
        return format_cores(parse_cores(text)) if text else ""
    except ValueError:
        return text or ""


def expected_gres(configuration: Configuration) -> dict[str, dict[str, int]]:
    """Counts that every node should register, by ``name:type``; of shares by name."""
    return {
        n: without_share_types(expected_counts(node)) for n, node in configuration.nodes.items()
    }


def expected_counts(node: Node) -> dict[str, int]:
    """Counts of one node, by ``name:type``."""
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
