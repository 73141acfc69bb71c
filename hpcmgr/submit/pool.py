"""Nodes of one device type that are alike in all that a request can ask for.

A decision looks at pools, not at nodes: thousands of nodes are a handful of pools, and slurmctld
waits for the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hpcmgr.settings import Owners
from hpcmgr.slurm.state import NodeState
from hpcmgr.submit.facts import NO_FACTS, NOTHING_KNOWN, DeviceFacts, Known, NodeFacts


@dataclass(frozen=True, slots=True)
class Pool:
    """``count``: devices of ``gres`` (``name:type``) on each node that have not failed;
    ``device_sockets``: sockets they lie on, empty if unknown. ``nodes``: those with the most free
    devices first. ``free``: free devices of all nodes together; ``frees``: the numbers of free
    devices that nodes have. ``leaves``: how many of the nodes each leaf switch has. ``owners``:
    accounts that they serve, by each of their owners; none: everybody."""

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
    frees: tuple[int, ...]
    facts: NodeFacts
    leaves: Mapping[str, int]
    leaf_of: Mapping[str, str]
    owners: Owners = ()

    @property
    def total(self) -> int:
        """Devices of all nodes together."""
        return self.count * len(self.nodes)

    def has(self, gres: str) -> int:
        """Devices of any type on each node, as Slurm counts them."""
        return self.nodes[0].gres.get(gres, 0)

    def facts_of(self, gres: str) -> DeviceFacts:
        """What the inventory tells of them."""
        return self.facts.get(gres, NO_FACTS)

    def healthy(self, gres: str) -> int:
        """Those of them that have not failed."""
        return max(0, self.has(gres) - self.facts_of(gres).failed)

    def free_on(self, node: NodeState, gres: str) -> int:
        """Free devices of a node; a failed one is taken for one of those that look free."""
        return max(0, node.free(gres) - self.facts_of(gres).failed)

    def startable(
        self, devices: Sequence[tuple[str, int]], cpus: int, memory: int, enough: int
    ) -> int:
        """Nodes on which that could start now, counted up to ``enough``."""
        if not self.usable:
            return 0
        found = 0
        (gres, count), *others = devices
        for node in self.nodes:
            if found >= enough or self.free_on(node, gres) < count:
                break
            if (
                node.cpus - node.cpus_used >= cpus
                and node.memory - node.memory_used >= memory
                and all(self.free_on(node, other) >= n for other, n in others)
            ):
                found += 1
        return found

    def part(self, nodes: Iterable[NodeState]) -> Pool:
        """The same with some of its nodes only."""
        kept = tuple(nodes)
        frees = [self.free_on(node, self.gres) for node in kept]
        return replace(
            self,
            nodes=kept,
            free=sum(frees),
            frees=tuple(sorted(set(frees))),
            leaves=_leaves(kept, self.leaf_of),
        )


def make_pools(
    gres: str, nodes: Iterable[NodeState], known: Known = NOTHING_KNOWN
) -> tuple[Pool, ...]:
    """Group ``nodes`` that have ``gres``; the order is that of their first node's name."""
    groups: dict[tuple[object, ...], list[NodeState]] = {}
    for node in nodes:
        alike = _alike(gres, node, known.facts.get(node.name, {}))
        groups.setdefault((*alike, known.owned.get(node.name, ())), []).append(node)
    pools = (_pool(gres, group, known) for group in groups.values())
    return tuple(sorted(pools, key=lambda pool: min(node.name for node in pool.nodes)))


def _alike(gres: str, node: NodeState, facts: NodeFacts) -> tuple[object, ...]:
    return (
        frozenset(item for item in node.gres.items() if ":" in item[0]),
        frozenset(facts.items()),
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


def _pool(gres: str, group: list[NodeState], known: Known) -> Pool:
    first = group[0]
    facts = known.facts.get(first.name, {})
    failed = facts.get(gres, NO_FACTS).failed
    frees = [max(0, node.free(gres) - failed) for node in group]
    return Pool(
        gres=gres,
        count=max(0, first.gres[gres] - failed),
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
        free=sum(frees),
        frees=tuple(sorted(set(frees))),
        facts=facts,
        leaves=_leaves(group, known.leaves),
        leaf_of=known.leaves,
        owners=known.owned.get(first.name, ()),
    )


def _leaves(nodes: Iterable[NodeState], leaf_of: Mapping[str, str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in nodes:
        leaf = leaf_of.get(node.name)
        if leaf is not None:
            counts[leaf] = counts.get(leaf, 0) + 1
    return counts
