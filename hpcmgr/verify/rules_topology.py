"""Rules about topology.conf and topology.yaml. Slurm itself accepts most mistakes silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from hpcmgr.slurm.capability import has
from hpcmgr.verify.conf import Entry
from hpcmgr.verify.configuration import Configuration, hosts
from hpcmgr.verify.finding import Finding, Place, error, note, warning
from hpcmgr.verify.values import positive


def hostlists_are_readable(c: Configuration) -> Iterator[Finding]:
    """Nodes= is a hostlist."""
    for entry in c.topology.entries:
        problems: list[Finding] = []
        _nodes(entry, problems)
        yield from problems


def nodes_are_known(c: Configuration) -> Iterator[Finding]:
    """A node that slurm.conf does not have: only a line in a log, and a job placed badly."""
    if not c.nodes:
        return
    for entry in c.topology.entries:
        unknown = [name for name in _nodes(entry) if name not in c.nodes]
        if unknown:
            yield error(
                "topology-unknown-node",
                entry.place,
                f"slurm.conf has no node {unknown[0]}"
                + (f" (and {len(unknown) - 1} more of this line)" if len(unknown) > 1 else ""),
                "slurmctld logs it and goes on; the node that is meant has no place in the "
                "topology. Often the prefix of a second range was forgotten.",
                "write the full name in front of every range: gpu[01-16],gpu[19-20]",
            )


def nodes_stand_once(c: Configuration) -> Iterator[Finding]:
    """A node in two leaf switches or two blocks is accepted silently."""
    seen: dict[str, Entry] = {}
    for entry in c.topology.settings("switchname", "blockname"):
        for name in _nodes(entry):
            first = seen.setdefault(name, entry)
            if first is not entry:
                yield error(
                    "topology-node-twice",
                    entry.place,
                    f"{name} is already in {first.pairs[0].value} ({first.place})",
                    "Slurm accepts it and takes one of the two.",
                    "leave the node in one switch or block",
                )
                break


def every_node_has_a_place(c: Configuration) -> Iterator[Finding]:
    """A node in no switch or block is never placed together with others."""
    placed = {n for e in c.topology.settings("switchname", "blockname") for n in _nodes(e)}
    missing = [name for name in c.nodes if name not in placed]
    if placed and missing:
        yield warning(
            "topology-node-missing",
            Place(c.topology.path),
            f"{missing[0]} is in no switch or block"
            + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""),
            "Jobs that span this node and others cannot start.",
            "add the node, or render topology.conf from the inventory",
        )


def switches_form_a_tree(c: Configuration) -> Iterator[Finding]:
    """One parent for each switch, and every child exists."""
    switches = {e.pairs[0].value: e for e in c.topology.settings("switchname")}
    parents: dict[str, Entry] = {}
    for entry in c.topology.settings("switchname"):
        text = entry.get("switches")
        for child in hosts(text, entry.place, []) if text else ():
            first = parents.setdefault(child, entry)
            if first is not entry:
                yield error(
                    "topology-two-parents",
                    entry.place,
                    f"switch {child} is already below {first.pairs[0].value} ({first.place})",
                    "Slurm accepts it silently and counts distances wrongly.",
                    "leave the switch below one other",
                )
            if child not in switches:
                yield error(
                    "topology-no-switch",
                    entry.place,
                    f"there is no switch {child}",
                    "slurmctld refuses to start: the switch has an invalid child.",
                    "define it with SwitchName=, or take it out of Switches=",
                )


def names_stand_once(c: Configuration) -> Iterator[Finding]:
    """A switch or block of the same name twice: slurmctld does not start."""
    for head in ("switchname", "blockname"):
        counts = Counter(e.pairs[0].value for e in c.topology.settings(head))
        for entry in c.topology.settings(head):
            if counts[entry.pairs[0].value] > 1:
                counts[entry.pairs[0].value] = 0
                yield error(
                    "topology-name-twice",
                    entry.place,
                    f"{entry.pairs[0].value} is defined more than once",
                    "slurmctld refuses to start.",
                    "give every switch and block a name of its own",
                )


def topology_is_not_empty(c: Configuration) -> Iterator[Finding]:
    """A missing topology.conf stops slurmctld, an empty one that of newer releases."""
    plugin = _plugin(c)
    if plugin not in {"topology/tree", "topology/block"} or _yaml_rules(c):
        return
    if any(c.topology.settings("switchname", "blockname")):
        return
    if not c.topology.exists:
        yield error(
            "topology-missing",
            c.place_of("topologyplugin"),
            f"TopologyPlugin={plugin}, but there is no topology.conf",
            "slurmctld waits a minute for it, then refuses to start.",
            "render topology.conf, or remove TopologyPlugin",
        )
        return
    fatal = has(c.release, "EMPTY_TOPOLOGY_IS_FATAL")
    yield (error if fatal else warning)(
        "topology-empty",
        Place(c.topology.path),
        f"topology.conf is empty, but TopologyPlugin={plugin}",
        f"slurmctld of {c.release} refuses to start."
        if fatal
        else "All nodes then count as equally far apart; Slurm 26.05 refuses to start.",
        "render topology.conf, or remove TopologyPlugin",
    )


def plugin_fits_the_file(c: Configuration) -> Iterator[Finding]:
    """topology.conf is read only by the plugin it is made for."""
    plugin = _plugin(c)
    for head, wanted in (("switchname", "topology/tree"), ("blockname", "topology/block")):
        entry = next(iter(c.topology.settings(head)), None)
        if entry is None or plugin == wanted or _yaml_rules(c):
            continue
        if c.fragment and not plugin:
            continue
        yield warning(
            "topology-plugin",
            entry.place,
            f"the file is made for {wanted}, but TopologyPlugin is {plugin or 'not set'}",
            "Slurm does not read it.",
            f"set TopologyPlugin={wanted} in slurm.conf",
        )


def plugin_is_in_the_release(c: Configuration) -> Iterator[Finding]:
    """Plugins came and went: a missing one stops slurmctld."""
    plugin = _plugin(c)
    needs = {
        "topology/flat": (True, "TOPOLOGY_FLAT"),
        "topology/default": (False, "TOPOLOGY_FLAT"),
        "topology/block": (True, "TOPOLOGY_BLOCK"),
        "topology/3d_torus": (True, "TOPOLOGY_3D_TORUS"),
        "topology/ring": (True, "TOPOLOGY_RING_TORUS3D"),
        "topology/torus3d": (True, "TOPOLOGY_RING_TORUS3D"),
    }
    if plugin in needs and has(c.release, needs[plugin][1]) is not needs[plugin][0]:
        yield error(
            "topology-plugin-release",
            c.place_of("topologyplugin"),
            f"Slurm {c.release} has no {plugin}",
            "slurmctld refuses to start.",
            "leave TopologyPlugin out, or take one that the release has",
        )


def blocks_reach_the_base_size(c: Configuration) -> Iterator[Finding]:
    """Before 25.05 a block smaller than the base size stops slurmctld."""
    if has(c.release, "TOPOLOGY_BLOCK_BELOW_BASE"):
        return
    sizes = [e.get("blocksizes") for e in c.topology.entries if e.get("blocksizes")]
    base = positive((sizes[-1] or "").split(",")[0], 0) if sizes else 0
    for entry in c.topology.settings("blockname"):
        if base and 0 < len(_nodes(entry)) < base:
            yield error(
                "topology-block-small",
                entry.place,
                f"{entry.pairs[0].value} has {len(_nodes(entry))} nodes, the base block size is "
                f"{base}",
                f"slurmctld of {c.release} refuses to start.",
                "lower the first of BlockSizes=, or leave the block out",
            )


def yaml_is_readable(c: Configuration) -> Iterator[Finding]:
    """topology.yaml is a list of topologies, and this release reads it."""
    path = c.directory / "topology.yaml"
    if not path.exists():
        return
    if not has(c.release, "TOPOLOGY_YAML"):
        yield warning(
            "topology-yaml-release",
            Place(path),
            f"Slurm {c.release} does not read topology.yaml",
            "It came with 25.05.",
            "write topology.conf",
        )
        return
    if c.topology.exists:
        yield note(
            "topology-yaml-wins",
            Place(c.topology.path),
            "topology.conf is not read where there is a topology.yaml",
        )
    yield from _yaml_findings(c, path)


def _yaml_findings(c: Configuration, path: Path) -> Iterator[Finding]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            document = yaml.safe_load(file)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        yield error(
            "topology-yaml",
            Place(path, mark.line + 1 if mark else None),
            f"no YAML: {getattr(problem, 'problem', None) or problem}",
            "slurmctld refuses to start.",
            "correct the file",
        )
        return
    except (OSError, RecursionError, ValueError) as problem:
        yield error("topology-yaml", Place(path), str(problem), "Slurm reads it too.", "correct it")
        return
    if not isinstance(document, list) or not all(
        isinstance(item, dict) and "topology" in item for item in document
    ):
        yield error(
            "topology-yaml",
            Place(path),
            "not a list of items with the key 'topology'",
            "slurmctld refuses to start.",
            "begin every topology with '- topology: NAME'",
        )
        return
    for name in _yaml_nodes(document):
        if c.nodes and name not in c.nodes:
            yield error(
                "topology-unknown-node",
                Place(path, _line_of(path, name)),
                f"slurm.conf has no node {name}",
                "The node that is meant has no place in the topology.",
                "correct the name, or define the node",
            )


def _yaml_nodes(document: Any) -> Iterator[str]:
    """Every name below a key ``nodes``."""
    waiting = [document]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            waiting += [value for key, value in item.items() if key != "nodes"]
            if isinstance(item.get("nodes"), str):
                yield from hosts(item["nodes"], Place(), [])


def _line_of(path: Path, word: str) -> int | None:
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = enumerate(text.splitlines(), start=1)
    return next((number for number, line in lines if word in line), None)


def _yaml_rules(c: Configuration) -> bool:
    return has(c.release, "TOPOLOGY_YAML") and (c.directory / "topology.yaml").exists()


def _plugin(c: Configuration) -> str:
    names = c.plugins("topologyplugin")
    return f"topology/{names[0]}" if names else ""


def _nodes(entry: Entry, problems: list[Finding] | None = None) -> list[str]:
    text = entry.get("nodes")
    return hosts(text, entry.place, [] if problems is None else problems) if text else []


RULES = (
    hostlists_are_readable,
    nodes_are_known,
    nodes_stand_once,
    every_node_has_a_place,
    switches_form_a_tree,
    names_stand_once,
    topology_is_not_empty,
    plugin_fits_the_file,
    plugin_is_in_the_release,
    blocks_reach_the_base_size,
    yaml_is_readable,
)
