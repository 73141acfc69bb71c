"""Counts a cluster's devices by node and type; everything else is a sum of these.

The devices are Slurm's own (``Gres`` and ``GresUsed``), what one is worth comes from its profile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from hpcmgr.capacity.tally import Tally, Worth, total
from hpcmgr.profile import DeviceProfile, ProfileLibrary
from hpcmgr.settings import JobClass
from hpcmgr.slurm.hostlist import expand, fold
from hpcmgr.slurm.partition import Partition
from hpcmgr.slurm.state import ClusterState, NodeState
from hpcmgr.submit.candidates import device_needs
from hpcmgr.submit.facts import NO_FACTS, NodeFacts

NEUTRAL = ("compute", "vram")
_NO_DEVICES = frozenset({*NEUTRAL, "mps", "shard", "nic"})
"""Names that may have indices or sockets, but of which no job holds a whole device."""


@dataclass(frozen=True)
class Here:
    """Devices of one type (``gres`` is ``name:type``) on one node. ``lacking``: what keeps the rest
    of the free ones from being usable: CPUs, memory, units or a whole node; "" if nothing does."""

    gres: str
    profile: DeviceProfile | None
    devices: Tally
    lacking: str = ""

    @cached_property
    def worth(self) -> Worth:
        """With units and memory, as far as a profile tells them."""
        profile = self.profile
        if profile is None:
            return Worth.of(self.devices, None, None)
        return Worth.of(self.devices, profile.booked_units, profile.memory_gib)


@dataclass(frozen=True)
class OnNode:
    """One node. ``why_out``: why it takes no jobs, "" if it does."""

    state: NodeState
    here: tuple[Here, ...]
    why_out: str

    @cached_property
    def worth(self) -> Worth:
        """All its devices."""
        if len(self.here) == 1:
            return self.here[0].worth
        return total(each.worth for each in self.here)


@dataclass(frozen=True, slots=True)
class Largest:
    """The most devices of a type that one job can get now on one node; ``nodes`` offer as many."""

    devices: int
    units: int | None
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Capacity:
    """All nodes, in the order of Slurm's answer; those without devices too."""

    nodes: tuple[OnNode, ...]
    partitions: tuple[Partition, ...]
    release: str

    @cached_property
    def by_type(self) -> dict[str, list[tuple[OnNode, Here]]]:
        """Device types, in order of name, with the nodes that have them."""
        found: dict[str, list[tuple[OnNode, Here]]] = {}
        for node in self.nodes:
            for here in node.here:
                found.setdefault(here.gres, []).append((node, here))
        return dict(sorted(found.items()))

    @cached_property
    def by_partition(self) -> dict[str, list[OnNode]]:
        """Partitions with their nodes; a node counts in each of its partitions."""
        found: dict[str, list[OnNode]] = {part.name: [] for part in self.partitions}
        for node in self.nodes:
            for name in node.state.partitions:
                found.setdefault(name, []).append(node)
        return found

    def largest(self, gres: str) -> Largest | None:
        """The largest request for that type that fits on a node now; None: none does."""
        spread = self.spread(gres)
        if not spread:
            return None
        most, names = next(iter(spread.items()))
        profile = self.by_type[gres][0][1].profile
        units = profile.booked_units if profile else None
        return Largest(most, None if units is None else units * most, names)

    def spread(self, gres: str) -> dict[int, tuple[str, ...]]:
        """Where the usable devices lie: how many one node offers → such nodes, most first."""
        found: dict[int, list[str]] = {}
        for node, here in self.by_type.get(gres, ()):
            if here.devices.usable:
                found.setdefault(here.devices.usable, []).append(node.state.name)
        return {most: tuple(found[most]) for most in sorted(found, reverse=True)}

    def hindered(self, gres: str) -> dict[str, list[tuple[str, int]]]:
        """What free devices lack to be usable → nodes and how many devices there."""
        found: dict[str, list[tuple[str, int]]] = {}
        for node, here in self.by_type.get(gres, ()):
            if here.lacking:
                less = here.devices.free - here.devices.usable
                found.setdefault(here.lacking, []).append((node.state.name, less))
        return found


def count(
    state: ClusterState,
    library: ProfileLibrary,
    default: JobClass,
    places: Mapping[str, Collection[str]] | None = None,
    facts: Mapping[str, NodeFacts] | None = None,
) -> Capacity:
    """Count.

    Args:
        state: nodes, partitions and reservations.
        library: what devices are worth.
        default: the class of a request: its CPUs and memory a device say what must be free beside
            a device.
        places: ``name:type`` → the nodes whose devices count; None: all.
        facts: what inventories tell of nodes: devices that have failed are out.
    """
    known = {profile.gres_key: profile for profile in library.profiles}
    names = frozenset({"gpu", "npu", *(profile.gres.name for profile in library.profiles)})
    parts = {part.name: part for part in state.partitions}
    defaults = state.defaults_in("")
    counter = _Counter(
        known, names, parts, default, defaults, held_back(state), places, facts or {}
    )
    return Capacity(tuple(map(counter.node, state.nodes)), state.partitions, state.release)


