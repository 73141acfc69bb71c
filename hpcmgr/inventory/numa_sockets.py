"""NUMA nodes as sockets. With NPS4 or SNC a package holds several NUMA nodes, but what Slurm binds
by is a socket. Slurm can be told to count NUMA nodes; then the node line must follow."""

from __future__ import annotations

from collections import defaultdict

from hpcmgr.inventory import cpu_list
from hpcmgr.inventory.node import CpuTopology, NodeInventory
from hpcmgr.slurm.capability import Release
from hpcmgr.slurm.sockets import how_to_split


def by_numa(cpu: CpuTopology) -> CpuTopology | None:
    """The processors as slurmd counts them with numa_node_as_socket.

    None where NUMA nodes differ in size or are no parts of a package: how they are counted then
    was not seen.
    """
    ids = {node.id: cpu_list.parse(node.cpus) or frozenset() for node in cpu.numa}
    nodes = sorted((node for node in cpu.numa if ids[node.id]), key=lambda node: min(ids[node.id]))
    cores = cpu.sockets * cpu.cores_per_socket
    sizes = {len(ids[node.id]) for node in nodes}
    whole = sum(len(ids[node.id]) for node in nodes) == cores * cpu.threads_per_core
    if len(sizes) != 1 or not whole or any(node.socket is None for node in nodes):
        return None
    number = {node.id: place for place, node in enumerate(nodes)}
    numa = tuple(node.model_copy(update={"socket": number.get(node.id)}) for node in cpu.numa)
    return cpu.model_copy(
        update={"sockets": len(nodes), "cores_per_socket": cores // len(nodes), "numa": numa}
    )


def advice(inventory: NodeInventory, release: Release | None) -> str:
    """What to do where devices of one socket are near different cores; empty if none are."""
    socket_of = {node.id: node.socket for node in inventory.cpu.numa}
    nodes = defaultdict(set)
    for device in inventory.devices:
        socket = socket_of.get(device.numa_node) if device.numa_node is not None else None
        if socket is not None:
            nodes[socket].add(device.numa_node)
    crowded = [socket for socket, held in sorted(nodes.items()) if len(held) > 1]
    split = by_numa(inventory.cpu) if crowded else None
    if split is None:
        return ""
    listed = ", ".join(map(str, crowded))
    return (
        f"devices of socket {listed} are on several NUMA nodes, and Slurm binds by socket: to bind "
        f"by NUMA node, set {how_to_split(release)}, and 'sockets: numa' for the node's group in "
        f"site.yaml ({split.sockets} sockets x {split.cores_per_socket} cores)"
    )
