"""CDI, the specifications that tell container runtimes which device nodes a device has.

A witness only: whoever wrote the files may have done so long ago, or for a machine with other
cards. So a device that only CDI knows is no device. What it says counts where it can be put to the
PCI address of a card that is here (its name is one, or a node of it belongs to one): then its nodes
are compared with what the other sources say, and taken where they say nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from hpcmgr.discovery import drm_nodes, kfd_tree
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.node_places import NodePlaces, cards
from hpcmgr.discovery.pci_classes import VENDORS
from hpcmgr.discovery.source import Collected, DeviceFacts, first_line
from hpcmgr.discovery.sysfs_pci import id_of
from hpcmgr.inventory import SourceReport
from hpcmgr.inventory.pci_address import canonical

_FOLDERS = ("/etc/cdi", "/var/run/cdi")
_ADDRESS = re.compile(r"(?<![0-9a-fA-F])[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_LARGEST = 1 << 20


class Cdi:
    """Both folders of the specification."""

    name = "cdi"
    vendor: str | None = None

    def collect(self, host: Host) -> Collected:
        """Read every file; one that cannot be read makes it broken."""
        paths = [
            f"{folder}/{name}"
            for folder in _FOLDERS
            for name in host.listdir(folder)
            if name.endswith((".json", ".yaml", ".yml"))
        ]
        if not paths:
            detail = f"no {' or '.join(_FOLDERS)}"
            return Collected(SourceReport(name=self.name, state="absent", detail=detail))
        facts: list[DeviceFacts] = []
        problems, notes = [], []
        for path in paths:
            spec = _load(host.read_text(path))
            if spec is None:
                problems.append(f"{path} is no specification")
                continue
            own = _own_nodes(spec)
            placed = list(_placed(host, own))
            facts += placed
            kind = first_line(str(spec.get("kind", "")))
            notes.append(f"{path}: {kind}, {len(own)} devices, {len(placed)} of them here")
        state = "broken" if problems else "present"
        report = SourceReport(name=self.name, state=state, detail="; ".join(problems + notes))
        return Collected(report, tuple(_once(facts)))


def _load(text: str | None) -> Mapping[str, Any] | None:
    if text is None or len(text) > _LARGEST or _is_bomb(text):
        return None
    try:
        spec = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    fine = isinstance(spec, dict) and isinstance(spec.get("kind"), str)
    return spec if fine and isinstance(spec.get("devices"), list) else None


def _is_bomb(text: str) -> bool:
    """Anchors have no place in these files; nested ones grow without end."""
    return bool(re.search(r"^[^\"'#]*[:\-\[,]\s+[&*][A-Za-z0-9_]+", text, re.MULTILINE))


def _own_nodes(spec: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Name → the nodes that no other device of the file has (``all`` has every one)."""
    nodes: dict[str, tuple[str, ...]] = {}
    for device in spec["devices"]:
        name = str(device.get("name", "")) if isinstance(device, dict) else ""
        if name and name != "all":
            nodes[name] = tuple(_paths(device))
    # A device may stand under two names, by number and by uuid: that is still one.
    counts = Counter(path for paths in set(nodes.values()) for path in set(paths))
    return {
        name: tuple(path for path in paths if counts[path] == 1) for name, paths in nodes.items()
    }


def _paths(device: Mapping[str, Any]) -> Iterator[str]:
    edits = device.get("containerEdits")
    listed = edits.get("deviceNodes") if isinstance(edits, dict) else None
    for node in listed if isinstance(listed, list) else ():
        path = node.get("hostPath") or node.get("path") if isinstance(node, dict) else None
        if isinstance(path, str) and path.startswith("/dev/"):
            yield path


def _placed(host: Host, own: Mapping[str, tuple[str, ...]]) -> Iterator[DeviceFacts]:
    here = set(cards(host, VENDORS))
    tree = kfd_tree.read(host)
    if tree is not None:
        # Partitions share the address of their card.
        here -= tree.partitioned
    drm = drm_nodes.read(host)
    places = NodePlaces(host, (r"/dev/.+",))
    by_node = {path: pci for pci in here for path in places.at(pci)}
    for name, paths in own.items():
        address = _ADDRESS.search(name)
        owners = {by_node.get(path) or canonical(drm.owner(path)) for path in paths} - {None}
        pci = canonical(address[0]) if address else next(iter(owners), None)
        if pci in here and pci is not None and owners <= {pci} and paths:
            vendor, kind = VENDORS[(id_of(host, pci) or "")[:4]]
            yield DeviceFacts(
                ref=name, vendor=vendor, kind=kind, pci=pci, files=tuple(sorted(paths))
            )


def _once(facts: list[DeviceFacts]) -> Iterator[DeviceFacts]:
    """A device that stands under two names, or in two files with the same nodes."""
    seen: set[tuple[str | None, tuple[str, ...]]] = set()
    for fact in facts:
        if (fact.pci, fact.files) not in seen:
            seen.add((fact.pci, fact.files))
            yield fact
