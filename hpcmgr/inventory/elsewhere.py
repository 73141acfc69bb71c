"""Where else a device was seen: in the inventories of other nodes."""

from __future__ import annotations

from pathlib import Path

from hpcmgr.errors import InventoryError
from hpcmgr.inventory.node import Device
from hpcmgr.inventory.store import load


def find(device: Device, directory: Path, node: str) -> str | None:
    """``"gpu03 at 0000:3b:00.0"``; None if no other node's inventory in ``directory`` has a device
    of that vendor with its uuid or, where that is unknown, its serial number."""
    known = device.uuid or device.serial
    if known is None:
        return None
    for path in sorted(directory.glob("*.json")):
        if path.stem == node or path.name.startswith("."):
            continue
        try:
            # Thousands of files: only one that has the text is parsed.
            if known.encode() not in path.read_bytes():
                continue
            others = load(path).devices
        except (OSError, InventoryError):
            continue
        for other in others:
            if other.vendor == device.vendor and known in (other.uuid, other.serial):
                return f"{path.stem} at {other.key}"
    return None
