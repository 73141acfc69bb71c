"""A scan → the one tree that Slurm can read: one parent each, leaves with nodes, names that stay.

Nodes with the same set of leaf switches stand below one leaf of the tree: with one NIC a node that
is the switch itself, with rails (each NIC on a switch of its own) the whole scalable unit. Above,
two switches stand below one at level k where switches at most k hops above the leaves connect them;
all those together (redundant spines and cores) are one switch of the tree. So the levels are nested
by construction, whatever the cabling. It is called like its first member.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hpcmgr.fabric.join import natural
from hpcmgr.fabric.model import Port, Scan
from hpcmgr.settings import Switch
from hpcmgr.slurm.hostlist import expand, fold


@dataclass(frozen=True, slots=True)
class Leaf:
    """Switches that share their nodes. ``partial``: nodes with links to only some of them;
    ``across``: nodes that are cabled to switches of another leaf as well."""

    switches: tuple[str, ...]
    nodes: tuple[str, ...]
    partial: tuple[str, ...] = ()
    across: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tree:
    """``switches`` as site.yaml spells them; ``members``: the real switches behind each name."""

    switches: Mapping[str, Switch]
    members: Mapping[str, tuple[str, ...]]
    leaves: tuple[Leaf, ...]

    @property
    def tops(self) -> tuple[str, ...]:
        """Switches that nothing connects, where there are several."""
        below = {c for s in self.switches.values() if s.switches for c in s.below}
        tops = tuple(name for name in self.switches if name not in below)
        return tops if len(tops) > 1 else ()


def make_tree(scan: Scan, ports: Iterable[Port]) -> Tree:
    """The tree above the chosen ``ports``."""
    ports = list(ports)
    leaves = find_leaves(ports)
    switches: dict[str, Switch] = {}
    members: dict[str, tuple[str, ...]] = {}
    for leaf in leaves:
        name = leaf.switches[0]
        switches[name] = Switch(nodes=fold(leaf.nodes))
        members[name] = leaf.switches
    neighbours = cables(scan)
    heights = _heights(neighbours, _sorted({port.switch for port in ports}))
    below = [leaf.switches for leaf in leaves]
    tops = {frozenset(group): group[0] for group in below}
    top = max(heights.values(), default=0) + 1
    for height in range(1, top + 1):
        if height == top:
            # Only at last: one wrong cable of a node must not make one of two pods.
            below = [*below, *_of_nodes(ports)]
        joined = _connected(neighbours, {n for n, h in heights.items() if h <= height}, below)
        for group in joined:
            children = [name for known, name in tops.items() if known <= group]
            if len(children) > 1:
                own = _sorted(n for n in group if heights[n] == height)
                # Leaves of other networks hang there as well, as if they were above.
                own = tuple(n for n in own if not scan.switches[n].hosts) or own
                # Leaves that are cabled to each other have nothing above them to be named after.
                name = _free(own[0] if own else f"above-{children[0]}"[:64], switches)
                switches[name] = Switch(switches=fold(children))
                members[name] = tuple(own)
                tops = {known: top for known, top in tops.items() if not known <= group}
                tops[frozenset(group)] = name
            elif children:
                tops = {k: t for k, t in tops.items() if t != children[0]}
                tops[frozenset(group)] = children[0]
    return Tree(switches, members, tuple(leaves))


def find_leaves(ports: Iterable[Port]) -> list[Leaf]:
    """Nodes by their set of switches. A set that shares switches with one of more nodes is counted
    to that one: a broken cable does not make a new leaf."""
    by_node: dict[str, set[str]] = defaultdict(set)
    for port in ports:
        by_node[port.node].add(port.switch)
    sets: dict[frozenset[str], list[str]] = defaultdict(list)
    for node, own in by_node.items():
        sets[frozenset(own)].append(node)
    order = sorted(sets, key=lambda s: (-len(sets[s]), -len(s), [natural(n) for n in _sorted(s)]))
    leaf_of: dict[str, frozenset[str]] = {}
    nodes: dict[frozenset[str], list[str]] = {}
    partial: dict[frozenset[str], list[str]] = defaultdict(list)
    across: dict[frozenset[str], list[str]] = defaultdict(list)
    for switches in order:
        shared: dict[frozenset[str], int] = defaultdict(int)
        for name in switches & leaf_of.keys():
            shared[leaf_of[name]] += 1
        if not shared:
            nodes[switches] = list(sets[switches])
            leaf_of |= dict.fromkeys(switches, switches)
            continue
        home = max(shared, key=lambda key: (shared[key], len(nodes[key]), _sorted(key)))
        nodes[home] += sets[switches]
        (partial if switches < home else across)[home] += sets[switches]
    leaves = [
        Leaf(_sorted(key), _sorted(nodes[key]), _sorted(partial[key]), _sorted(across[key]))
        for key in nodes
    ]
    return sorted(leaves, key=lambda leaf: natural(leaf.switches[0]))


def _of_nodes(ports: Iterable[Port]) -> list[tuple[str, ...]]:
    """The sets of switches that nodes are cabled to."""
    by_node: dict[str, set[str]] = defaultdict(set)
    for port in ports:
        by_node[port.node].add(port.switch)
    return [_sorted(switches) for switches in {frozenset(s) for s in by_node.values()}]


def _heights(neighbours: Mapping[str, set[str]], leaves: Sequence[str]) -> dict[str, int]:
    """Hops above the nearest leaf, of every switch that is connected to one."""
    heights = dict.fromkeys(leaves, 0)
    waiting = deque(leaves)
    while waiting:
        here = waiting.popleft()
        for other in neighbours[here]:
            if other not in heights:
                heights[other] = heights[here] + 1
                waiting.append(other)
    return heights


def cables(scan: Scan) -> dict[str, set[str]]:
    """Each switch's neighbours, whichever end told of the cable."""
    found: dict[str, set[str]] = {name: set() for name in scan.switches}
    for name, switch in scan.switches.items():
        for other in expand(switch.links):
            if other in found:
                found[name].add(other)
                found[other].add(name)
    return found


def _connected(
    cabled: Mapping[str, set[str]], names: set[str], glued: Sequence[tuple[str, ...]]
) -> list[frozenset[str]]:
    """Groups of ``names`` that cables among them hold together; switches of one leaf always."""
    neighbours = {name: cabled[name] & names for name in names}
    for group in glued:
        for name in group:
            neighbours[name] |= set(group)
    found: list[frozenset[str]] = []
    left = set(names)
    for start in _sorted(names):
        if start in left:
            reached, waiting = {start}, [start]
            while waiting:
                new = neighbours[waiting.pop()] - reached
                reached |= new
                waiting += new
            left -= reached
            found.append(frozenset(reached))
    return found


def _free(name: str, taken: Mapping[str, Switch]) -> str:
    while name in taken:
        name = f"{name[:63]}-"
    return name


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=natural))
