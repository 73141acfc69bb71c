"""Node by node: what a site's own files mean, where the machine differs, what would be rendered."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from hpcmgr.adopt.differences import Difference, differences
from hpcmgr.adopt.meaning import Meaning, leaves, meaning_of
from hpcmgr.adopt.steps import (
    Step,
    first_steps,
    hand_over_steps,
    relative,
    shim_steps,
    site_yaml,
    unit_steps,
)
from hpcmgr.apply.beside import own_nodes
from hpcmgr.apply.keep import NodeLines, lines_of
from hpcmgr.apply.layout import NodeLayout, layouts
from hpcmgr.inventory import NodeInventory
from hpcmgr.plan import ClusterPlan, NodePlan
from hpcmgr.render import render_cluster
from hpcmgr.slurm.capability import Release
from hpcmgr.slurm.hostlist import fold
from hpcmgr.verify.configuration import Configuration, Shape, read_configuration
from hpcmgr.verify.finding import Severity
from hpcmgr.verify.rules import apply_rules

SCHEMA = "hpcmgr.adopt/1"


class Move(StrEnum):
    """When the rendered form of a node can be brought into force."""

    ANY_TIME = "any-time"
    """Jobs on it go on: no device and no core changes its place."""
    DEVICES_FREE = "devices-free"
    """When no job has its devices (facts 19 and 20)."""
    JOBS_GONE = "jobs-gone"
    """When no job is on it: cores or the address change."""
    UNKNOWN = "unknown"
    """No inventory: nothing would be rendered."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """Equal nodes. ``before`` and ``after`` are their lines without names; ``own``: their lines
    stand in the site's own files."""

    names: tuple[str, ...]
    meaning: Meaning
    leaf: str
    own: bool
    differs: tuple[Difference, ...] = ()
    move: Move = Move.UNKNOWN
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    site_yaml: tuple[str, ...] = ()

    @property
    def nodes(self) -> str:
        """Their hostlist."""
        return fold(self.names)

    def diff(self) -> list[str]:
        """Lines that go (-), come (+) or stay, with the nodes' names."""
        nodes = self.nodes
        old = [f"NodeName={nodes} {line}".rstrip() for line in self.before]
        new = [f"NodeName={nodes} {line}".rstrip() for line in self.after]
        lines = difflib.ndiff(old, new)
        return [line for line in lines if not line.startswith("?")]


@dataclass(slots=True)
class AdoptReport:
    """The whole of it. ``new``: nodes with an inventory that no file names."""

    directory: Path
    release: str
    nodes: list[NodeReport] = field(default_factory=list)
    new: tuple[str, ...] = ()
    first: list[Step] = field(default_factory=list)
    errors: int = 0

    @property
    def exit_code(self) -> int:
        """3 where files and machines differ."""
        return 3 if any(node.differs for node in self.nodes) else 0

    def as_json(self) -> dict[str, Any]:
        """The document of ``hpcmgr adopt --json``."""
        return {
            "schema": SCHEMA,
            "directory": str(self.directory),
            "release": self.release,
            "errors_in_files": self.errors,
            "first_steps": [self._step(step) for step in self.first],
            "nodes": [self._node(node) for node in self.nodes],
            "in_no_file": fold(self.new) if self.new else "",
        }

    def _node(self, node: NodeReport) -> dict[str, Any]:
        meaning, machine = node.meaning, node.meaning.machine
        return {
            "nodes": node.nodes,
            "owner": "site" if node.own else "hpcmgr",
            "means": {
                "gres": dict(meaning.gres),
                "devices": [
                    {"gres": d.key, "files": list(d.files), "cores": d.cores or None,
                     "place": relative(d.place, self.directory)}
                    for d in meaning.devices
                ],
                "autodetect": meaning.autodetect or None,
                "sockets": machine.sockets if machine else None,
                "cores_per_socket": machine.cores_per_socket if machine else None,
                "threads_per_core": machine.threads_per_core if machine else None,
                "memory_mib": meaning.keys.get("realmemory"),
                "features": list(meaning.features),
                "topology": node.leaf or None,
            },
            "places": [relative(p, self.directory) for p in (meaning.place, *meaning.records)],
            "differs": [{"kind": d.kind, "text": d.text, "danger": d.danger} for d in node.differs],
            "move": node.move.value,
            "diff": node.diff() if node.after else [],
            "hand_over": [self._step(step) for step in node.steps],
            "site_yaml": list(node.site_yaml),
        }  # fmt: skip

    def _step(self, step: Step) -> dict[str, Any]:
        return {"place": relative(step.place, self.directory), "do": step.text}


