"""Whose view it is: everything, or what one user's partitions offer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from hpcmgr.errors import CommandError
from hpcmgr.slurm.command import run
from hpcmgr.slurm.reader import Runner
from hpcmgr.slurm.record import parse_record
from hpcmgr.slurm.state import ClusterState, NodeState

_ASSOCIATIONS = ("sacctmgr", "-n", "-P", "show", "assoc", "format=Account,ParentName,User")


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
    """What Slurm's partitions let that user use, by groups and accounts; all of it where nothing
    keeps him out, or where the accounts cannot be read (Slurm has the last word anyway).

    Raises:
        CommandError: slurmctld does not answer.
    """
    text = runner("scontrol", "-o", "show", "partitions").stdout
    records = [parse_record(line) for line in text.splitlines() if "PartitionName=" in line]
    accounts: tuple[str, ...] = ()
    lineages: list[frozenset[str]] = []
    if any(_names(r, "AllowAccounts") or _names(r, "DenyAccounts") for r in records):
        accounts, lineages = _accounts(user, runner)
    mine = frozenset(r["PartitionName"] for r in records if _lets_in(r, groups, lineages))
    limited = len(mine) < len(records)
    return Scope(user, accounts, mine if limited else None, every_node)


def _accounts(user: str, runner: Runner) -> tuple[tuple[str, ...], list[frozenset[str]]]:
    """The user's accounts, and each with those above it."""
    try:
        text = runner(*_ASSOCIATIONS).stdout
    except CommandError:
        return (), []
    rows = [line.split("|") for line in text.splitlines() if line.count("|") == 2]
    parents = {account: parent for account, parent, who in rows if not who}
    accounts = tuple(dict.fromkeys(account for account, _, who in rows if who == user))
    return accounts, [_lineage(account, parents) for account in accounts]


def _lineage(account: str, parents: Mapping[str, str]) -> frozenset[str]:
    found: set[str] = set()
    while account and account not in found:
        found.add(account)
        account = parents.get(account, "")
    return frozenset(found)


def _lets_in(
    record: Mapping[str, str], groups: Collection[str], lineages: Collection[frozenset[str]]
) -> bool:
    """Who allows some accounts denies the others, and what is denied then says nothing."""
    group_names = _names(record, "AllowGroups")
    if group_names and group_names.isdisjoint(groups):
        return False
    if not lineages:
        return True
    allowed, denied = _names(record, "AllowAccounts"), _names(record, "DenyAccounts")
    if allowed:
        return any(allowed & lineage for lineage in lineages)
    return any(not denied & lineage for lineage in lineages)


def _names(record: Mapping[str, str], key: str) -> frozenset[str]:
    """Empty where all are meant."""
    text = record.get(key, "")
    return frozenset() if text in {"", "ALL", "(null)"} else frozenset(text.split(","))
