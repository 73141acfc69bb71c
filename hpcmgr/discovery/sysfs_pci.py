"""PCI functions with the class of an accelerator, as the kernel lists them.

What sysfs alone knows: that the card is there, its place, and the driver bound to it. It is the
authority for NUMA nodes; -1 becomes unknown here and nowhere else.
"""

from __future__ import annotations

import re

from hpcmgr.discovery.host import Host
from hpcmgr.discovery.pci_classes import PASSTHROUGH_DRIVERS, VENDORS, is_accelerator
from hpcmgr.discovery.source import Collected, DeviceFacts
from hpcmgr.inventory import SourceReport
from hpcmgr.inventory.pci_address import canonical

ROOT = "/sys/bus/pci/devices"


class SysfsPci:
    """The PCI part of sysfs. ``only_node``: the NUMA node of a machine that has just one."""

    name = "pci"
    vendor: str | None = None

    def __init__(self, only_node: int | None = None) -> None:
        self._only_node = only_node

    def collect(self, host: Host) -> Collected:
        """List the accelerators."""
        names = host.listdir(ROOT)
        if not names:
            # No sysfs at all is a fault; a machine without PCI has a sysfs that says so.
            state = "broken" if host.live and not host.exists("/sys/bus") else "absent"
            return Collected(SourceReport(name=self.name, state=state, detail=f"no {ROOT}"))
        found, unread = [], []
        for name in names:
            pci = canonical(name)
            # A virtual function is a part of its physical one, made for a virtual machine.
            if pci is None or host.exists(f"{ROOT}/{name}/physfn"):
                continue
            pci_id = id_of(host, name)
            pci_class = (_hex(host.read_text(f"{ROOT}/{name}/class")) or "").zfill(6)
            if pci_id is None:
                unread.append(pci)
            elif is_accelerator(pci, pci_id, pci_class):
                found.append(self._facts(host, name, pci, pci_id, pci_class))
        if unread:
            detail = f"vendor or device id cannot be read: {', '.join(unread)}"
            report = SourceReport(name=self.name, state="broken", detail=detail)
        else:
            report = SourceReport(name=self.name, state="present", detail="")
        return Collected(report, tuple(found))

    def _facts(self, host: Host, name: str, pci: str, pci_id: str, pci_class: str) -> DeviceFacts:
        default = "npu" if pci_class[:4] in ("1200", "0b40") else "gpu"
        vendor, kind = VENDORS.get(pci_id[:4], (f"pci-{pci_id[:4]}", default))
        driver = (host.readlink(f"{ROOT}/{name}/driver") or "").rstrip("/").rpartition("/")[2]
        return DeviceFacts(
            ref=pci,
            vendor=vendor,
            kind=kind,
            pci=pci,
            pci_id=pci_id,
            numa_node=numa_node(host, name, self._only_node),
            bound=driver or None,
            passthrough=driver in PASSTHROUGH_DRIVERS,
        )


def id_of(host: Host, name: str) -> str | None:
    """``vendor:device`` of a function, as in ``10de:20b2``."""
    vendor = _hex(host.read_text(f"{ROOT}/{name}/vendor"))
    device = _hex(host.read_text(f"{ROOT}/{name}/device"))
    return f"{vendor.zfill(4)}:{device.zfill(4)}" if vendor and device else None


def numa_node(host: Host, name: str, only_node: int | None) -> int | None:
    """NUMA node of a function; a negative or missing number is unknown unless there is one node."""
    text = (host.read_text(f"{ROOT}/{name}/numa_node") or "").strip()
    return int(text) if re.fullmatch(r"[0-9]{1,6}", text) else only_node


def _hex(text: str | None) -> str | None:
    found = re.fullmatch(r"\s*0x([0-9a-fA-F]{1,6})\s*", text or "")
    return found[1].lower() if found else None
