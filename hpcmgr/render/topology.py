"""topology.conf (tree or block), or topology.yaml with both.

Slurm starts no job at all on a node that no switch or block holds (seen on 24.11.5 and 26.05.5),
and warns about nodes that it does not know. So the files name the nodes of the plan, each just once
in each topology: those that the fabric leaves out stand in a switch of their own below the top, as
far as can be from all others, or in a block of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from hpcmgr.fabric import block_sizes
from hpcmgr.plan import ClusterPlan
from hpcmgr.render.environment import fill
from hpcmgr.settings import Switch
from hpcmgr.slurm.capability import has
from hpcmgr.slurm.hostlist import fold

UNPLACED = "unplaced"


@dataclass(frozen=True, slots=True)
class SwitchLine:
    """One line: ``key`` is Switches or Nodes. ``members``: the real switches, where several."""

    name: str
    key: str
    below: str
    members: str = ""


@dataclass(frozen=True, slots=True)
class Tree:
    """``left``: nodes that the fabric leaves out."""

    switches: tuple[SwitchLine, ...]
    left: str = ""


@dataclass(frozen=True, slots=True)
class Blocks:
    """``blocks``: (name, nodes). ``sizes`` is empty where the release has no BlockSizes."""

    blocks: tuple[tuple[str, str], ...]
    sizes: tuple[int, ...]
    left: str = ""


def render_topology(plan: ClusterPlan) -> dict[str, str]:
    """File name → text; none where there is no fabric, or no node."""
    made: dict[str, Tree | Blocks] = {}
    for plugin in plan.site.topology.plugins:
        one = _tree(plan) if plugin == "tree" else _blocks(plan)
        if one is not None:
            made[plugin] = one
    if not made:
        return {}
    if len(made) > 1 and has(plan.release, "TOPOLOGY_YAML"):
        return {"topology.yaml": fill("topology.yaml.j2", topologies=made)}
    first, *without = made
    return {
        "topology.conf": fill(
            "topology.conf.j2",
            plugin=first,
            topology=made[first],
            without=without,
            release=plan.release,
        )
    }


def _tree(plan: ClusterPlan) -> Tree | None:
    names = [node.name for node in plan.nodes]
    if not plan.fabric.switches or not names:
        return None
    lines, left = switch_lines(plan.fabric.switches, names, plan.fabric.members)
    return Tree(tuple(lines), fold(left) if left else "")


def _blocks(plan: ClusterPlan) -> Blocks | None:
    known = {node.name for node in plan.nodes}
    blocks = {name: known.intersection(nodes) for name, nodes in plan.fabric.blocks.items()}
    blocks = {name: nodes for name, nodes in blocks.items() if nodes}
    if not blocks:
        return None
    left = sorted(known.difference(*blocks.values()))
    sizes = block_sizes(blocks, left, plan.site, plan.release)
    lines = [(name, fold(nodes)) for name, nodes in blocks.items()]
    if left:
        lines.append((free_name(blocks), fold(left)))
    if not has(plan.release, "TOPOLOGY_BLOCK_SIZES"):
        sizes = ()
    return Blocks(tuple(lines), sizes, fold(left) if left else "")


def switch_lines(
    fabric: Mapping[str, Switch], nodes: list[str], members: Mapping[str, tuple[str, ...]]
) -> tuple[list[SwitchLine], list[str]]:
    """Lines with something below them, children first, and the nodes that the fabric leaves out."""
    known = set(nodes)
    kept = dict(_kept(fabric, known))
    placed = {n for name, below in kept.items() if fabric[name].nodes for n in below}
    left = sorted(known - placed)
    tops = set(kept) - {c for name, below in kept.items() if fabric[name].switches for c in below}
    if left:
        spare = free_name({*fabric, *known})
        top = next((t for t in tops if len(tops) == 1 and fabric[t].switches), None)
        if top is not None:
            kept[top] = [*kept[top], spare]
        kept = {spare: left, **kept}
    return [
        SwitchLine(name, _key(fabric.get(name)), fold(below), ", ".join(members.get(name, ())))
        for name, below in kept.items()
    ], left


def _key(switch: Switch | None) -> str:
    return "Switches" if switch is not None and switch.switches else "Nodes"


def _kept(fabric: Mapping[str, Switch], known: set[str]) -> Iterator[tuple[str, list[str]]]:
    """Switches that have nodes, sorted by their height, then by name."""
    alive: dict[str, list[str]] = {}
    waiting = dict(sorted(fabric.items()))
    while waiting:
        ready = [n for n, s in waiting.items() if s.nodes or not set(s.below) & set(waiting)]
        for name in ready:
            switch = waiting.pop(name)
            below = [c for c in switch.below if c in (known if switch.nodes else alive)]
            if below:
                alive[name] = below
                yield name, below


def free_name(taken: Collection[str]) -> str:
    """A name for what has no place."""
    name = UNPLACED
    while name in taken:
        name += "-"
    return name
