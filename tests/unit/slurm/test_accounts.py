"""Accounts, associations and QOS as sacctmgr prints them; who reads them and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.errors import CommandError
from hpcmgr.slurm.accounts import parse_accounts, parse_limit
from hpcmgr.slurm.command import Output
from hpcmgr.slurm.partition import minutes, parse_partitions
from hpcmgr.slurm.reader import read_accounts, with_accounts
from hpcmgr.slurm.state import ClusterState

CONFIG = """\
Configuration data as of 2026-12-01T12:00:00
AccountingStorageEnforce = associations,limits,qos
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = reference
"""
ASSOC = """\
root||||normal||||
lab|||root|normal||cpu=8,gres/compute=4||gres/gpu=3
lab|eve|||big,normal|big|cpu=4,gres/compute=4,mem=1.50G|gres/compute=16|
lab|eve|debug||normal||||
"""


def answers(**texts: str):  # type: ignore[no-untyped-def]
    def runner(*argv: str, **_: object) -> Output:
        what = argv[2] if argv[0] == "scontrol" else argv[4]
        if what not in texts:
            raise CommandError(argv, 1, "no slurmdbd")
        return Output(0, texts[what], "")

    return runner


def test_associations_qos_and_users_are_read() -> None:
    """With the lineage of an account, and the association of a partition before the general one."""
    found = read_accounts(
        answers(
            config=CONFIG,
            assoc=ASSOC,
            qos="big|OverPartQOS,DenyOnLimit|gres/compute=8,gres/gpu:a100=0||gres/gpu=2||node=4\n",
            user="eve|lab\n",
        )
    )

    assert found is not None
    assert found.lineage("lab") == ("lab", "root")
    assert found.lineage("none") == ()
    eve = found.find("lab", "eve", "main")
    assert eve is not None
    assert (eve.qos, eve.default_qos) == ({"big", "normal"}, "big")
    assert eve.per_job == {"cpu": 4, "gres/compute": 4, "mem": 1536}
    assert eve.per_node == {"gres/compute": 16}
    debug = found.find("lab", "eve", "debug")
    assert debug is not None
    assert debug.default_qos == ""
    big = found.qos["big"]
    assert big.flags == {"OverPartQOS", "DenyOnLimit"}
    assert (big.per_job, big.per_user) == ({"gres/compute": 8, "gres/gpu:a100": 0}, {"gres/gpu": 2})
    assert big.group == {"node": 4}
    assert found.default_account == {"eve": "lab"}
    assert (found.limited, found.checks_qos) == (True, True)


@pytest.mark.parametrize(
    "config",
    [
        CONFIG.replace("associations,limits,qos", "none"),
        CONFIG.replace("accounting_storage/slurmdbd", "(null)"),
        "",
    ],
)
def test_where_slurm_enforces_nothing_nobody_is_asked(config: str) -> None:
    """sacctmgr would fail, or tell what counts for nothing."""
    assert read_accounts(answers(config=config)) is None


def test_without_an_answer_the_state_stays_without_accounts() -> None:
    """A user may be kept from them; Slurm then judges alone."""
    state = ClusterState(0.0, "24.11.5", ())

    assert with_accounts(state, answers(config=CONFIG)) == state


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("", {}),
        ("mem=4G", {"mem": 4096}),
        ("mem=500M", {"mem": 500}),
        ("mem=2T,node=3", {"mem": 2 << 20, "node": 3}),
        ("gres/vram=2K", {"gres/vram": 2048}),
        ("gres/gpu:a100=0", {"gres/gpu:a100": 0}),
        ("cpu=many", {}),
    ],
)
def test_limits(text: str, limit: dict[str, int]) -> None:
    """Memory in MiB, all else as it counts."""
    assert parse_limit(text) == limit


@given(st.text(), st.text(), st.text())
def test_no_text_makes_the_reader_fail(associations: str, qos: str, users: str) -> None:
    """Whatever a program prints."""
    found = parse_accounts(frozenset({"limits"}), associations, qos, users)
    for account, _, _ in found.associations:
        found.lineage(account)


def test_a_partition_tells_who_may_use_it_and_how_much() -> None:
    """The record of 26.05; 24.11 has other keys for exclusive use."""
    line = (
        "PartitionName=p AllowGroups=staff AllowAccounts=phys,chem DenyQos=small AllocNodes=ALL "
        "Default=NO QoS=small DefaultTime=NONE Exclusive=NO MaxNodes=4 MaxTime=1-02:30:00 "
        "MaxCPUsPerNode=8 Nodes=a1 State=DRAIN JobDefaults=(null) DefMemPerNode=UNLIMITED "
        "MaxMemPerNode=4000"
    )
    (found,) = parse_partitions(line)

    assert found.allow_accounts == {"phys", "chem"}
    assert (found.allow_qos, found.deny_qos) == (None, {"small"})
    assert (found.allow_groups, found.qos) == ({"staff"}, "small")
    assert (found.state, found.up) == ("DRAIN", False)
    assert (found.max_nodes, found.max_minutes) == (4, 1590)
    assert (found.max_cpus_per_node, found.max_memory_per_node) == (8, 4000)


@pytest.mark.parametrize(
    ("text", "found"),
    [("UNLIMITED", None), ("NONE", None), ("00:10:00", 10), ("00:00:30", 1), ("2-00:00:00", 2880)],
)
def test_times_of_partitions(text: str, found: int | None) -> None:
    """Minutes, as a job's time limit counts."""
    assert minutes(text) == found