def adopt(
    directory: Path,
    release: Release,
    plan: ClusterPlan | None,
    inventories: Mapping[str, NodeInventory],
    wanted: Iterable[str] | None = None,
) -> AdoptReport:
    """Read the files of ``directory`` and compare them with the machines.

    Args:
        directory: holds slurm.conf, and perhaps gres.conf and topology.conf.
        release: of the site's Slurm.
        plan: of the nodes in ``inventories``; None where there is none.
        inventories: by node.
        wanted: only these nodes; None: all.
    """
    c = read_configuration(directory, release)
    report = AdoptReport(directory, str(release), first=first_steps(c))
    report.errors = sum(f.severity is Severity.ERROR for f in apply_rules(c))
    chosen = None if wanted is None else {*wanted}
    plans = {node.name: node for node in plan.nodes} if plan else {}
    after, lines = _rendered(plan, release)
    before = lines_of(c, c.nodes)
    facts = _Facts(c, layouts(c), after, before, lines, leaves(c), own_nodes(c))
    for shape in c.shapes:
        names = [n for n in shape.names if chosen is None or n in chosen]
        for group, one in _equal(names, plans, facts):
            memory = inventories[group[0]].memory_mib if one else 0
            report.nodes.append(_report(facts, shape, group, one, memory))
            if one and group[0] in facts.own:
                report.first += unit_steps(c, group, one)
    report.first += shim_steps(c)
    report.new = tuple(n for n in plans if n not in c.nodes and (chosen is None or n in chosen))
    return report


@dataclass(frozen=True, slots=True)
class _Facts:
    """The files as they are and as they would be rendered, by node."""

    c: Configuration
    before: Mapping[str, NodeLayout]
    after: Mapping[str, NodeLayout]
    lines: Mapping[str, NodeLines]
    lines_after: Mapping[str, NodeLines]
    leaf: Mapping[str, str]
    own: frozenset[str]


def _rendered(
    plan: ClusterPlan | None, release: Release
) -> tuple[Mapping[str, NodeLayout], Mapping[str, NodeLines]]:
    """Layouts and lines of the rendered files, read as Slurm would read them."""
    if plan is None:
        return {}, {}
    with tempfile.TemporaryDirectory(prefix="hpcmgr-adopt-") as name:
        for file, text in render_cluster(plan).items():
            (Path(name) / file).write_text(text, encoding="utf-8")
        c = read_configuration(Path(name), release)
        return layouts(c), lines_of(c, c.nodes)


def _equal(
    names: list[str], plans: Mapping[str, NodePlan], facts: _Facts
) -> Iterator[tuple[list[str], NodePlan | None]]:
    """Nodes of one shape whose machines and places are the same, too."""
    groups: dict[str, tuple[list[str], NodePlan | None]] = {}
    for name in names:
        plan = plans.get(name)
        key = f"{facts.leaf.get(name, '')} {_anonymous(plan) if plan else None}"
        groups.setdefault(key, ([], plan))[0].append(name)
    yield from groups.values()


def _anonymous(plan: NodePlan) -> NodePlan:
    """The plan without what is every node's own."""
    devices = tuple(replace(device, uuid=None) for device in plan.devices)
    return replace(plan, name="", devices=devices)


def _report(
    facts: _Facts,
    shape: Shape,
    names: list[str],
    plan: NodePlan | None,
    memory_mib: int,
) -> NodeReport:
    """Equal nodes of one shape."""
    c, first = facts.c, names[0]
    meaning = meaning_of(c, shape)
    report = NodeReport(
        names=tuple(names),
        meaning=meaning,
        leaf=facts.leaf.get(first, ""),
        own=first in facts.own,
        before=_texts(facts.lines[first]),
    )
    if plan is None:
        return report
    return replace(
        report,
        differs=differences(meaning, plan, memory_mib),
        move=_move(facts.before[first], facts.after[first]),
        after=_texts(facts.lines_after[first]),
        steps=tuple(hand_over_steps(c, shape, names)) if report.own else (),
        site_yaml=tuple(site_yaml(c, names, meaning, plan)) if report.own else (),
    )


def _texts(lines: NodeLines) -> tuple[str, ...]:
    return (*([lines.line] if lines.line is not None else []), *lines.records)


def _move(before: NodeLayout, after: NodeLayout) -> Move:
    if before.moves_cores(after):
        return Move.JOBS_GONE
    return Move.DEVICES_FREE if before.moves_devices(after) else Move.ANY_TIME
