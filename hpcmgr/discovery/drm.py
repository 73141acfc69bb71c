"""The graphics subsystem: device nodes of AMD's, Hygon's and Intel's GPUs, and what the amdgpu
driver (and Hygon's offspring of it) says of each card without any tool."""

from __future__ import annotations

import re

from hpcmgr.discovery import drm_nodes, kfd, kfd_tree
from hpcmgr.discovery.drm_nodes import DrmNodes
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.node_places import cards
from hpcmgr.discovery.pci_classes import PASSTHROUGH_DRIVERS, VENDORS
from hpcmgr.discovery.source import Collected, DeviceFacts, first_line, known, known_serial, whole
from hpcmgr.discovery.sysfs_pci import ROOT, id_of
from hpcmgr.inventory import Health, SourceReport

_VENDOR_IDS = ("1002", "1d94", "8086")
_UNCORRECTED = re.compile(r"^ue:\s*([0-9]{1,18})\s*$", re.MULTILINE)


class Drm:
    """DRM's part of sysfs."""

    name = "drm"
    vendor: str | None = None

    def collect(self, host: Host) -> Collected:
        """Look at each card that the kernel lists."""
        nodes = drm_nodes.read(host)
        found = cards(host, _VENDOR_IDS)
        if not nodes.of or not found:
            detail = "no GPU of these vendors" if nodes.of else "no /sys/class/drm"
            return Collected(SourceReport(name=self.name, state="absent", detail=detail))
        tree = kfd_tree.read(host)
        divided = tree.partitioned if tree is not None else frozenset()
        facts = tuple(_facts(host, pci, nodes, divided=pci in divided) for pci in found)
        return Collected(SourceReport(name=self.name, state="present"), facts)


def _facts(host: Host, pci: str, nodes: DrmNodes, *, divided: bool) -> DeviceFacts:
    """Of a divided GPU only what is true of all its partitions."""
    path = f"{ROOT}/{pci}"
    pci_id = id_of(host, pci) or ""
    vendor, kind = VENDORS[pci_id[:4]]
    size = whole(host.read_text(f"{path}/mem_info_vram_total"))
    driver = (host.readlink(f"{path}/driver") or "").rstrip("/").rpartition("/")[2]
    version = known(first_line(host.read_text(f"/sys/module/{driver}/version") or ""))
    unique = re.fullmatch(
        r"(?:0x)?([0-9a-f]{1,16})", (host.read_text(f"{path}/unique_id") or "").strip().lower()
    )
    own = () if divided else nodes.of.get(pci, ())
    return DeviceFacts(
        ref=pci,
        vendor=vendor,
        kind=kind,
        model=known(first_line(host.read_text(f"{path}/product_name") or "")),
        pci=pci,
        pci_id=pci_id,
        files=own,
        uuid=kfd.uuid(vendor, int(unique[1], 16), int(pci_id[5:], 16), None)
        if unique and not divided
        else None,
        serial=known_serial(first_line(host.read_text(f"{path}/serial_number") or "")),
        board=pci,
        memory_mib=size >> 20 if size and not divided else None,
        driver=version,
        firmware=known(first_line(host.read_text(f"{path}/vbios_version") or "")),
        health=_health(host, path),
        bound=driver or None,
        passthrough=driver in PASSTHROUGH_DRIVERS,
    )


def _health(host: Host, path: str) -> Health | None:
    """By the error counters of the chip's parts (RAS); None where the card has none."""
    counts = {}
    for name in host.listdir(f"{path}/ras"):
        told = _UNCORRECTED.search(host.read_text(f"{path}/ras/{name}") or "")
        if told and name.endswith("_err_count"):
            counts[name.removesuffix("_err_count")] = int(told[1])
    if not counts:
        return None
    bad = [part.upper() for part, count in counts.items() if count]
    if bad:
        reason = f"uncorrected errors since the driver was loaded: {', '.join(bad)}"
        return Health(state="degraded", reasons=(reason,))
    return Health(state="ok")
