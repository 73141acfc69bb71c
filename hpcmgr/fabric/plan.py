"""What Slurm should be told of the fabric: site.yaml and the scan → one tree, and blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from hpcmgr.errors import PlanError
from hpcmgr.fabric.join import natural
from hpcmgr.fabric.model import Scan
from hpcmgr.fabric.rails import choose
from hpcmgr.fabric.tree import make_tree
from hpcmgr.inventory import NodeInventory
from hpcmgr.settings import Site, Switch
from hpcmgr.slurm.capability import Release, has
from hpcmgr.slurm.hostlist import expand


@dataclass(frozen=True, slots=True)
class FabricPlan:
    """``switches``: one tree, as site.yaml spells it. ``members``: the real switches behind a name
    where there are several. ``blocks``: name → nodes."""

    switches: Mapping[str, Switch] = field(default_factory=dict)
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    blocks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def plan_fabric(
    site: Site, scan: Scan | None, inventories: Mapping[str, NodeInventory]
) -> FabricPlan:
    """The tree from the scan, else from site.yaml; blocks from site.yaml, else from the scan's
    domains, else the leaves of the tree."""
    switches: Mapping[str, Switch] = site.fabric
    members: Mapping[str, tuple[str, ...]] = {}
    if scan is not None:
        tree = make_tree(scan, choose(scan, site.topology.rails, inventories).ports)
        switches = tree.switches
        members = {name: own for name, own in tree.members.items() if len(own) > 1}
    if site.topology.blocks:
        blocks = {name: expand(nodes) for name, nodes in site.topology.blocks.items()}
    elif scan is not None and scan.domains:
        blocks = {name: expand(domain.nodes) for name, domain in scan.domains.items()}
    else:
        blocks = {name: switch.below for name, switch in switches.items() if switch.nodes}
    ordered = {name: tuple(blocks[name]) for name in sorted(blocks, key=natural)}
    return FabricPlan(switches, members, ordered)


def block_sizes(
    blocks: Mapping[str, Collection[str]], spare: Collection[str], site: Site, release: Release
) -> tuple[int, ...]:
    """BlockSizes: the site's own, else one base size.

    Args:
        blocks: by name, with the nodes that exist.
        spare: nodes outside all blocks, which get one of their own.
        site: site.yaml.
        release: before 25.05 slurmctld refuses a block below the base size.

    Raises:
        PlanError: the site's own sizes are more than a block has, and this release refuses that.
    """
    sizes = {name: len(nodes) for name, nodes in blocks.items()}
    if spare:
        sizes["the nodes outside all blocks"] = len(spare)
    may_be_small = has(release, "TOPOLOGY_BLOCK_BELOW_BASE")
    own = site.topology.block_sizes
    if own:
        small = [f"{name} has {n}" for name, n in sizes.items() if n < own[0]]
        if small and not may_be_small:
            raise PlanError(
                f"topology.block_sizes: the base size is {own[0]}, but {', '.join(small)}; "
                f"slurmctld of {release} does not start then",
                "lower the base size, put these nodes into other blocks, or use the tree",
            )
        return own
    if not may_be_small:
        return (min(sizes.values()),)
    counts = Counter(len(nodes) for nodes in blocks.values())
    return (max(counts, key=lambda size: (counts[size], size)),) if counts else (len(spare),)
