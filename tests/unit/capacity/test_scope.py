"""Which partitions are a user's own, by what Slurm says of groups and accounts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpcmgr.capacity.scope import Scope, Viewer, needs_accounts, scope_of
from hpcmgr.settings import Owned
from hpcmgr.slurm.accounts import parse_accounts
from hpcmgr.slurm.partition import parse_partitions
from hpcmgr.slurm.state import ClusterState
from tests.builders import cluster, node

PARTITIONS = """PartitionName=main AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
PartitionName=wheel AllowGroups=wheel,staff AllowAccounts=ALL
PartitionName=bio AllowGroups=ALL AllowAccounts=biology
PartitionName=open AllowGroups=ALL DenyAccounts=guests,cells
"""
ASSOCIATIONS = """root||||||||
biology|||root|||||
cells|||biology|||||
guests|||root|||||
cells|alice|||||||
guests|bob|||||||
"""


def scope(
    user: str,
    *groups: str,
    associations: str | None = ASSOCIATIONS,
    partitions: str = PARTITIONS,
    owned: Owned | None = None,
) -> Scope:
    state = seen(partitions)
    if associations is not None:
        accounts = parse_accounts(frozenset({"associations"}), associations, "")
        state = replace(state, accounts=accounts)
    return scope_of(Viewer(user, frozenset(groups)), state, owned or {})


def seen(partitions: str = PARTITIONS) -> ClusterState:
    nodes = cluster(node("g1"), node("g2"))
    return replace(nodes, partitions=tuple(parse_partitions(partitions)))


def mine(user: str, *groups: str, **more: Any) -> list[str] | None:
    found = scope(user, *groups, **more).partitions
    return None if found is None else sorted(found)


@pytest.mark.parametrize(
    ("user", "groups", "found"),
    [
        ("alice", ("users",), ["bio", "main"]),  # cells is below biology, and denied in open
        ("alice", ("staff",), ["bio", "main", "wheel"]),
        ("bob", ("users",), ["main"]),
        ("carol", ("users",), ["bio", "main", "open"]),  # no account is known: Slurm will tell
    ],
)
def test_groups_and_accounts_open_partitions(
    user: str, groups: tuple[str, ...], found: list[str]
) -> None:
    """An account counts with all below it."""
    assert mine(user, *groups) == found


def test_where_accounts_cannot_be_read_only_groups_count() -> None:
    """No slurmdbd."""
    assert mine("alice", "users", associations=None) == ["bio", "main", "open"]


def test_a_partition_that_is_closed_for_a_while_still_shows() -> None:
    """Its devices are only away."""
    closed = PARTITIONS.replace("PartitionName=bio", "PartitionName=bio State=DRAIN")

    assert mine("alice", "users", partitions=closed) == ["bio", "main"]


def test_where_nothing_keeps_anybody_out_the_view_is_whole() -> None:
    """And sacctmgr is not asked."""
    assert mine("bob", partitions="PartitionName=main AllowGroups=ALL\n") is None


OWNED: Owned = {"g1": (frozenset({"biology"}),), "g9": (frozenset({"biology"}),)}


@pytest.mark.parametrize(("user", "others"), [("alice", set()), ("bob", {"g1"}), ("carol", set())])
def test_nodes_that_others_keep_are_not_his(user: str, others: set[str]) -> None:
    """Of nodes that there are; as at a submission, of somebody unknown nothing is concluded."""
    assert scope(user, owned=OWNED).others == others
    nodes = scope(user, owned=OWNED, partitions="PartitionName=main").limit(seen()).nodes
    assert {each.name for each in nodes} == {"g1", "g2"} - others


def test_a_user_without_an_account_is_told() -> None:
    """Where Slurm takes jobs of accounts only."""
    assert scope("carol").stranger
    assert not scope("bob").stranger
    assert not scope("carol", associations=None).stranger


def test_accounts_are_asked_for_only_where_they_matter() -> None:
    """slurmdbd has its own time."""
    assert needs_accounts(seen(), {})
    assert not needs_accounts(seen("PartitionName=main AllowGroups=wheel"), {})
    assert needs_accounts(seen("PartitionName=main AllowGroups=wheel"), OWNED)
