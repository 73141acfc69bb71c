"""The device graph of one node: its devices and NICs, their places, and what lies between any two.

Where a vendor's tool names the way, its word stands (NV12, HCCS, PIX, SYS). Else the word is made
here and written small: ``pix``, ``pxb`` and ``phb`` by the kernel's tree of bridges, ``node`` for
the same NUMA node, ``sys`` for different ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from hpcmgr.discovery import pci_tree
from hpcmgr.inventory import CpuTopology, Device, Nic, NodeInventory
from hpcmgr.inventory.pci_address import sort_key

MEANINGS = {
    "PIX": "at most one PCIe bridge",
    "PXB": "several PCIe bridges",
    "PHB": "a PCIe host bridge",
    "NODE": "host bridges of one NUMA node",
    "SYS": "between NUMA nodes",
    "HCCS": "HCCS",
    "SIO": "two chips of one package",
    "UB": "UB",
    "MLK": "MLU-Link",
    "pix": "at most one PCIe bridge or switch (by the kernel's tree)",
    "pxb": "several PCIe bridges (by the kernel's tree)",
    "phb": "a PCIe host bridge (by the kernel's tree)",
    "node": "same NUMA node (no tool says more)",
    "sys": "different NUMA nodes (no tool says more)",
}


@dataclass(frozen=True, slots=True)
class End:
    """A device or a NIC. ``key`` is what links of the inventory call it."""

    name: str
    key: str
    numa: int | None
    socket: int | None
    what: Device | Nic

    @property
    def device(self) -> Device | None:
        """The device, None if it is a NIC."""
        return self.what if isinstance(self.what, Device) else None

    @property
    def nic(self) -> Nic | None:
        """The NIC, None if it is a device."""
        return self.what if isinstance(self.what, Nic) else None

    @property
    def pci(self) -> str | None:
        """PCI address."""
        return self.what.pci


@dataclass(frozen=True, slots=True)
class Way:
    """What lies between two ends; ``said``: a tool named it."""

    kind: str
    direct: bool = False
    said: bool = True


@dataclass(frozen=True, slots=True)
class Group:
    """Ends of which each has a direct link of this kind to each."""

    kind: str
    ends: tuple[End, ...]


class NodeGraph:
    """``inventory`` as a graph; ``ends`` are the devices, then the NICs."""

    def __init__(self, inventory: NodeInventory) -> None:
        self.inventory = inventory
        self.ends = (*_devices(inventory), *_nics(inventory))
        self._links = {(link.a, link.b): link for link in inventory.links}

    def way(self, a: End, b: End) -> Way | None:
        """The way between two ends, None if nobody knows."""
        link = self._links.get((a.key, b.key)) or self._links.get((b.key, a.key))
        if link is not None:
            return Way(link.kind, link.direct, said=link.kind not in pci_tree.WORDS)
        if a.numa is None or b.numa is None:
            return None
        return Way("node" if a.numa == b.numa else "sys", said=False)

    def groups(self) -> tuple[Group, ...]:
        """Direct links, those of ends that are all linked to each other as one group."""
        found: list[Group] = []
        for kind in sorted({link.kind for link in self._links.values() if link.direct}):
            for members in self._components(kind):
                pairs = self._pairs(kind, members)
                if len(pairs) == len(members) * (len(members) - 1) // 2:
                    found.append(Group(kind, members))
                else:
                    found += [Group(kind, pair) for pair in pairs]
        return tuple(found)

    def _pairs(self, kind: str, ends: Iterable[End]) -> list[tuple[End, End]]:
        listed = list(ends)
        return [
            (a, b)
            for number, a in enumerate(listed)
            for b in listed[number + 1 :]
            if (way := self.way(a, b)) and way.direct and way.kind == kind
        ]

    def _components(self, kind: str) -> list[tuple[End, ...]]:
        """Ends that links of this kind hold together."""
        islands: list[set[str]] = []
        for a, b in self._pairs(kind, self.ends):
            joined = [island for island in islands if a.name in island or b.name in island]
            islands = [island for island in islands if island not in joined]
            islands.append({a.name, b.name}.union(*joined))
        ordered = [tuple(end for end in self.ends if end.name in island) for island in islands]
        return sorted(ordered, key=lambda ends: self.ends.index(ends[0]))


def _devices(inventory: NodeInventory) -> list[End]:
    """GPU0, NPU3: the vendor's own number where that is no other device's, else the place."""
    own = [(d.kind, d.index) for d in inventory.devices]
    kinds_without = {kind for (kind, n), times in Counter(own).items() if n is None or times > 1}
    seen: Counter[str] = Counter()
    ends = []
    for device in inventory.devices:
        number = seen[device.kind] if device.kind in kinds_without else device.index
        seen[device.kind] += 1
        socket = socket_of(inventory.cpu, device.numa_node)
        name = f"{device.kind.upper()}{number}"
        ends.append(End(name, device.key, device.numa_node, socket, device))
    return sorted(ends, key=lambda end: (end.name.rstrip("0123456789"), len(end.name), end.name))


def _nics(inventory: NodeInventory) -> list[End]:
    """NICs on the PCI bus, called by their RDMA device where they have one."""
    ordered = sorted((n for n in inventory.nics if n.pci), key=lambda n: (sort_key(n.pci), n.name))
    return [
        End(
            nic.rdma or nic.name,
            nic.name,
            nic.numa_node,
            socket_of(inventory.cpu, nic.numa_node),
            nic,
        )
        for nic in ordered
    ]


def socket_of(cpu: CpuTopology, numa: int | None) -> int | None:
    """Socket of a NUMA node."""
    return next((node.socket for node in cpu.numa if node.id == numa), None)
