"""PCI addresses, in the one spelling that the inventory holds: sysfs's (``0000:3b:00.0``)."""

from __future__ import annotations

import re

_ADDRESS = re.compile(
    r"^(?:(?P<domain>[0-9a-f]{1,8}):)?(?P<bus>[0-9a-f]{1,2}):(?P<device>[0-9a-f]{1,2})\.(?P<function>[0-7])$",
    re.IGNORECASE,
)


def canonical(text: str | None) -> str | None:
    """``"00000000:3B:00.0"``, ``"3b:00.0"``, ``"00:3B:00.0"`` → ``"0000:3b:00.0"``.

    Wide domains keep their digits (``"10000:01:00.0"``). What is no address gives None.
    """
    found = _ADDRESS.match(text.strip()) if text else None
    if not found or int(found["device"], 16) > 0x1F:
        return None
    domain = int(found["domain"] or "0", 16)
    return (
        f"{domain:04x}:{int(found['bus'], 16):02x}:{int(found['device'], 16):02x}"
        f".{found['function']}"
    )


def sort_key(address: str | None) -> tuple[int, ...]:
    """Order of the bus, by number; what has no address comes last."""
    if address is None:
        return (1,)
    domain, bus, rest = address.split(":")
    device, function = rest.split(".")
    return (0, int(domain, 16), int(bus, 16), int(device, 16), int(function))
