"""The identities of AMD's GPUs and of their partitions.

One 64-bit number, burnt into the chip, is printed in four ways: by the kernel in decimal
(``unique_id`` of KFD) and in hex (``unique_id`` of the card), by rocm-smi as ``0x…``, by the
runtime as ``GPU-…`` and by amd-smi inside a UUID, together with the PCI device id.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from hpcmgr.discovery.source import known_serial
from hpcmgr.inventory.pci_address import canonical

_UUID = re.compile(
    r"^([0-9a-f]{2})[0-9a-f]{6}-0000-1000-80([0-9a-f]{2})-([0-9a-f]{12})$", re.IGNORECASE
)
_HEX = re.compile(r"^(?:0x([0-9a-f]{1,16})|(?:GPU-)?([0-9a-f]{16}))$", re.IGNORECASE)
_WHOLE = 0xFF
"""Partition number in the UUID of a GPU that is not partitioned."""


def uuid_of(unique: int, device_id: int, partition: int | None = None) -> str | None:
    """The UUID that amd-smi prints for this number; None for 0, which is no number."""
    if not 0 < unique < 1 << 64:
        return None
    number = f"{unique:016x}"
    part = _WHOLE if partition is None else partition
    return f"{number[:2]}{part:02x}{device_id & 0xFFFF:04x}-0000-1000-80{number[2:4]}-{number[4:]}"


def unique_of(text: str) -> int | None:
    """The number behind any of the spellings; None if it is none of them."""
    uuid = _UUID.match(text.strip())
    if uuid:
        return int("".join(uuid.groups()), 16)
    number = _HEX.match(text.strip())
    return int(number[1] or number[2], 16) if number else None


def spelt_like(text: str, unique: int) -> str:
    """Another number in the spelling of ``text``."""
    number = f"{unique:016x}"
    uuid = _UUID.match(text)
    if uuid:
        return f"{number[:2]}{text[2:8]}-0000-1000-80{number[2:4]}-{number[4:]}"
    if re.fullmatch(r"[0-9]{17,20}", text):
        return str(unique)
    prefix = next((p for p in ("0x", "GPU-") if text.lower().startswith(p.lower())), "")
    return prefix + number


def places(addresses: Iterable[str]) -> dict[str, tuple[str, int | None]]:
    """Address as told → address in sysfs and number of the partition (None: not partitioned).

    The partitions of a GPU are told as functions ``.0``, ``.1``, … of it. Only the first is a
    PCI function; the others are platform devices.
    """
    told = [(address, canonical(address)) for address in addresses]
    boards: dict[str, set[str]] = defaultdict(set)
    for _, pci in told:
        if pci is not None:
            boards[pci[:-1]].add(pci)
    found: dict[str, tuple[str, int | None]] = {}
    for address, pci in told:
        if pci is None:
            continue
        siblings = boards[pci[:-1]]
        parted = len(siblings) > 1 and f"{pci[:-1]}0" in siblings
        found[address] = (f"{pci[:-1]}0", int(pci[-1])) if parted else (pci, None)
    return found


def nonzero(text: str | None) -> str | None:
    """A number as told, None if it is unknown or all zeros."""
    value = known_serial(text)
    return None if value and unique_of(value) == 0 else value
