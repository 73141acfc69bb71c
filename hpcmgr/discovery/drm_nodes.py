"""/dev/dri: which card and render node belong to which device, from sysfs.

Numbers tell nothing: card0 is often the BMC's display, and renderD128 need not be card0's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from hpcmgr.discovery.host import Host
from hpcmgr.inventory.pci_address import canonical

_CLASS = "/sys/class/drm"
_PCI = "/sys/bus/pci/devices"
_NODE = re.compile(r"^(card|renderD)([0-9]{1,6})$")


@dataclass(frozen=True, slots=True)
class DrmNodes:
    """Device nodes by what they belong to: a PCI address, or the name of a platform device
    (``amdgpu_xcp.3``). The card comes before the render node."""

    of: dict[str, tuple[str, ...]]

    def owner(self, file: str) -> str | None:
        """What a device node belongs to."""
        return next((owner for owner, files in self.of.items() if file in files), None)


def read(host: Host) -> DrmNodes:
    """Look at /sys/class/drm, and below the PCI functions that have nodes."""
    found: dict[str, set[str]] = defaultdict(set)
    for name in host.listdir(_CLASS):
        owner = _owner(host, name) if _NODE.match(name) else None
        if owner:
            found[owner].add(name)
    for function in host.listdir(_PCI):
        pci = canonical(function)
        if pci is not None and pci not in found:
            found[pci] = {n for n in host.listdir(f"{_PCI}/{function}/drm") if _NODE.match(n)}
    return DrmNodes(
        {
            owner: tuple(f"/dev/dri/{name}" for name in sorted(names, key=_order))
            for owner, names in found.items()
            if names
        }
    )


def render_node(minor: int) -> str:
    """Device node of a render minor as KFD tells it."""
    return f"/dev/dri/renderD{minor}"


def _owner(host: Host, name: str) -> str | None:
    """``../../devices/pci0000:20/0000:21:00.0/drm/card1`` → ``0000:21:00.0``."""
    target = (host.readlink(f"{_CLASS}/{name}") or "").rstrip("/")
    parent, drm, node = target.rpartition("/drm/")
    if not drm or node != name:
        parent = (host.readlink(f"{_CLASS}/{name}/device") or "").rstrip("/")
    last = parent.rpartition("/")[2]
    return canonical(last) or last or None


def _order(name: str) -> tuple[str, int]:
    found = _NODE.match(name)
    return (found[1], int(found[2])) if found else (name, 0)
