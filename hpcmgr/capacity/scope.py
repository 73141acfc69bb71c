"""Whose view it is: everything, or what one user's partitions and accounts offer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hpcmgr.settings import Owned
from hpcmgr.slurm.partition import Partition
from hpcmgr.slurm.state import ClusterState, NodeState
from hpcmgr.submit.access import Asker, may_use


@dataclass(frozen=True, slots=True)
class Viewer:
    """An ordinary user and the names of his groups."""

    user: str
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Scope:
    """``partitions``: those that the user may use, None: all, and nodes in no partition too.
    ``accounts``: the user's own; ``stranger``: he has none, where Slurm takes jobs of accounts
    only. ``others``: nodes that departments and projects keep from him. ``every_node``: nodes
    without devices too."""

    user: str = ""
    accounts: tuple[str, ...] = ()
    partitions: frozenset[str] | None = None
    others: frozenset[str] = frozenset()
    stranger: bool = False
    every_node: bool = False

    def sees(self, partitions: str) -> bool:
        """Whether a job in one of these (comma-separated) partitions shows."""
        return self.partitions is None or not self.partitions.isdisjoint(partitions.split(","))

    def limit(self, state: ClusterState) -> ClusterState:
        """The cluster without what the user may not use: partitions and the nodes that only they
        have, nodes of others."""
        mine = self.partitions
        if self.others:
            state = replace(
                state, nodes=tuple(node for node in state.nodes if node.name not in self.others)
            )
        if mine is None:
            return state

        def within(node: NodeState) -> NodeState:
            return replace(node, partitions=tuple(p for p in node.partitions if p in mine))

        return replace(
            state,
            nodes=tuple(node for node in map(within, state.nodes) if node.partitions),
            partitions=tuple(part for part in state.partitions if part.name in mine),
        )


def scope_of(viewer: Viewer, state: ClusterState, owned: Owned) -> Scope:
    """What is open to that user in any of his accounts; all of it where nothing keeps him out, or
    where the accounts are not known (Slurm has the last word anyway)."""
    # A partition that is closed for a while is still his.
    state = replace(state, partitions=in_service(state.partitions))
    known = state.accounts.associations.values() if state.accounts else ()
    accounts = tuple(dict.fromkeys(each.account for each in known if each.user == viewer.user))
    access = [
        may_use(state, Asker(viewer.user, account, groups=viewer.groups))
        for account in accounts or ("",)
    ]
    mine = frozenset[str]().union(*(each.open for each in access))
    others = {
        node
        for node, owners in owned.items()
        if all(each.missing(each.open, owners) for each in access)
    }
    return Scope(
        viewer.user,
        accounts,
        mine if len(mine) < len(state.partitions) else None,
        frozenset(others & {node.name for node in state.nodes}),
        stranger=bool(state.accounts and state.accounts.required and not accounts),
    )


def in_service(partitions: Iterable[Partition]) -> tuple[Partition, ...]:
    """The same, all of them up."""
    return tuple(replace(part, up=True, state="UP") for part in partitions)


def needs_accounts(state: ClusterState, owned: Owned) -> bool:
    """Whether accounts, which slurmdbd knows, or the QOS of their jobs matter to a view."""
    return bool(owned) or any(_limits_accounts(part) for part in state.partitions)


def _limits_accounts(partition: Partition) -> bool:
    return (
        partition.allow_accounts is not None
        or partition.allow_qos is not None
        or bool(partition.deny_accounts or partition.deny_qos)
    )
