"""The cluster as admission sees it: built in the background, read-only, swapped whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hpcmgr.profile import DeviceProfile, ProfileLibrary
from hpcmgr.slurm.capability import Release
from hpcmgr.slurm.hostlist import members
from hpcmgr.slurm.state import ClusterState, NodeState, Reservation
from hpcmgr.slurm.tres import parse_gres_list
from hpcmgr.submit.expect import Expectation
from hpcmgr.submit.facts import NOTHING_KNOWN, Known
from hpcmgr.submit.pool import Pool, make_pools
from hpcmgr.submit.request import JobFields


@dataclass(frozen=True)
class ClusterView:
    """``types``: device types that the cluster has, with their nodes by pools. ``waiting``: devices
    that queued jobs ask for, by ``name:type``. ``expected``: what the cycle of late binding found,
    None before its first one. ``memo``: what was worked out for requests of one form, for the next
    ones of it (admit.py)."""

    state: ClusterState
    release: Release
    types: tuple[tuple[DeviceProfile, tuple[Pool, ...]], ...]
    waiting: Mapping[str, int]
    expected: Expectation | None = None
    memo: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def spare(self) -> Mapping[str, int]:
        """Free devices less those that queued jobs ask for, by ``name:type``."""
        return {
            profile.gres_key: sum(pool.free for pool in pools)
            - self.waiting.get(profile.gres_key, 0)
            for profile, pools in self.types
        }

    @cached_property
    def accelerators(self) -> frozenset[str]:
        """GRES names of devices."""
        return frozenset(profile.gres.name for profile, _ in self.types)

    def gives_whole_nodes(self, partition: str) -> bool:
        """Whether a job there gets its nodes alone (OverSubscribe=EXCLUSIVE); "" is the default
        partition, of several one is enough."""
        asked = set(partition.split(",")) if partition else {self.state.default_partition}
        return any(p.exclusive and p.name in asked for p in self.state.partitions)

    def reserved_nodes(self, reservation: str) -> frozenset[str] | None:
        """Nodes of the job's reservation (of several, comma-separated, of any); None without one,
        or where none of them is in the picture yet."""
        known = self._reservations(reservation)
        if not known:
            return None
        return frozenset(name for r in known if r.nodes for name in members(r.nodes))

    def named_nodes(self, text: str) -> frozenset[str]:
        """Nodes of a user's list; what is no list names none. One that stands for far more nodes
        than there are is Slurm's to refuse: spelling it out would keep slurmctld waiting."""
        try:
            return members(text, 2 * len(self.state.nodes) + 64) if text else frozenset()
        except ValueError:
            return frozenset()

    def lacks(self, fields: JobFields) -> str:
        """What the job names that was made after the picture was taken; "" if nothing."""
        reservation = fields.string("reservation")
        if reservation and not self._reservations(reservation):
            return f"reservation {reservation}"
        new = {p for p in fields.string("partition").split(",") if p} - self._partitions
        return f"partition {min(new)}" if new and self._partitions else ""

    @cached_property
    def _partitions(self) -> frozenset[str]:
        return frozenset(partition.name for partition in self.state.partitions)

    def _reservations(self, reservation: str) -> list[Reservation]:
        asked = {name for name in reservation.split(",") if name}
        return [r for r in self.state.reservations if r.name in asked]


def make_view(
    state: ClusterState, library: ProfileLibrary, known: Known = NOTHING_KNOWN
) -> ClusterView:
    """Index ``state`` by device type.

    Raises:
        ValueError: its release is no Slurm version.
    """
    by_key: dict[str, list[NodeState]] = {}
    for node in state.nodes:
        for key in node.gres:
            by_key.setdefault(key, []).append(node)
    types = tuple(
        (profile, make_pools(profile.gres_key, by_key[profile.gres_key], known))
        for profile in library.profiles
        if profile.gres_key in by_key
    )
    return ClusterView(state, Release.parse(state.release), types, _waiting(state))


def _waiting(state: ClusterState) -> dict[str, int]:
    waiting: dict[str, int] = {}
    for job in state.pending:
        if not job.queued:
            continue
        try:
            items = parse_gres_list(job.tres_per_node)
        except ValueError:
            continue
        for item in items:
            key = f"{item.name}:{item.type}" if item.type else item.name
            waiting[key] = waiting.get(key, 0) + (item.number or 0) * job.nodes
    return waiting
