"""Which device node belongs to which card, as the kernel tells it.

The number in the name of a node follows the order in which drivers found their cards; no tool's
numbering has to agree. The kernel knows, if the driver hung its nodes below the PCI function. Where
it did not, a tool's numbers are taken only where its vendor's own programs take them, and only if
they name exactly the nodes that are there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from hpcmgr.discovery import sysfs_pci
from hpcmgr.discovery.host import DeviceNode, Host
from hpcmgr.discovery.pci_classes import is_accelerator
from hpcmgr.discovery.source import DeviceFacts
from hpcmgr.inventory.pci_address import canonical

_SAME = ("model", "memory_mib", "driver", "firmware", "runtime_version", "health")


class NodePlaces:
    """The nodes whose path fits one of ``patterns``, which are made in the sysfs ``classes``."""

    def __init__(self, host: Host, patterns: Sequence[str], classes: Sequence[str] = ()) -> None:
        self._host = host
        self._patterns = [re.compile(pattern) for pattern in patterns]
        self._classes = classes
        self._nodes = [node for node in host.device_nodes() or () if self._rank(node.path)]
        self._linked = {node.path: self._linked_to(node) for node in self._nodes}

    def at(self, pci: str | None) -> tuple[str, ...]:
        """Nodes of the card at an address, the first pattern's first; empty if nobody knows."""
        if pci is None:
            return ()
        found = {path for path, place in self._linked.items() if place == pci}
        for name in self._classes:
            # The kernel writes tenstorrent!0 for /dev/tenstorrent/0.
            found |= {f"/dev/{entry.replace('!', '/')}" for entry in self._below(pci, name)}
        return tuple(sorted((p for p in found if self._rank(p)), key=lambda p: (self._rank(p), p)))

    def sole(self, cards: int) -> tuple[str, ...]:
        """The only node there is, where there is only one card, too."""
        return (self._nodes[0].path,) if len(self._nodes) == cards == 1 else ()

    def numbered(self, numbers: Collection[int]) -> dict[int, str]:
        """Nodes by number, if ``numbers`` are just those in the names of the first pattern."""
        named = {}
        for node in self._nodes:
            digits = re.search(r"[0-9]+$", node.path)
            if digits and self._rank(node.path) == 1:
                named[int(digits[0])] = node.path
        return named if named and set(named) == set(numbers) else {}

    def _rank(self, path: str) -> int:
        """1 for the first pattern, 0 for a path that fits none."""
        fits = (n for n, one in enumerate(self._patterns, start=1) if one.fullmatch(path))
        return next(fits, 0)

    def _linked_to(self, node: DeviceNode) -> str | None:
        kind = "char" if node.type == "c" else "block"
        return _place(self._host.readlink(f"/sys/dev/{kind}/{node.major}:{node.minor}"))

    def _below(self, pci: str, name: str) -> tuple[str, ...]:
        """Names in a class that belong to the function, from its directory or from the class."""
        own = self._host.listdir(f"{sysfs_pci.ROOT}/{pci}/{name}")
        if own:
            return own
        return tuple(
            entry
            for entry in self._host.listdir(f"/sys/class/{name}")
            if pci
            in (
                _place(self._host.readlink(f"/sys/class/{name}/{entry}")),
                _place(self._host.readlink(f"/sys/class/{name}/{entry}/device")),
            )
        )


def _place(link: str | None) -> str | None:
    """The last PCI function on the way to a device."""
    steps = [canonical(step) for step in (link or "").split("/") if step.count(":") == 2]
    return next((step for step in reversed(steps) if step), None)


def cards(host: Host, vendor_ids: Collection[str]) -> tuple[str, ...]:
    """Addresses of the accelerators of these PCI vendors, as the kernel lists them."""
    found = []
    for name in host.listdir(sysfs_pci.ROOT):
        pci = canonical(name)
        pci_id = sysfs_pci.id_of(host, name)
        if pci is None or pci_id is None or pci_id[:4] not in vendor_ids:
            continue
        pci_class = (host.read_text(f"{sysfs_pci.ROOT}/{name}/class") or "").strip()[2:].zfill(6)
        virtual = host.exists(f"{sysfs_pci.ROOT}/{name}/physfn")
        if not virtual and is_accelerator(pci, pci_id, pci_class):
            found.append(pci)
    return tuple(found)


def placed(
    host: Host, vendor_ids: Collection[str], facts: Iterable[DeviceFacts]
) -> tuple[tuple[DeviceFacts, ...], str]:
    """The facts, and what is wrong, where a tool tells no addresses but the kernel lists the cards.

    One card without an address is the one that is left. Several can be any: what is the same for
    all of them is said of each, and nothing else.
    """
    known = list(facts)
    lost = [fact for fact in known if fact.pci is None]
    taken = {fact.pci for fact in known}
    free = [pci for pci in cards(host, vendor_ids) if pci not in taken] if lost else []
    if not free:
        return tuple(known), ""
    rest = [fact for fact in known if fact.pci is not None]
    if len(free) != len(lost):
        return tuple(rest), f"tells no PCI address of {len(lost)} cards, {len(free)} are there"
    if len(lost) == 1:
        return (*rest, replace(lost[0], pci=free[0])), ""
    blank = DeviceFacts(ref="", vendor=lost[0].vendor, kind=lost[0].kind)
    for name in _SAME:
        values = {getattr(fact, name) for fact in lost}
        if len(values) == 1:
            blank = replace(blank, **{name: values.pop()})
    return (*rest, *(replace(blank, ref=pci, pci=pci) for pci in free)), ""
