"""Nodes of one device type that are alike in all that a request can ask for.

A decision looks at pools, not at nodes: thousands of nodes are a handful of pools, and slurmctld
waits for the answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hpcmgr.slurm.state import NodeState


@dataclass(frozen=True, slots=True)
class Pool:
    """``count``: devices of ``gres`` (``name:type``) on each node; ``device_sockets``: sockets they
    lie on, empty if unknown. ``nodes``: those with the most free devices first. ``free``: free
    devices of all nodes together."""

    gres: str
    count: int
    usable: bool
    partitions: frozenset[str]
    features: frozenset[str]
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    cpus: int
    memory: int
    device_sockets: frozenset[int]
    nodes: tuple[NodeState, ...]
    free: int

    @property
    def total(self) -> int:
        """Devices of all nodes together."""
        return self.count * len(self.nodes)

    def has(self, gres: str) -> int:
        """Devices of any type on each node."""
        return self.count if gres == self.gres else self.nodes[0].gres.get(gres, 0)

    def startable(self, devices: int, cpus: int, memory: int, enough: int) -> int:
        """Nodes on which that could start now, counted up to ``enough``."""
        found = 0
        for node in self.nodes:
            if found >= enough or node.free(self.gres) < devices:
                break
            if node.cpus - node.cpus_used >= cpus and node.memory - node.memory_used >= memory:
                found += 1
        return found if self.usable else 0

    def part(self, nodes: Iterable[NodeState]) -> Pool:
        """The same with some of its nodes only."""
        kept = tuple(nodes)
        return replace(self, nodes=kept, free=sum(node.free(self.gres) for node in kept))


def make_pools(gres: str, nodes: Iterable[NodeState]) -> tuple[Pool, ...]:
    """Group ``nodes`` that have ``gres``; the order is that of their first node's name."""
    groups: dict[tuple[object, ...], list[NodeState]] = {}
    for node in nodes:
        groups.setdefault(_alike(gres, node), []).append(node)
    pools = (_pool(gres, group) for group in groups.values())
    return tuple(sorted(pools, key=lambda pool: min(node.name for node in pool.nodes)))


def _alike(gres: str, node: NodeState) -> tuple[object, ...]:
    return (
        frozenset(item for item in node.gres.items() if ":" in item[0]),
        node.usable,
        node.partitions,
        node.features,
        node.sockets,
        node.cores_per_socket,
        node.threads_per_core,
        node.cpus,
        node.memory,
        node.sockets_of.get(gres, frozenset()),
    )


def _pool(gres: str, group: list[NodeState]) -> Pool:
    first = group[0]
    return Pool(
        gres=gres,
        count=first.gres[gres],
        usable=first.usable,
        partitions=frozenset(first.partitions),
        features=first.features,
        sockets=first.sockets,
        cores_per_socket=first.cores_per_socket,
        threads_per_core=first.threads_per_core,
        cpus=first.cpus,
        memory=first.memory,
        device_sockets=first.sockets_of.get(gres, frozenset()),
        nodes=tuple(sorted(group, key=lambda node: (-node.free(gres), node.name))),
        free=sum(node.free(gres) for node in group),
    )
