"""Which partitions are a user's own, by what Slurm says of groups and accounts."""

from __future__ import annotations

import pytest

from hpcmgr.capacity.scope import scope_of
from hpcmgr.errors import CommandError
from hpcmgr.slurm.command import Output

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
CONFIG = """AccountingStorageEnforce = associations
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = here
"""


def mine(user: str, *groups: str, associations: str | None = ASSOCIATIONS,
         partitions: str = PARTITIONS) -> list[str] | None:  # fmt: skip
    def runner(*argv: str, **more: object) -> Output:
        if argv[0] == "scontrol":
            return Output(0, CONFIG if argv[-1] == "config" else partitions, "")
        if associations is None:
            raise CommandError(argv, 1, "no slurmdbd")
        return Output(0, associations if "assoc" in argv else "", "")

    scope = scope_of(user, groups, runner)
    return None if scope.partitions is None else sorted(scope.partitions)


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
