"""Discovery: what one host has, from several sources, each of which may be absent or broken."""

from __future__ import annotations

from pathlib import Path

from hpcmgr.discovery import coverage, cpu_topology, nics, pci_tree, reconcile
from hpcmgr.discovery.host import CommandResult, DeviceNode, Host, LiveHost
from hpcmgr.discovery.recorded_host import RecordedHost
from hpcmgr.discovery.registry import DEVICE_SOURCES
from hpcmgr.discovery.sysfs_pci import SysfsPci
from hpcmgr.inventory import NodeInventory
from hpcmgr.profile import ProfileLibrary

__all__ = [
    "CommandResult",
    "DeviceNode",
    "Host",
    "LiveHost",
    "RecordedHost",
    "discover",
    "open_host",
]


def discover(host: Host, library: ProfileLibrary) -> NodeInventory:
    """All that ``host`` has, with its digest. Equal hosts give equal inventories."""
    cpu = cpu_topology.collect(host)
    only_node = cpu_topology.only_numa_node(cpu.cpu)
    net = nics.collect(host, only_node)
    collected = [source.collect(host) for source in (*DEVICE_SOURCES, SysfsPci(only_node))]
    devices, by_ref = reconcile.devices(collected, host, library)
    return NodeInventory(
        schema_="hpcmgr.node/1",
        node=host.hostname,
        cpu=cpu.cpu,
        memory_mib=cpu.memory_mib,
        devices=devices,
        nics=net.nics,
        links=pci_tree.complete(
            reconcile.links(collected, by_ref, net.nics), host, devices, net.nics
        ),
        sources=(cpu.report, *coverage.reports(collected, host), net.report),
    ).with_digest()


def open_host(place: Path | None) -> Host:
    """The recorded host at ``place``, or this machine.

    Raises:
        HostError: the recording cannot be read.
    """
    return LiveHost() if place is None else RecordedHost(place)
