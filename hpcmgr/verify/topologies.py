"""topology.conf and topology.yaml as the rules see them: switches or blocks, with their lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hpcmgr.slurm.capability import has
from hpcmgr.verify.configuration import Configuration, hosts
from hpcmgr.verify.finding import Finding, Place, error

YAML = "topology.yaml"
_KINDS = ("tree", "block", "flat", "ring", "torus3d")
_KEYS = {
    "": {"topology", "cluster_default", *_KINDS},
    "tree": {"switches"},
    "switches": {"switch", "children", "nodes"},
    "block": {"block_sizes", "blocks"},
    "blocks": {"block", "nodes"},
}
_REFUSED = "slurmctld refuses to start."


@dataclass(frozen=True, slots=True)
class Unit:
    """A switch or a block; ``nodes_place``: the line that names its nodes."""

    name: str
    place: Place
    nodes_place: Place
    nodes: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


@dataclass(slots=True)
class Topology:
    """One topology; ``name`` is empty in topology.conf. ``kind``: tree, block, flat, …"""

    name: str
    kind: str
    place: Place
    units: list[Unit] = field(default_factory=list)
    sizes: tuple[str, ...] = ()
    sizes_place: Place = field(default_factory=Place)

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes that have a place in it."""
        return frozenset(node for unit in self.units for node in unit.nodes)


@dataclass(slots=True)
class Topologies:
    """All that hold, the cluster's default first, and what is wrong with the form of the files."""

    listed: list[Topology] = field(default_factory=list)
    problems: list[Finding] = field(default_factory=list)


def reads_yaml(c: Configuration) -> bool:
    """Whether Slurm takes topology.yaml, and then nothing of topology.conf and TopologyPlugin."""
    return has(c.release, "TOPOLOGY_YAML") and (c.directory / YAML).exists()


def read_topologies(c: Configuration) -> Topologies:
    """What Slurm of this release would read."""
    return _of_yaml(c.directory / YAML) if reads_yaml(c) else _of_conf(c)


def _of_conf(c: Configuration) -> Topologies:
    found = Topologies()
    for kind, head in (("tree", "switchname"), ("block", "blockname")):
        topology = Topology("", kind, Place(c.topology.path))
        for entry in c.topology.settings(head):
            nodes, children = (
                tuple(hosts(text, entry.place, found.problems)) if text else ()
                for text in (entry.get("nodes"), entry.get("switches"))
            )
            unit = Unit(entry.pairs[0].value, entry.place, entry.place, nodes, children)
            topology.units.append(unit)
        for entry in c.topology.entries:
            sizes = entry.get("blocksizes")
            if sizes and kind == "block":
                topology.sizes, topology.sizes_place = tuple(sizes.split(",")), entry.place
        if topology.units:
            found.listed.append(topology)
    return found


def _of_yaml(path: Path) -> Topologies:
    found = Topologies()
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            root: yaml.Node | None = yaml.compose(file, Loader=yaml.SafeLoader)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        text = f"no YAML: {getattr(problem, 'problem', None) or problem}"
        place = Place(path, mark.line + 1 if mark else None)
        found.problems.append(error("topology-yaml", place, text, _REFUSED, "correct the file"))
        return found
    except (OSError, RecursionError, ValueError) as problem:
        found.problems.append(
            error("topology-yaml", Place(path), str(problem), "Slurm reads it too.", "correct it")
        )
        return found
    items = root.value if isinstance(root, yaml.SequenceNode) else []
    if not items:
        found.problems.append(
            error(
                "topology-yaml",
                Place(path),
                "not a list of items with the key 'topology'",
                _REFUSED,
                "begin every topology with '- topology: NAME'",
            )
        )
        return found
    reader = _Reader(path, found.problems)
    default = None
    for item in items:
        topology, is_default = reader.topology(item)
        if topology is not None:
            found.listed.append(topology)
            default = default or (topology if is_default else None)
    if default is not None:
        found.listed.remove(default)
        found.listed.insert(0, default)
    return found


@dataclass(slots=True)
class _Reader:
    """Reads nodes of one topology.yaml, with their lines."""

    path: Path
    problems: list[Finding]

    def topology(self, node: yaml.Node) -> tuple[Topology | None, bool]:
        """One item of the list, and whether it is the cluster's default."""
        keys = self._keys(node, "")
        name = self._text(keys.get("topology"))
        if not name:
            self._problem(node, "not an item with the key 'topology'", "begin it with its name")
            return None, False
        kinds = [kind for kind in _KINDS if kind in keys]
        if len(kinds) != 1:
            what = f"names {' and '.join(kinds)}" if kinds else "names no kind"
            self._problem(node, f"{name} {what}", f"give it one of {', '.join(_KINDS)}")
            return None, False
        made = Topology(name, kinds[0], self._place(node))
        if made.kind == "tree":
            made.units = list(self._units(keys["tree"], "tree", "switches", "switch"))
        elif made.kind == "block":
            made.units = list(self._units(keys["block"], "block", "blocks", "block"))
            inner = self._quiet(keys["block"])
            sizes = inner.get("block_sizes")
            if isinstance(sizes, yaml.SequenceNode):
                made.sizes = tuple(self._text(size) for size in sizes.value)
                made.sizes_place = self._place(sizes.value[0] if sizes.value else sizes)
        return made, self._text(keys.get("cluster_default")).lower() in {"true", "yes", "on"}

    def _units(self, parent: yaml.Node, kind: str, key: str, name: str) -> Iterator[Unit]:
        node = self._keys(parent, kind).get(key)
        if not isinstance(node, yaml.SequenceNode):
            if isinstance(parent, yaml.MappingNode):
                fix = f"begin every line with '- {name}: NAME'"
                self._problem(node or parent, f"'{key}' is no list", fix)
            return
        for item in node.value:
            keys = self._keys(item, key)
            names = {k: self._text(keys.get(k)) for k in (name, "nodes", "children")}
            place = self._place(item)
            nodes, children = (
                tuple(hosts(names[k], self._place(keys[k]), self.problems)) if names[k] else ()
                for k in ("nodes", "children")
            )
            nodes_place = self._place(keys["nodes"]) if "nodes" in keys else place
            yield Unit(names[name], place, nodes_place, nodes, children)

    def _keys(self, node: yaml.Node, level: str) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            self._problem(node, f"'{level or 'a topology'}' holds no keys", "write 'key: value'")
            return {}
        for key, _ in node.value:
            if self._text(key) not in _KEYS[level]:
                self.problems.append(
                    error(
                        "topology-yaml-key",
                        self._place(key),
                        f"Slurm knows no key '{self._text(key)}' here",
                        "It is passed over without a word, and what it says does not hold.",
                        f"use one of {', '.join(sorted(_KEYS[level]))}",
                    )
                )
        return self._quiet(node)

    def _quiet(self, node: yaml.Node) -> dict[str, yaml.Node]:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        return {self._text(key): value for key, value in pairs}

    def _problem(self, node: yaml.Node, text: str, fix: str) -> None:
        self.problems.append(error("topology-yaml", self._place(node), text, _REFUSED, fix))

    def _place(self, node: yaml.Node) -> Place:
        mark: Any = node.start_mark
        return Place(self.path, mark.line + 1 if mark else None)

    @staticmethod
    def _text(node: yaml.Node | None) -> str:
        return str(node.value) if isinstance(node, yaml.ScalarNode) else ""
