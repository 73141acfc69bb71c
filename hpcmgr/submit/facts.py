"""What a decision takes from the inventories: health, drivers and links of a node's devices.

Made in the background, small enough to be kept for thousands of nodes, and equal for equal nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from hpcmgr.profile import DeviceProfile, ProfileLibrary
from hpcmgr.profile.runtimes import Served, serves
from hpcmgr.settings import Owned

if TYPE_CHECKING:
    from hpcmgr.inventory import Device, NodeInventory


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Devices of one type on one node. ``served``: releases of their runtime that their drivers
    serve, None among them if one is not known. ``domains`` and ``sockets``: how many of the devices
    that have not failed lie in one link domain, on one socket; most first, empty if not known."""

    failed: int = 0
    served: frozenset[Served | None] = frozenset([None])
    domains: tuple[int, ...] = ()
    sockets: tuple[int, ...] = ()


NO_FACTS = DeviceFacts()

NodeFacts = Mapping[str, DeviceFacts]
"""By ``name:type``."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known besides Slurm's own state: facts and leaf switch by node; whose nodes are."""

    facts: Mapping[str, NodeFacts] = field(default_factory=dict)
    leaves: Mapping[str, str] = field(default_factory=dict)
    owned: Owned = field(default_factory=dict)


NOTHING_KNOWN = Known()


def node_facts(inventory: NodeInventory, library: ProfileLibrary) -> dict[str, DeviceFacts]:
    """Facts of one node by ``name:type``."""
    by_type: dict[str, tuple[DeviceProfile, list[Device]]] = {}
    for device in inventory.devices:
        whole = library.get(device.profile) if device.profile else library.match(device)
        for profile in _given(device, whole, library):
            by_type.setdefault(profile.gres_key, (profile, []))[1].append(device)
    return {key: _facts(inventory, *found) for key, found in by_type.items()}


def _given(
    device: Device, whole: DeviceProfile | None, library: ProfileLibrary
) -> list[DeviceProfile]:
    """What jobs get of a device: all of it, or its slices, which are as well as it is."""
    if whole is None:
        return []
    if not device.sliced and not device.slices:
        return [whole]
    pieces = (library.slice_of(whole, piece.name) for piece in device.slices)
    return [piece for piece in pieces if piece is not None]


def _facts(inventory: NodeInventory, profile: DeviceProfile, devices: list[Device]) -> DeviceFacts:
    good = [device for device in devices if device.health.state != "failed"]
    return DeviceFacts(
        failed=len(devices) - len(good),
        served=frozenset(
            _served(d.vendor, d.driver, profile.runtime, d.runtime_version) for d in devices
        ),
        domains=_domains(inventory, good),
        sockets=_sockets(inventory, good),
    )


_served = cache(serves)
"""Drivers are few; the rules are many."""


def _domains(inventory: NodeInventory, devices: list[Device]) -> tuple[int, ...]:
    """Sizes of the groups that direct links hold together; without any such link none is known."""
    group = {device.key: {device.key} for device in devices}
    linked = False
    for link in inventory.links:
        if link.direct and link.a in group and link.b in group:
            linked = True
            if group[link.a] is not group[link.b]:
                group[link.a] |= group[link.b]
                for key in group[link.b]:
                    group[key] = group[link.a]
    if not linked:
        return ()
    return _sizes({id(keys): len(keys) for keys in group.values()}.values())


def _sockets(inventory: NodeInventory, devices: list[Device]) -> tuple[int, ...]:
    socket_of = {numa.id: numa.socket for numa in inventory.cpu.numa}
    counts: dict[int, int] = {}
    for device in devices:
        socket = socket_of.get(device.numa_node) if device.numa_node is not None else None
        if socket is None:
            return ()
        counts[socket] = counts.get(socket, 0) + 1
    return _sizes(counts.values())


def _sizes(counts: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(counts, reverse=True))
