"""KFD: what the compute driver of AMD's and Hygon's GPUs says in sysfs.

It alone knows the order that the runtime counts, which render node belongs to which partition, and
the links. Each partition of a GPU (DPX, TPX, QPX, CPX) is a device: it has a render node and a
number of its own, and nobody can open the GPU as a whole.
"""

from __future__ import annotations

from hpcmgr.discovery import amd_ids, kfd_tree
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.kfd_tree import PCIE, XGMI, GpuNode, KfdTree
from hpcmgr.discovery.pci_classes import NOT_ACCELERATORS
from hpcmgr.discovery.source import Collected, DeviceFacts, LinkFacts
from hpcmgr.inventory import SourceReport

_KINDS = {XGMI: "XGMI", PCIE: "PCIE"}


class Kfd:
    """The topology of the compute driver."""

    name = "kfd"
    vendor: str | None = None

    def collect(self, host: Host) -> Collected:
        """Read it. Nodes that the process may not see make it broken."""
        tree = kfd_tree.read(host)
        if tree is None:
            detail = f"no {kfd_tree.ROOT}"
            return Collected(SourceReport(name=self.name, state="absent", detail=detail))
        # A processor's own graphics have a number in the runtime, too, but are no accelerator.
        gpus = [gpu for gpu in tree.gpus if gpu.pci_id not in NOT_ACCELERATORS]
        unread = ", ".join(str(node) for node in tree.unread)
        report = SourceReport(
            name=self.name,
            state="broken" if unread else "present",
            detail=f"properties of node {unread} cannot be read" if unread else "",
        )
        return Collected(report, tuple(_facts(host, gpu) for gpu in gpus), _links(host, tree))


def uuid(vendor: str, unique_id: int, device_id: int, partition: int | None) -> str | None:
    """As the vendor's tool prints it: Hygon's is ``GPU-`` and the number."""
    if vendor == "hygon":
        return f"GPU-{unique_id:016x}" if unique_id else None
    return amd_ids.uuid_of(unique_id, device_id, partition)


def _facts(host: Host, gpu: GpuNode) -> DeviceFacts:
    return DeviceFacts(
        ref=str(gpu.node),
        vendor=gpu.vendor,
        kind="gpu",
        pci=gpu.pci,
        pci_id=gpu.pci_id,
        chip=gpu.partition,
        index=gpu.index,
        files=gpu.files,
        uuid=uuid(gpu.vendor, gpu.unique_id, int(gpu.pci_id[5:], 16), gpu.partition),
        board=gpu.pci,
        memory_mib=kfd_tree.memory(host, gpu.node),
    )


def _links(host: Host, tree: KfdTree) -> tuple[LinkFacts, ...]:
    nodes = {gpu.node for gpu in tree.gpus}
    return tuple(
        LinkFacts(str(gpu.node), str(other), _KINDS[kind], direct=kind == XGMI)
        for gpu in tree.gpus
        for other, kind in sorted(kfd_tree.links(host, gpu.node).items())
        if other in nodes and kind in _KINDS
    )
