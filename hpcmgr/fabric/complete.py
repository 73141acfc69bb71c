"""Whether a scan may be believed.

A fabric that was seen in part makes jobs run far apart, or not at all: it is refused, not written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sized

from hpcmgr.fabric.model import Scan
from hpcmgr.fabric.rails import Choice
from hpcmgr.fabric.tree import cables, find_leaves
from hpcmgr.inventory import NodeInventory
from hpcmgr.slurm.hostlist import fold


def gaps(
    scan: Scan, choice: Choice, inventories: Mapping[str, NodeInventory], last: Scan | None
) -> list[str]:
    """What a person has to accept before this scan is taken: nodes that are missing, and nodes that
    were there in the ``last`` one."""
    here = {port.node for port in choice.ports}
    found = []
    absent = [
        name
        for name, inventory in inventories.items()
        if scan.switches and name not in here and _expected(inventory, choice)
    ]
    if absent:
        found.append(f"no compute NIC of {fold(absent)} is in the scan ({counted(absent)})")
    for what, before, now in _kinds(last, scan):
        gone = before - now - set(absent)
        if gone:
            found.append(f"{fold(gone)} stood in the last scan, {what} ({counted(gone)})")
    return found


def counted(nodes: Sized) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{len(nodes)} node{'' if len(nodes) == 1 else 's'}"


def _kinds(last: Scan | None, scan: Scan) -> list[tuple[str, frozenset[str], frozenset[str]]]:
    """By kind of source: nodes of the last scan, and of this one."""
    if last is None:
        return []
    return [
        ("below a switch", last.below_switches, scan.below_switches),
        ("in an NVLink domain", last.in_domains, scan.in_domains),
    ]


def faults(scan: Scan, choice: Choice) -> list[str]:
    """What nobody can accept: a leaf switch without a way up, where others have one."""
    leaves = find_leaves(choice.ports)
    names = [name for leaf in leaves for name in leaf.switches]
    neighbours = cables(scan)
    alone = [name for name in names if not neighbours[name]]
    if len(leaves) > 1 and alone and len(alone) < len(names):
        return [f"switch {name} has no cable to any other switch, others have" for name in alone]
    return []


def remarks(choice: Choice) -> list[str]:
    """What is odd but no reason to refuse: nodes with fewer rails than most, odd cables."""
    found = []
    for leaf in find_leaves(choice.ports):
        name = leaf.switches[0]
        if leaf.partial:
            found.append(f"{fold(leaf.partial)}: cabled to some switches of {name} only")
        if leaf.across:
            found.append(f"{fold(leaf.across)}: below {name}, but also cabled to other leaves")
    rails: dict[str, set[str]] = defaultdict(set)
    for port in choice.ports:
        rails[port.node].add(port.nic)
    usual = Counter(len(nics) for nics in rails.values())
    most = max(usual, key=lambda n: (usual[n], n), default=0)
    fewer = sorted(node for node, nics in rails.items() if len(nics) < most)
    if fewer:
        found.append(f"{fold(fewer)}: fewer rails than the {most} that most nodes have")
    return found


def _expected(inventory: NodeInventory, choice: Choice) -> bool:
    """Whether the node has a NIC of a network that counts; a node without one is no gap."""
    networks = {rail.network for rail in choice.rails if rail.chosen}
    layers = {(nic.link_layer or "").lower() for nic in inventory.nics if nic.rdma}
    if not inventory.nics or "ethernet" in networks:
        return True
    return "infiniband" in layers
