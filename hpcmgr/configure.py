"""Path 1, configuration: discover → inventory → profile → plan → render.

Sources find, the inventory is canonical, profiles decide, renderers only write.
"""

from __future__ import annotations

from collections.abc import Iterable

from hpcmgr.discovery import Host, discover
from hpcmgr.errors import CommandError, InventoryError
from hpcmgr.fabric import load_scan
from hpcmgr.inventory import NodeInventory
from hpcmgr.inventory.store import load_all, load_each
from hpcmgr.plan import ClusterPlan, NodePlan, make_plan
from hpcmgr.profile.site import library_of
from hpcmgr.render import render_cluster, render_node
from hpcmgr.settings import Site
from hpcmgr.slurm.capability import NEWEST, Release
from hpcmgr.slurm.reader import read_release
from hpcmgr.slurm.state import ClusterState, NodeState


def inventory_of(host: Host, site: Site, node: str | None = None) -> NodeInventory:
    """What one host has, under its name in Slurm (None: its short host name)."""
    inventory = discover(host, library_of(site))
    name = node or inventory.node.split(".")[0]
    return inventory.model_copy(update={"node": name}).with_digest()


def node_files(inventory: NodeInventory, site: Site) -> dict[str, str]:
    """Files for /etc/hpcmgr of that node."""
    return render_node(node_plan(inventory, site))


def node_plan(inventory: NodeInventory, site: Site) -> NodePlan:
    """The plan of one node."""
    return make_plan([inventory], library_of(site), site).nodes[0]


def inventories_of(site: Site) -> dict[str, NodeInventory]:
    """What all nodes have published, by name.

    Raises:
        InventoryError: none has, or one cannot be read.
    """
    inventories = load_all(site.inventory)
    if not inventories:
        raise _none(site)
    return inventories


def cluster_plan(site: Site) -> ClusterPlan:
    """The plan of all nodes that have published an inventory."""
    plan = plan_of(load_each(site.inventory), site)
    if not plan.nodes:
        raise _none(site)
    return plan


def plan_of(inventories: Iterable[NodeInventory], site: Site) -> ClusterPlan:
    """The plan of these nodes."""
    scan = load_scan(site.topology.scan) if site.topology.scan else None
    return make_plan(inventories, library_of(site), site, scan, _release_of(site))


def _none(site: Site) -> InventoryError:
    return InventoryError(
        f"no inventory in {site.inventory}",
        "run 'hpcmgr sync' on the nodes, or set 'inventory' in site.yaml",
    )


def _release_of(site: Site) -> Release:
    """The release to write for. Slurm is asked only where it matters; where there is none, the
    newest."""
    if site.slurm.version:
        return Release.parse(site.slurm.version)
    if "block" not in site.topology.plugins:
        return NEWEST
    try:
        return Release.parse(read_release())
    except CommandError:
        return NEWEST


def cluster_files(site: Site) -> dict[str, str]:
    """hpcmgr.conf, gres.conf and cgroup.conf for all nodes."""
    return render_cluster(cluster_plan(site))


def idle_state(site: Site) -> ClusterState:
    """The planned cluster as if nothing ran: one partition, every node in it."""
    nodes = tuple(
        NodeState(
            name=node.name,
            usable=True,
            features=frozenset(node.features),
            sockets=node.sockets,
            cores_per_socket=node.cores_per_socket,
            threads_per_core=node.threads_per_core,
            cpus=node.sockets * node.cores_per_socket * node.threads_per_core,
            memory=node.memory_mib,
            gres=node.gres,
            sockets_of=_sockets(node),
        )
        for node in cluster_plan(site).nodes
    )
    return ClusterState(0.0, site.slurm.version or str(NEWEST), nodes)


def _sockets(node: NodePlan) -> dict[str, frozenset[int]]:
    sockets: dict[str, frozenset[int]] = {}
    for device in node.devices:
        if device.socket is not None:
            key = device.profile.gres_key
            sockets[key] = sockets.get(key, frozenset()) | {device.socket}
    return sockets
