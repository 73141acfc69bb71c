"""NodeSets and partitions of hpcmgr.conf, and what of site.yaml is refused for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmgr.errors import ConfigError
from hpcmgr.inventory import CpuTopology, NodeInventory, NumaNode
from hpcmgr.plan import make_plan
from hpcmgr.profile import ProfileLibrary
from hpcmgr.render import render_cluster
from hpcmgr.settings import Site, load_site

GROUPS = [
    {"nodes": "a[1-4]", "pool": "train", "department": "physics"},
    {"nodes": "a[3-6]", "project": "gravity"},
    {"nodes": "b[1-2]", "pool": "infer"},
]


def lines(partitions: dict[str, object], **more: object) -> list[str]:
    """Set and partition lines of a cluster of a[1-6] and b[1-2]."""
    site = Site.model_validate({"nodes": GROUPS, "partitions": partitions, **more})
    assert list(site.ownership_problems()) == []
    cpu = CpuTopology(sockets=1, cores_per_socket=8, threads_per_core=1,
                      numa=(NumaNode(id=0, cpus="", memory_mib=1, socket=0),))  # fmt: skip
    names = [*(f"a{i}" for i in range(1, 7)), "b1", "b2"]
    found = [NodeInventory(node=name, cpu=cpu, memory_mib=1000) for name in names]
    text = render_cluster(make_plan(found, ProfileLibrary(()), site))["hpcmgr.conf"]
    return [
        line
        for line in text.splitlines()
        if line.startswith(("NodeSet=", "PartitionName=")) and "=DEFAULT" not in line
    ]


def test_without_partitions_there_is_no_node_set() -> None:
    """Groups alone make features."""
    assert lines({}) == []


def test_a_partition_names_the_sets_of_its_pools_and_only_those_are_written() -> None:
    """With what the site says of it, plain options last."""
    found = lines(
        {
            "train": {
                "pools": ["train"], "nodes": "b2,z9", "max_time": "2-00:00:00", "default": True,
                "accounts": ["phys", "chem"], "groups": ["staff"], "qos": ["normal"],
                "options": {"PriorityTier": 10, "OverSubscribe": "EXCLUSIVE"},
            },
            "all": {},
        }
    )  # fmt: skip

    assert found == [
        "NodeSet=pool_train Nodes=a[1-4]",
        "PartitionName=all Nodes=ALL",
        (
            "PartitionName=train Nodes=pool_train,b2 Default=YES MaxTime=2-00:00:00 "
            "AllowAccounts=phys,chem AllowGroups=staff AllowQos=normal OverSubscribe=EXCLUSIVE "
            "PriorityTier=10"
        ),
    ]


def test_what_an_owner_keeps_is_left_out_of_partitions_that_are_open_to_all() -> None:
    """Of those with accounts the site says itself who comes in."""
    found = lines(
        {
            "main": {},
            "train": {"pools": ["train", "infer"]},
            "physics": {"departments": ["physics"], "accounts": ["phys"]},
        },
        departments={"physics": {"accounts": ["phys"]}},
    )

    assert found == [
        "NodeSet=department_physics Nodes=a[1-4]",
        "PartitionName=main Nodes=a[5-6],b[1-2]",
        "PartitionName=physics Nodes=department_physics AllowAccounts=phys",
        "PartitionName=train Nodes=b[1-2]",
    ]


def test_a_partition_may_have_no_node_yet() -> None:
    """Slurm wants the empty list quoted."""
    found = lines(
        {"p": {"projects": ["gravity"]}, "q": {"nodes": "z[1-9]"}},
        projects={"gravity": {"accounts": ["grav"]}},
    )

    assert found == ['PartitionName=p Nodes=""', 'PartitionName=q Nodes=""']


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("partitions: {p: {pools: [trian]}}", "no group of nodes has pool 'trian'; there is train"),
        ("departments: {art: {accounts: [art]}}", "departments.art: no group of nodes has"),
        ("partitions: {p: {default: true}, q: {default: true}}", "p and q are both the default"),
        ("partitions: {DEFAULT: {}}", "partitions.DEFAULT: this name is reserved"),
        ("partitions: {p: {options: {Nodes: ALL}}}", "Nodes is set by pools, departments"),
        ("accounting: false\npartitions: {p: {accounts: [a]}}", "need slurmdbd"),
        ("partitions: {p: {accounts: [Phys]}}", "accounts"),
        ("departments: {physics: {accounts: []}}", "accounts"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    """With what is there instead."""
    file = tmp_path / "site.yaml"
    group = "{nodes: 'a[1-4]', pool: train, department: physics}"
    file.write_text(f"schema: hpcmgr.site/1\nnodes: [{group}]\n{text}\n")

    with pytest.raises(ConfigError) as caught:
        load_site(file)

    assert problem in caught.value.message
