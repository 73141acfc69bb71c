"""What lies between two PCI functions, as the kernel's tree of bridges tells it.

    …/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:08.0/0000:3f:00.0

Most vendors' tools tell no distances; those of NVIDIA, Huawei and MetaX use these words in
capitals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile

from hpcmgr.discovery import sysfs_pci
from hpcmgr.discovery.host import Host
from hpcmgr.inventory import Device, DeviceLink, Nic
from hpcmgr.inventory.pci_address import canonical

WORDS = ("pix", "pxb", "phb")
"""At most one bridge or switch, several, a host bridge."""

_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")

Way = tuple[str, ...]
"""Host bridge, bridges and function, from the top."""


def complete(
    links: Iterable[DeviceLink], host: Host, devices: Iterable[Device], nics: Iterable[Nic]
) -> tuple[DeviceLink, ...]:
    """``links`` and, for pairs below one host bridge of which no tool told anything, the way."""
    found = {(link.a, link.b): link for link in links}
    ends = [(d.key, d.pci, True) for d in devices] + [(n.name, n.pci, False) for n in nics]
    ways = {pci: _way(host, pci) for _, pci, _ in ends if pci}
    for number, (a, place, is_device) in enumerate(ends):
        for b, other, _ in ends[number + 1 :] if is_device else ():
            word = _between(ways.get(place or "", ()), ways.get(other or "", ()))
            pair = (min(a, b), max(a, b))
            if word and pair not in found:
                found[pair] = DeviceLink(a=pair[0], b=pair[1], kind=word)
    return tuple(found[pair] for pair in sorted(found))


def _way(host: Host, pci: str) -> Way:
    """Empty where the tree does not show it, as in recordings made by hand."""
    steps = (host.readlink(f"{sysfs_pci.ROOT}/{pci}") or "").split("/")
    way = tuple(step for step in steps if _ROOT.fullmatch(step) or canonical(step))
    return way if way and _ROOT.fullmatch(way[0]) and way[-1] == pci else ()


def _between(a: Way, b: Way) -> str:
    """The word, empty for the same function and for ways that meet nowhere."""
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
    if not shared or a == b:
        return ""
    if _ROOT.fullmatch(a[shared - 1]):
        return "phb"
    # What lies between the bridge where they part and each of them: a switch has one port for each.
    ports = max(len(way) - shared - 1 for way in (a, b))
    return "pix" if ports <= 1 else "pxb"
