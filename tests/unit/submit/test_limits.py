"""Limits that a job can never keep: a candidate is out, with who allows no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from hpcmgr.slurm.accounts import Accounts, parse_accounts
from hpcmgr.slurm.partition import Partition
from hpcmgr.slurm.state import ClusterState
from tests.builders import A100, ASCEND, T4, cluster, node, policy, submit

RULES = policy(A100, ASCEND, T4)
ENFORCED = frozenset({"associations", "limits", "qos"})
ASSOCIATIONS = """\
root||||normal||||gres/compute=64
lab|||root|normal||||gres/gpu=3
lab|eve|||big,normal,small||cpu=8||
lab|kim|||normal|||gres/npu=1|
"""
LEVELS = """\
normal||||||
small||gres/compute=8,gres/gpu:a100=0||||
big|OverPartQOS|gres/compute=100,cpu=64||||
user|||gres/compute=4|||
memory|||||gres/vram=100|
wide||node=1||||gres/npu=1
"""


def accounts(enforced: frozenset[str] = ENFORCED) -> Accounts:
    return parse_accounts(enforced, ASSOCIATIONS, LEVELS, "eve|lab\n")


def state(*partitions: Partition, known: Accounts | None = None) -> ClusterState:
    names = tuple(p.name for p in partitions)
    nodes = cluster(
        node("a01", gres={"gpu:a100": 4}, partitions=names),
        node("n01", gres={"npu:ascend910b3": 4}, partitions=names),
        node("t01", gres={"gpu:t4": 8}, partitions=names),
    )
    return replace(nodes, partitions=partitions, accounts=known or accounts())


MAIN = Partition("main", default=True)


def job(request: str, **fields: object) -> dict[str, object]:
    return {"tres_per_node": request, "user_name": "eve", **fields}


def refusals(where: ClusterState, fields: Mapping[str, object]) -> dict[str, str]:
    decision = submit(where, RULES, fields)
    return {c.profile.gres.type: c.refused for c in decision.refused}


def test_a_type_that_the_qos_never_allows_is_out() -> None:
    """Another takes its place, and quote tells why."""
    where = state(MAIN)

    decision = submit(where, RULES, job("compute:8", qos="small"))

    assert decision.rewrite is not None
    assert str(decision.rewrite.set["gres"]).startswith("npu:")
    reasons = {c.profile.gres.type: c.refused for c in decision.refused}
    assert reasons["a100"] == "it takes 1 gpu:a100; QOS small allows a job none"


def test_more_units_than_the_qos_allows_are_refused_in_words() -> None:
    """With what would fit, by the same limits."""
    error = submit(state(MAIN), RULES, job("compute:npu:16", qos="small")).error

    assert "npu:ascend910b3: it takes 16 units; QOS small allows a job 8" in error
    assert "What would fit: compute:ascend910b3:8." in error


def test_units_of_all_nodes_count_for_a_job() -> None:
    """Two nodes of 8 units are 16."""
    fields = job("compute:npu:8", qos="small", min_nodes=2)
    where = state(MAIN)
    two = replace(where, nodes=(*where.nodes, replace(where.nodes[1], name="n02")))

    assert refusals(two, fields)["ascend910b3"].startswith("it takes 16 units")


@pytest.mark.parametrize(
    ("request_", "qos", "reason"),
    [
        ("compute:8", "user", "it takes 8 units; QOS user allows a job on a node 4"),
        ("compute:a100:32", "normal", "it takes 4 gpu; account lab allows all its jobs 3"),
        ("compute:npu:16", "wide", "it takes 2 npu; QOS wide allows all its jobs 1"),
        ("vram:65", "memory", "GiB of device memory; QOS memory allows all jobs of an account 100"),
    ],
)  # fmt: skip
def test_each_level_speaks_for_itself(request_: str, qos: str, reason: str) -> None:
    """QOS a node, account's group, the association a node, QOS for an account."""
    assert any(reason in why for why in refusals(state(MAIN), job(request_, qos=qos)).values())


def test_an_association_bounds_its_user() -> None:
    """A node's share of the job, for this user alone."""
    asked = job("compute:npu:16", user_name="kim", account="lab")

    reason = refusals(state(MAIN), asked)["ascend910b3"]
    assert reason == "it takes 2 npu; account lab allows a job on a node 1"


def test_cpus_beside_the_devices_count_too() -> None:
    """The association's 8 CPUs; a QOS that sets its own limit replaces it, even a larger one."""
    where, fields = state(MAIN), job("compute:8", cpus_per_task=16)

    assert "it takes 16 CPUs; account lab allows a job 8" in refusals(where, fields).values()
    assert submit(where, RULES, {**fields, "qos": "big"}).rewrite is not None


def test_the_partitions_qos_comes_first_unless_the_jobs_own_overrides() -> None:
    """OverPartQOS."""
    where = state(Partition("main", default=True, qos="small"))

    assert "it takes 16 units" in refusals(where, job("compute:npu:16"))["ascend910b3"]
    assert submit(where, RULES, job("compute:npu:16", qos="big")).rewrite is not None


def test_what_a_partition_gives_a_job_on_a_node() -> None:
    """MaxCPUsPerNode and MaxMemPerNode bound what the site sets beside the devices."""
    where = state(Partition("main", default=True, max_cpus_per_node=4, max_memory_per_node=1000))

    few = refusals(where, job("compute:8", cpus_per_task=5)).values()
    much = refusals(where, job("compute:8", min_mem_per_node=1001)).values()

    assert "it takes 5 CPUs; partition main gives a job on a node 4" in few
    assert "it takes 1001 MiB of memory; partition main gives a job on a node 1000" in much


def test_one_partition_of_several_that_allows_it_is_enough() -> None:
    """And nothing is refused where Slurm holds nobody to limits."""
    tight = Partition("tight", qos="small")
    where = state(MAIN, tight)
    fields = job("compute:npu:8", partition="tight,main", min_nodes=1)

    assert submit(where, RULES, {**fields, "tres_per_node": "compute:a100:8"}).rewrite is not None
    lax = state(MAIN, known=accounts(frozenset({"associations"})))
    assert submit(lax, RULES, job("compute:npu:16", qos="small")).rewrite is not None


def test_an_unknown_user_or_qos_is_slurms_to_judge() -> None:
    """Nothing is known of them, so nothing is refused."""
    where = state(MAIN)

    for fields in (
        {"tres_per_node": "compute:npu:16"},
        job("compute:npu:8", qos="brand-new"),
        job("compute:npu:16", user_name="new", account="other"),
    ):
        assert submit(where, RULES, fields).rewrite is not None
