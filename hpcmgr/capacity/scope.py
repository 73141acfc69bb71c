"""Whose view it is: everything, or what one user's partitions offer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from hpcmgr.slurm.command import run
from hpcmgr.slurm.partition import Partition, parse_partitions
from hpcmgr.slurm.reader import Runner, with_accounts
from hpcmgr.slurm.state import ClusterState, NodeState
from hpcmgr.submit.access import Asker, may_use


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


def scope_of(
    user: str, groups: Collection[str], runner: Runner = run, *, every_node: bool = False
) -> Scope:
    """What is open to that user in any of his accounts; all of it where nothing keeps him out, or
    where the accounts cannot be read (Slurm has the last word anyway).

    Raises:
        CommandError: slurmctld does not answer.
    """
    text = runner("scontrol", "-o", "show", "partitions").stdout
    # A partition that is closed for a while is still his.
    partitions = tuple(replace(each, state="UP") for each in parse_partitions(text))
    state = ClusterState(0.0, "", (), partitions)
    if any(_limits_accounts(each) for each in partitions):
        state = with_accounts(state, runner)
    known = state.accounts.associations.values() if state.accounts else ()
    accounts = tuple(dict.fromkeys(each.account for each in known if each.user == user))
    mine: frozenset[str] = frozenset().union(
        *(may_use(state, Asker(user, account, groups=frozenset(groups))).open
          for account in accounts or ("",))
    )  # fmt: skip
    return Scope(user, accounts, mine if len(mine) < len(partitions) else None, every_node)


def _limits_accounts(partition: Partition) -> bool:
    """Whether accounts, which slurmdbd knows, or the QOS of their jobs matter in it."""
    return (
        partition.allow_accounts is not None
        or partition.allow_qos is not None
        or bool(partition.deny_accounts or partition.deny_qos)
    )
