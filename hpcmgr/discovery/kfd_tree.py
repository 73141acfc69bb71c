"""The topology that KFD, the compute driver of AMD's and Hygon's GPUs, shows in sysfs.

A node is a processor or a GPU (or one partition of a GPU). GPUs in the order of their nodes are
what ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES count; neither the tools' numbers nor the bus
need have that order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hpcmgr.discovery import amd_ids, drm_nodes
from hpcmgr.discovery.drm_nodes import DrmNodes
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.source import whole
from hpcmgr.inventory.pci_address import canonical

ROOT = "/sys/class/kfd/kfd/topology/nodes"
VENDORS = {0x1002: "amd", 0x1D94: "hygon"}

XGMI, PCIE = 11, 2
"""Types of a link."""

_OWN_MEMORY = ("1", "2")
"""Heap types of a memory bank on the card: visible to the processor, and not."""


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A GPU or a partition. ``index`` is its place among all GPUs; ``partition`` is None for a
    whole GPU."""

    node: int
    index: int
    vendor: str
    pci: str | None
    pci_id: str
    partition: int | None
    gpu_id: str | None
    unique_id: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KfdTree:
    """The GPUs by node number, and the nodes that cannot be read (another job's cgroup)."""

    gpus: tuple[GpuNode, ...]
    unread: tuple[int, ...] = ()

    def at(self, *, gpu_id: str | None = None, node: str | None = None) -> GpuNode | None:
        """The GPU with that id (the tools' GUID) or node number."""
        for gpu in self.gpus:
            if gpu_id is not None and gpu.gpu_id == gpu_id:
                return gpu
            if gpu_id is None and node is not None and str(gpu.node) == node:
                return gpu
        return None

    @property
    def partitioned(self) -> frozenset[str]:
        """Addresses of the GPUs that are divided."""
        return frozenset(g.pci for g in self.gpus if g.pci and g.partition is not None)


def read(host: Host) -> KfdTree | None:
    """The tree; None where there is no KFD."""
    names = [name for name in host.listdir(ROOT) if name.isascii() and name.isdigit()]
    if not names:
        return None
    nodes = drm_nodes.read(host)
    unread: list[int] = []
    found: list[tuple[int, dict[str, str], str | None]] = []
    for number in sorted(int(name) for name in names):
        properties = _properties(host.read_text(f"{ROOT}/{number}/properties"))
        gpu_id = _word(host.read_text(f"{ROOT}/{number}/gpu_id"))
        if not properties:
            # A node of gpu_id 0 is a processor: nothing is missed.
            unread += [] if gpu_id == "0" else [number]
        elif _number(properties, "simd_count"):
            found.append((number, properties, gpu_id))
    places = _places(found, nodes)
    return KfdTree(tuple(_gpus(found, places, nodes)), tuple(unread))


def _gpus(
    found: list[tuple[int, dict[str, str], str | None]],
    places: dict[int, tuple[str | None, int | None]],
    nodes: DrmNodes,
) -> Iterator[GpuNode]:
    for index, (number, properties, gpu_id) in enumerate(found):
        vendor_id = _number(properties, "vendor_id")
        pci, partition = places[number]
        yield GpuNode(
            node=number,
            index=index,
            vendor=VENDORS.get(vendor_id, f"pci-{vendor_id:04x}"),
            pci=pci,
            pci_id=f"{vendor_id:04x}:{_number(properties, 'device_id'):04x}",
            partition=partition,
            gpu_id=gpu_id,
            unique_id=_number(properties, "unique_id"),
            files=_files(_number(properties, "drm_render_minor"), nodes),
        )


def _places(
    found: list[tuple[int, dict[str, str], str | None]], nodes: DrmNodes
) -> dict[int, tuple[str | None, int | None]]:
    """Address and partition of each node.

    The driver tells bus, device and function in one number, with the partition's number in place
    of the function. An old driver does not tell the domain: then the render node leads there.
    """
    told: dict[int, str | None] = {}
    for number, properties, _ in found:
        owner = nodes.owner(drm_nodes.render_node(_number(properties, "drm_render_minor")))
        told[number] = _address(properties) or canonical(owner)
    split = amd_ids.places(address for address in told.values() if address)
    return {
        number: split.get(address or "", (address, None)) if address else (None, None)
        for number, address in told.items()
    }


def _address(properties: dict[str, str]) -> str | None:
    location = _number(properties, "location_id")
    if "domain" not in properties or "location_id" not in properties:
        return None
    return (
        f"{_number(properties, 'domain'):04x}:{location >> 8 & 0xFF:02x}"
        f":{location >> 3 & 0x1F:02x}.{location & 7}"
    )


def _files(minor: int, nodes: DrmNodes) -> tuple[str, ...]:
    if not minor:
        return ()
    file = drm_nodes.render_node(minor)
    owner = nodes.owner(file)
    return nodes.of[owner] if owner else (file,)


def memory(host: Host, node: int) -> int | None:
    """MiB of the banks on the card."""
    total = 0
    for bank in host.listdir(f"{ROOT}/{node}/mem_banks"):
        properties = _properties(host.read_text(f"{ROOT}/{node}/mem_banks/{bank}/properties"))
        if properties.get("heap_type") in _OWN_MEMORY:
            total += _number(properties, "size_in_bytes")
    return total >> 20 or None


def links(host: Host, node: int) -> dict[int, int]:
    """Number of the other node → type; a direct link comes before a way over PCIe."""
    found: dict[int, int] = {}
    for kind in ("io_links", "p2p_links"):
        for name in host.listdir(f"{ROOT}/{node}/{kind}"):
            properties = _properties(host.read_text(f"{ROOT}/{node}/{kind}/{name}/properties"))
            if "node_to" in properties and "type" in properties:
                found.setdefault(_number(properties, "node_to"), _number(properties, "type"))
    return found


def _properties(text: str | None) -> dict[str, str]:
    lines = (line.split() for line in (text or "").splitlines())
    return {words[0]: words[1] for words in lines if len(words) == 2}


def _number(properties: Mapping[str, str], key: str) -> int:
    """Value of a key, 0 if it is missing or no number."""
    text = properties.get(key, "")
    return int(text) if re.fullmatch(r"[0-9]{1,20}", text) else 0


def _word(text: str | None) -> str | None:
    value = (text or "").strip()
    return value if whole(value) is not None else None
