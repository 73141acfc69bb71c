"""Which NICs carry the jobs' traffic: compute rails are chosen, storage rails left out, by rule.

Without a rule in site.yaml: InfiniBand where there is any; of a node's NICs there those nearest to
its devices, as its inventory tells (the words of the vendors' tools, or else the NUMA node). The
NIC of a storage network hangs elsewhere, and its switches say nothing about the way between GPUs.
"""

from __future__ import annotations

import fnmatch
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hpcmgr.fabric.join import natural
from hpcmgr.fabric.model import Port, Scan
from hpcmgr.inventory import Nic, NodeInventory
from hpcmgr.settings import Rails
from hpcmgr.slurm.hostlist import expand

_DISTANCE = {"PIX": 0, "PXB": 0, "PHB": 1, "NODE": 2, "node": 2, "SYS": 3, "sys": 3}
"""Below one PCIe bridge or below several is both beside the device."""


@dataclass(frozen=True, slots=True)
class Rail:
    """A NIC by its name, the nodes where it is chosen or not, and why."""

    nic: str
    network: str
    chosen: bool
    nodes: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The ports that count, and the reason for each NIC."""

    ports: tuple[Port, ...]
    rails: tuple[Rail, ...]


def choose(scan: Scan, rule: Rails, inventories: Mapping[str, NodeInventory]) -> Choice:
    """Apply the rule of site.yaml, or the one above, to all ports of nodes in ``inventories``."""
    ports = [port for port in scan.ports() if port.node in inventories]
    ports.sort(key=lambda port: (port.node, port.nic, port.switch))
    infiniband = any(port.network == "infiniband" for port in ports)
    network = rule.network or ("infiniband" if infiniband and not rule.include else None)
    by_node: dict[str, list[Port]] = defaultdict(list)
    for port in ports:
        by_node[port.node].append(port)
    chosen: list[Port] = []
    told: dict[tuple[str, str, bool, str], list[str]] = defaultdict(list)
    for node, own in by_node.items():
        for port, (good, why) in _judge(own, rule, network, inventories[node]).items():
            if good:
                chosen.append(port)
            told[port.nic, port.network, good, why].append(node)
    rails = [Rail(*key[:3], tuple(nodes), key[3]) for key, nodes in told.items()]
    rails.sort(key=lambda rail: (not rail.chosen, natural(rail.nic), rail.why))
    return Choice(tuple(chosen), tuple(rails))


def _judge(
    ports: Sequence[Port], rule: Rails, network: str | None, inventory: NodeInventory
) -> dict[Port, tuple[bool, str]]:
    """Each port of one node: whether it is chosen, and why."""
    found: dict[Port, tuple[bool, str]] = {}
    for port in ports:
        name = port.nic.partition("/")[0]
        if network and port.network != network:
            found[port] = False, f"{port.network}; the compute network is {network}"
        elif matches(name, rule.exclude):
            found[port] = False, "excluded in site.yaml"
        elif rule.include:
            listed = matches(name, rule.include)
            found[port] = listed, "included in site.yaml" if listed else "not included in site.yaml"
    open_ones = [port for port in ports if port not in found]
    return {**found, **_nearest(open_ones, inventory)}


def _nearest(ports: Sequence[Port], inventory: NodeInventory) -> dict[Port, tuple[bool, str]]:
    named = {name: nic for nic in inventory.nics for name in (nic.rdma, nic.name) if name}
    nics = {port: named.get(port.nic.partition("/")[0]) for port in ports}
    said = _said(inventory)
    plain = [port for port, nic in nics.items() if nic is not None and not nic.rdma]
    if not any(nic and nic.rdma for nic in nics.values()):
        plain = []
    found = dict.fromkeys(plain, (False, "no RDMA"))
    rest = [port for port in ports if port not in found]
    distances = {port: _distance(nics[port], said, inventory) for port in rest}
    known = [distance for distance in distances.values() if distance is not None]
    best = min(known, default=None)
    for port, distance in distances.items():
        if distance is None or best is None:
            found[port] = True, "nobody knows how near it is to the devices"
        elif distance == best:
            found[port] = True, "nearest to the devices"
        else:
            found[port] = False, "farther from the devices than other NICs: a storage rail"
    if not inventory.devices:
        found |= dict.fromkeys(rest, (True, "the node has no devices"))
    return found


def _said(inventory: NodeInventory) -> dict[str, int]:
    """Shortest way from each NIC to any device, where a tool has told one."""
    found: dict[str, int] = {}
    for link in inventory.links:
        if link.kind in _DISTANCE:
            for end in (link.a, link.b):
                found[end] = min(found.get(end, 9), _DISTANCE[link.kind])
    return found


def _distance(nic: Nic | None, said: Mapping[str, int], inventory: NodeInventory) -> int | None:
    """The shortest way to any device of the node, else what the NUMA nodes tell."""
    if nic is None:
        return None
    if nic.name in said:
        return said[nic.name]
    numa = {device.numa_node for device in inventory.devices}
    if nic.numa_node is None or numa <= {None}:
        return None
    return _DISTANCE["node" if nic.numa_node in numa else "sys"]


def matches(name: str, patterns: Iterable[str]) -> bool:
    """``mlx5_[0-7]`` is a hostlist, ``mlx5_*`` a pattern."""
    for pattern in patterns:
        if "*" in pattern or "?" in pattern:
            if fnmatch.fnmatchcase(name, pattern):
                return True
        elif name in expand(pattern):
            return True
    return False