@dataclass(frozen=True, slots=True)
class _Counter:
    known: Mapping[str, DeviceProfile]
    names: frozenset[str]
    partitions: Mapping[str, Partition]
    default: JobClass
    defaults: tuple[int, int]
    held_back: dict[str, dict[str, int] | None]
    places: Mapping[str, Collection[str]] | None
    facts: Mapping[str, NodeFacts]

    def node(self, node: NodeState) -> OnNode:
        why_out = _why_out(node, self.partitions)
        return OnNode(
            node,
            tuple(
                self._here(node, key, why_out)
                for key in sorted(node.gres)
                if self._is_device(node, key)
            ),
            why_out,
        )

    def _is_device(self, node: NodeState, key: str) -> bool:
        if self.places is not None and node.name not in self.places.get(key, ()):
            return False
        name = key.split(":")[0]
        return name not in _NO_DEVICES and (name in self.names or key in node.indexed)

    def _here(self, node: NodeState, key: str, why_out: str) -> Here:
        profile = self.known.get(key)
        here = node.gres[key]
        used = min(here, node.used.get(key, 0))
        rest = here - used
        if why_out:
            return Here(key, profile, Tally(here, used, out=rest))
        reserved = self._reserved(node, key, rest)
        failed = min(rest - reserved, self._failed(node, key))
        free = rest - reserved - failed
        usable, lacking = self._usable(node, profile, free)
        tally = Tally(here, used, out=failed, reserved=reserved, free=free, usable=usable)
        return Here(key, profile, tally, lacking)

    def _reserved(self, node: NodeState, key: str, rest: int) -> int:
        if "RESERVED" not in node.words:
            return 0
        held = self.held_back.get(node.name)
        return rest if held is None else min(rest, held.get(key, 0))

    def _failed(self, node: NodeState, key: str) -> int:
        """As admission does, they are taken for some of those that look free."""
        return self.facts.get(node.name, {}).get(key, NO_FACTS).failed

    def _usable(self, node: NodeState, profile: DeviceProfile | None, free: int) -> tuple[int, str]:
        """The most of ``free`` devices that one job could get with the CPUs and memory it needs,
        and what it lacks for more."""
        if self._only_whole(node) and node.cpus_used:
            return 0, "whole node" if free else ""
        # A core is handed out with all its threads.
        cores = max(0, node.cpus - node.cpus_used) // node.threads_per_core
        cpus = cores * node.threads_per_core
        memory = max(0, node.memory - node.memory_used)
        cpus_each, memory_each = device_needs(self.default, profile, 1, self.defaults)
        limits = [
            (_fit(cpus, cpus_each, free), "CPUs"),
            (_fit(memory, memory_each, free), "memory"),
        ]
        if profile:
            # Units that are booked without their devices are not there for others either.
            for name, each in zip(NEUTRAL, (profile.booked_units, profile.memory_gib), strict=True):
                if each and name in node.gres:
                    limits.append((_fit(node.free(name), each, free), "units"))
        least, what = min(limits)
        return (least, what) if least < free else (free, "")

    def _only_whole(self, node: NodeState) -> bool:
        """Whether every partition hands this node out to one job at a time."""
        parts = [self.partitions[name] for name in node.partitions if name in self.partitions]
        return bool(parts) and all(part.exclusive for part in parts if part.up)


def _fit(there: int, each: int, most: int) -> int:
    """How many times ``each`` fits into what is ``there``; where it is not known, something must be
    left at all."""
    if each:
        return there // each
    return most if there > 0 else 0


def held_back(state: ClusterState) -> dict[str, dict[str, int] | None]:
    """Devices that active reservations hold, by node and type; None: all of the node's.

    A node that Slurm calls reserved and that is in no reservation here counts as held whole: the
    reservation cannot be seen. What a reservation of GRES over several nodes holds where is not
    told; it is counted on the first ones.
    """
    nodes = {node.name: node for node in state.nodes}
    held: dict[str, dict[str, int] | None] = {}
    for reservation in state.reservations:
        if not reservation.active:
            continue
        left = dict(reservation.gres)
        for name in expand(reservation.nodes) if reservation.nodes else ():
            here = held.setdefault(name, {})
            if reservation.whole:
                held[name] = None
            elif here is not None and name in nodes:
                _take(nodes[name], here, left)
    return held


def _take(node: NodeState, here: dict[str, int], left: dict[str, int]) -> None:
    """Move as much of ``left`` to ``here`` as the node has."""
    for key, count in left.items():
        taken = min(count, node.gres.get(key, 0) - here.get(key, 0))
        here[key] = here.get(key, 0) + taken
        left[key] -= taken


def _why_out(node: NodeState, partitions: Mapping[str, Partition]) -> str:
    if not node.usable:
        if node.reason:
            return node.reason
        return f"reservation {node.reservation}" if node.reservation else "no reason given"
    if not partitions:
        return ""
    mine = [partitions[name] for name in node.partitions if name in partitions]
    if not mine:
        return "in no partition"
    return "" if any(part.up for part in mine) else "its partition is not up"


def disagreements(capacity: Capacity) -> list[str]:
    """Nodes whose neutral units in Slurm are not those of their devices, in words."""
    odd: dict[tuple[int, int], list[str]] = {}
    bare = []
    for node in capacity.nodes:
        worth = node.worth
        if worth.unknown or not worth.units.total:
            continue
        booked = node.state.gres.get("compute")
        if booked is None:
            bare.append(node.state.name)
        elif booked != worth.units.total:
            odd.setdefault((booked, worth.units.total), []).append(node.state.name)
    notes = [
        f"{fold(names)}: Slurm has compute:{booked}, by the profiles it is {right}"
        for (booked, right), names in odd.items()
    ]
    if bare:
        notes.append(f"{fold(bare)}: no neutral units in Slurm's configuration")
    return notes


def lost(capacity: Capacity) -> Iterable[OnNode]:
    """Nodes with something to tell: out of service or reserved."""
    return (n for n in capacity.nodes if n.why_out or "RESERVED" in n.state.words)
