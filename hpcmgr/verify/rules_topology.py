"""Rules about topology.conf and topology.yaml. Slurm itself accepts most mistakes silently.

What becomes of each was seen on 24.11.5 and 26.05.5 (docs/slurm.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from hpcmgr.slurm.capability import has
from hpcmgr.verify.configuration import Configuration, hosts
from hpcmgr.verify.finding import Finding, Place, error, note, warning
from hpcmgr.verify.topologies import (
    YAML,
    Topologies,
    Topology,
    Unit,
    read_topologies,
    reads_yaml,
)
from hpcmgr.verify.values import positive

_REFUSED = "slurmctld refuses to start."
_LONGEST = 64


def topologies_are_sound(c: Configuration) -> Iterator[Finding]:
    """All rules about the switches and blocks, on one reading of the files."""
    topologies = read_topologies(c)
    yield from topologies.problems
    yield from partitions_name_a_topology(c, topologies)
    for topology in topologies.listed:
        for rule in UNIT_RULES:
            yield from rule(c, topology)
    yield from every_node_has_a_place(c, topologies)


def nodes_are_known(c: Configuration, topology: Topology) -> Iterator[Finding]:
    """A node that slurm.conf does not have: only a line in a log, and a job placed badly."""
    if not c.nodes:
        return
    for unit in topology.units:
        unknown = [name for name in unit.nodes if name not in c.nodes]
        if unknown:
            yield error(
                "topology-unknown-node",
                unit.nodes_place,
                f"slurm.conf has no node {unknown[0]}"
                + (f" (and {len(unknown) - 1} more of this line)" if len(unknown) > 1 else ""),
                "slurmctld logs it and goes on; the node that is meant has no place in the "
                "topology. Often the prefix of a second range was forgotten.",
                "write the full name in front of every range: gpu[01-16],gpu[19-20]",
            )


def nodes_stand_once(c: Configuration, topology: Topology) -> Iterator[Finding]:
    """A node in two leaf switches or two blocks is accepted silently."""
    del c
    seen: dict[str, Unit] = {}
    for unit in topology.units:
        for name in unit.nodes:
            first = seen.setdefault(name, unit)
            if first is not unit:
                yield error(
                    "topology-node-twice",
                    unit.nodes_place,
                    f"{name} is already in {first.name} ({first.place})",
                    "Slurm accepts it and counts the node in both.",
                    "leave the node in one switch or block",
                )
                break


def every_node_has_a_place(c: Configuration, topologies: Topologies) -> Iterator[Finding]:
    """No job starts on a node that has no place in the topology of its partition."""
    if not topologies.listed or not _is_read(c):
        return
    default, *others = topologies.listed
    wanted = [(default, set(c.nodes))]
    for topology in others:
        lines = c.slurm.settings("partitionname")
        texts = [e.get("nodes") or "" for e in lines if e.get("topology") == topology.name]
        wanted.append((topology, {name for text in texts for name in _partition_nodes(c, text)}))
    for topology, nodes in wanted:
        if topology.kind not in {"tree", "block"} or not topology.nodes:
            continue
        missing = sorted(n for n in nodes - topology.nodes if not _stands_elsewhere(c, n))
        if missing:
            word = "switch" if topology.kind == "tree" else "block"
            yield error(
                "topology-node-missing",
                topology.place,
                f"{missing[0]} is in no {word}"
                + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else "")
                + (f" of topology {topology.name}" if others else ""),
                "No job starts on it, not even one on this node alone.",
                "add the node, or render the topology from the inventory",
            )


def _partition_nodes(c: Configuration, text: str) -> set[str]:
    if text.upper() == "ALL":
        return set(c.nodes)
    return {name for name in hosts(text, Place(), []) if name in c.nodes} if text else set()


def _is_read(c: Configuration) -> bool:
    """Whether Slurm looks at the file at all; of a fragment nobody knows, so it does."""
    unknown = c.fragment and not _plugin(c)
    return reads_yaml(c) or unknown or _plugin(c) in {"topology/tree", "topology/block"}


def _stands_elsewhere(c: Configuration, name: str) -> bool:
    """Nodes of the future, and those whose own line names their place (25.05 and newer)."""
    keys = c.nodes[name].keys
    return "topology" in keys or keys.get("state", "").upper().startswith("FUTURE")


def switches_form_a_tree(c: Configuration, topology: Topology) -> Iterator[Finding]:
    """One parent for each switch, every child exists, nobody is above itself."""
    del c
    switches = {unit.name for unit in topology.units}
    parents: dict[str, Unit] = {}
    for unit in topology.units:
        for child in unit.children:
            first = parents.setdefault(child, unit)
            if first is not unit:
                yield error(
                    "topology-two-parents",
                    unit.place,
                    f"switch {child} is already below {first.name} ({first.place})",
                    "Slurm accepts it silently and counts distances wrongly.",
                    "leave the switch below one other",
                )
            if child not in switches:
                yield error(
                    "topology-no-switch",
                    unit.place,
                    f"there is no switch {child}",
                    "slurmctld refuses to start: the switch has an invalid child.",
                    "define it, or take it out of the children",
                )


def nobody_is_above_itself(c: Configuration, topology: Topology) -> Iterator[Finding]:
    """A circle of switches."""
    del c
    below = {unit.name: unit.children for unit in topology.units}
    for unit in topology.units:
        seen, waiting = set[str](), [*unit.children]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += below.get(name, ())
        if unit.name in seen:
            yield error(
                "topology-circle",
                unit.place,
                f"switch {unit.name} is above itself",
                "slurmctld refuses to start: the switches are not a tree.",
                "name every cable once only, from the upper switch to the lower",
            )
            return


def switches_are_connected(c: Configuration, topology: Topology) -> Iterator[Finding]:
    """Islands: wanted at some sites, a forgotten top switch at others."""
    del c
    children = {child for unit in topology.units for child in unit.children}
    tops = [unit for unit in topology.units if unit.name not in children]
    if topology.kind == "tree" and len(tops) > 1:
        yield note(
            "topology-islands",
            tops[1].place,
            f"no switch connects {tops[0].name} and {tops[1].name}",
            "No job spans them. Jobs that are too large for one of them never start.",
            "if they are connected, add a switch above them",
        )


def names_are_good(c: Configuration, topology: Topology) -> Iterator[Finding]:
    """A name twice, or a long one: slurmctld does not start."""
    del c
    counts = Counter(unit.name for unit in topology.units)
    for unit in topology.units:
        if counts[unit.name] > 1:
            counts[unit.name] = 0
            yield error(
                "topology-name-twice",
                unit.place,
                f"{unit.name} is defined more than once",
                _REFUSED,
                "give every switch and block a name of its own",
            )
        if len(unit.name) > _LONGEST:
            yield error(
                "topology-name-long",
                unit.place,
                f"{unit.name} has {len(unit.name)} characters, {_LONGEST} are the most",
                _REFUSED,
                "shorten it",
            )


def block_sizes_fit(c: Configuration, topology: Topology) -> Iterator[Finding]:
    """Each size is the base size times a power of two; before 25.05 no block is below the base."""
    sizes = [positive(size.strip(), 0) for size in topology.sizes]
    if topology.kind != "block" or not sizes:
        return
    base = sizes[0]
    powers = {base << k for k in range(16)}
    wrong = next((raw for raw, n in zip(topology.sizes, sizes, strict=True) if n not in powers), "")
    if not base or wrong:
        yield error(
            "topology-block-sizes",
            topology.sizes_place,
            f"{wrong or topology.sizes[0]} is no size of blocks",
            f"slurmd and slurmctld refuse to start. Every size is the first, {base or 1} at least, "
            "times 1, 2, 4, 8 …",
            f"for example {base or 4},{(base or 4) * 2},{(base or 4) * 4}",
        )
        return
    small = [unit for unit in topology.units if 0 < len(unit.nodes) < base]
    if not has(c.release, "TOPOLOGY_BLOCK_BELOW_BASE"):
        for unit in small:
            yield error(
                "topology-block-small",
                unit.place,
                f"{unit.name} has {len(unit.nodes)} nodes, the base block size is {base}",
                f"slurmctld of {c.release} refuses to start.",
                "lower the first of BlockSizes=, or put its nodes into another block",
            )
    elif small and len(small) == len(topology.units) > 1:
        yield warning(
            "topology-block-small",
            topology.sizes_place,
            f"no block has as many nodes as the base block size, {base}",
            "Slurm accepts it, and starts no job over all of several blocks.",
            "lower the base block size",
        )


def partitions_name_a_topology(c: Configuration, topologies: Topologies) -> Iterator[Finding]:
    """Topology= of a partition: from 25.05 on, and the topology must be there."""
    names = {topology.name for topology in topologies.listed if topology.name}
    for entry in c.slurm.settings("partitionname"):
        name = entry.get("topology")
        if name and not has(c.release, "TOPOLOGY_YAML"):
            yield error(
                "topology-partition",
                entry.place,
                f"Slurm {c.release} knows no Topology= of a partition",
                "It came with 25.05; slurmctld refuses to start.",
                "leave it out",
            )
        elif name and names and name not in names and not topologies.problems:
            yield error(
                "topology-partition",
                entry.place,
                f"there is no topology {name}",
                _REFUSED,
                f"name one of {', '.join(sorted(names))}",
            )


UNIT_RULES: tuple[Callable[[Configuration, Topology], Iterator[Finding]], ...] = (
    nodes_are_known,
    nodes_stand_once,
    switches_form_a_tree,
    nobody_is_above_itself,
    switches_are_connected,
    names_are_good,
    block_sizes_fit,
)


def topology_is_not_empty(c: Configuration) -> Iterator[Finding]:
    """A missing topology.conf stops slurmctld; an empty one does, too, or stops all jobs."""
    plugin = _plugin(c)
    if plugin not in {"topology/tree", "topology/block"} or reads_yaml(c):
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
    harmless = plugin == "topology/block" and not fatal
    yield (warning if harmless else error)(
        "topology-empty",
        Place(c.topology.path),
        f"topology.conf is empty, but TopologyPlugin={plugin}",
        f"slurmctld of {c.release} refuses to start."
        if fatal
        else "All nodes count as equally far apart; newer releases refuse to start."
        if harmless
        else f"slurmctld of {c.release} runs, but starts no job; newer ones refuse to start.",
        "render topology.conf, or remove TopologyPlugin",
    )


def plugin_fits_the_file(c: Configuration) -> Iterator[Finding]:
    """topology.conf is read by the plugin it is made for; another refuses it."""
    plugin = _plugin(c)
    if reads_yaml(c) or (c.fragment and not plugin):
        return
    for head, wanted in (("switchname", "topology/tree"), ("blockname", "topology/block")):
        entry = next(iter(c.topology.settings(head)), None)
        if entry is None or plugin == wanted:
            continue
        refused = plugin in {"topology/tree", "topology/block"}
        yield (error if refused else warning)(
            "topology-plugin",
            entry.place,
            f"the file is made for {wanted}, but TopologyPlugin is {plugin or 'not set'}",
            "slurmctld and slurmd do not know its keys and refuse to start."
            if refused
            else "Slurm does not read it.",
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
            _REFUSED,
            "leave TopologyPlugin out, or take one that the release has",
        )


def yaml_is_read(c: Configuration) -> Iterator[Finding]:
    """topology.yaml is read from 25.05 on, and then it alone."""
    path = c.directory / YAML
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
    elif c.topology.exists:
        yield warning(
            "topology-yaml-wins",
            Place(c.topology.path),
            "topology.conf is not read where there is a topology.yaml",
            "What stands in it does not hold; nor does TopologyPlugin.",
            "remove one of both files",
        )


def _plugin(c: Configuration) -> str:
    names = c.plugins("topologyplugin")
    return f"topology/{names[0]}" if names else ""


RULES = (
    topologies_are_sound,
    topology_is_not_empty,
    plugin_fits_the_file,
    plugin_is_in_the_release,
    yaml_is_read,
)
