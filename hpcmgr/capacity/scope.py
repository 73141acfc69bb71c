"""Whose view it is: everything, or what one user's partitions offer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hpcmgr.slurm.state import ClusterState, NodeState


@dataclass(frozen=True, slots=True)
class Scope:
    """``partitions``: those that the user may use, None: all, and nodes in no partition too.
    ``accounts``: the user's own, for words. ``every_node``: nodes without devices too."""

    user: str = ""
    accounts: tuple[str, ...] = ()
    partitions: frozenset[str] | None = None
    every_node: bool = False

    def sees(self, partitions: str) -> bool:
        """Whether a job in one of these (comma-separated) partitions shows."""
        return self.partitions is None or not self.partitions.isdisjoint(partitions.split(","))

    def limit(self, state: ClusterState) -> ClusterState:
        """The cluster without partitions that the user may not use and the nodes only they have."""
        mine = self.partitions
        if mine is None:
            return state

        def within(node: NodeState) -> NodeState:
            return replace(node, partitions=tuple(p for p in node.partitions if p in mine))

        return replace(
            state,
            nodes=tuple(node for node in map(within, state.nodes) if node.partitions),
            partitions=tuple(part for part in state.partitions if part.name in mine),
        )
