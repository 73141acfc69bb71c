"""topology.conf for topology/tree, from the fabric of site.yaml.

Slurm starts no job at all on a node that no switch holds (seen on 24.11.5 and 26.05.5), and warns
about nodes that it does not know. So the file names the nodes of the plan, each just once: those
that the fabric leaves out stand in a switch of their own below the top, as far as can be from all
others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hpcmgr.plan import ClusterPlan
from hpcmgr.render.environment import fill
from hpcmgr.settings import Switch
from hpcmgr.slurm.hostlist import fold

UNPLACED = "unplaced"


@dataclass(frozen=True, slots=True)
class SwitchLine:
    """One line: ``key`` is Switches or Nodes."""

    name: str
    key: str
    below: str


def render_topology(plan: ClusterPlan) -> str | None:
    """The text; None where site.yaml describes no fabric, or there is no node."""
    names = [node.name for node in plan.nodes]
    if not plan.site.fabric or not names:
        return None
    lines, left = switch_lines(plan.site.fabric, names)
    return fill("topology.conf.j2", switches=lines, left=fold(left) if left else "")


def switch_lines(
    fabric: Mapping[str, Switch], nodes: list[str]
) -> tuple[list[SwitchLine], list[str]]:
    """Lines with something below them, children first, and the nodes that the fabric leaves out."""
    known = set(nodes)
    kept = dict(_kept(fabric, known))
    placed = {n for name, below in kept.items() if fabric[name].nodes for n in below}
    left = sorted(known - placed)
    tops = set(kept) - {c for name, below in kept.items() if fabric[name].switches for c in below}
    if left:
        spare = _free_name(fabric, known)
        top = next((t for t in tops if len(tops) == 1 and fabric[t].switches), None)
        if top is not None:
            kept[top] = [*kept[top], spare]
        kept = {spare: left, **kept}
    return [
        SwitchLine(name, _key(fabric.get(name)), fold(below)) for name, below in kept.items()
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


def _free_name(fabric: Mapping[str, Switch], known: set[str]) -> str:
    name = UNPLACED
    while name in fabric or name in known:
        name += "-"
    return name
