"""Who holds, who waits, and who might be stopped."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from hpcmgr.admit import make_policy
from hpcmgr.capacity import Picture, Rules, Scope, as_data, make_picture
from hpcmgr.capacity.view import By
from hpcmgr.profile import ProfileLibrary
from hpcmgr.profile.performance import load
from hpcmgr.settings import Site
from hpcmgr.slurm.jobs import Job
from hpcmgr.slurm.partition import Partition
from hpcmgr.slurm.preemption import Controller, Qos
from hpcmgr.slurm.state import ClusterState
from hpcmgr.submit.facts import NOTHING_KNOWN, Known
from tests.builders import A100, ASCEND, T4, cluster, node

LIBRARY = ProfileLibrary((A100, ASCEND, T4))
STATE = cluster(
    node("g1", gres={"gpu:a100": 4}, used={"gpu:a100": 3}, features=frozenset({"rdma"})),
    node("g2", gres={"gpu:t4": 4}, used={"gpu:t4": 1}),
    node("n1", gres={"npu:ascend910b3": 8}),
)


def job(number: int, state: str = "RUNNING", **changes: Any) -> Job:
    base = Job(
        number, str(number), "alice", "science", "main", "normal", state, priority=1,
        nodes="g1" if state != "PENDING" else "", start="2026-03-01T10:00:00",
    )  # fmt: skip
    return replace(base, **changes)


def told(*jobs: Job, by: By = "type", state: ClusterState = STATE, **more: Any) -> dict[str, Any]:
    data = json.loads(json.dumps(as_data(picture(*jobs, state=state, **more), by)))
    assert isinstance(data, dict)
    return data


def picture(
    *jobs: Job, state: ClusterState = STATE, known: Known = NOTHING_KNOWN, **more: Any
) -> Picture:
    site = more.pop("site", Site())
    rules = Rules(make_policy(site, LIBRARY, load()), known)
    return make_picture(site, LIBRARY, state, jobs, rules=rules, **more)


JOBS = (
    job(1, gres={"gpu:a100": 2, "compute": 16}),
    job(2, gres={"gpu:t4": 1, "compute": 2}, user="bob", account="art", nodes="g2"),
    job(3, "PENDING", gres={"gpu:a100": 1, "compute": 8}, tasks=5, reason="Priority"),
    job(4, "PENDING", gres={"npu": 2, "compute": 16}, reason="JobHeldUser", user="bob"),
    job(5, "PENDING", gres={"compute:unbound": 8}, reason="JobHeldAdmin"),
    job(6, gres={}),
    job(7, "SUSPENDED", gres={"gpu:a100": 1}, user="bob"),
)


def test_waiting_demand_by_type_counts_tasks_and_tells_those_whose_turn_it_is() -> None:
    """Any NPU, and units without a type yet, stand for themselves."""
    rows = {each["gres"]: each for each in told(*JOBS)["waiting"]}

    assert list(rows) == ["gpu:a100", "npu", "unbound"]
    assert rows["gpu:a100"]["waiting"] == {
        "jobs": 5, "devices": 5, "units": 40, "types": {"gpu:a100": 5},
    }  # fmt: skip
    assert rows["gpu:a100"]["queued"]["devices"] == 5
    assert (rows["npu"]["waiting"]["devices"], rows["npu"]["queued"]["devices"]) == (2, 0)
    assert (rows["unbound"]["waiting"]["devices"], rows["unbound"]["waiting"]["units"]) == (0, 8)


def test_users_and_accounts_hold_and_wait() -> None:
    """A suspended job holds; a job without devices does not show; unbooked units come from the
    profile."""
    users = {each["name"]: each for each in told(*JOBS, by="user")["users"]}
    accounts = {each["name"]: each for each in told(*JOBS, by="account")["accounts"]}

    assert users["alice"]["held"] == {
        "jobs": 1, "devices": 2, "units": 16, "types": {"gpu:a100": 2},
    }  # fmt: skip
    assert users["bob"]["held"]["types"] == {"gpu:a100": 1, "gpu:t4": 1}
    assert users["bob"]["held"]["units"] == 2 + 8
    assert users["bob"]["waiting"]["jobs"] == 1
    assert accounts["art"]["held"]["devices"] == 1
    assert accounts["science"]["waiting"]["jobs"] == 7


def test_devices_of_jobs_that_are_hidden_are_told() -> None:
    """Four are in use, one visible job holds one."""
    assert told(JOBS[1])["total"]["not_seen"] == 3
    assert told(*JOBS)["total"]["not_seen"] == 0


def test_a_type_that_slurm_does_not_tell_is_that_of_the_nodes() -> None:
    """Where AccountingStorageTRES has no types; two types on a node leave it open."""
    two = cluster(node("g1", gres={"gpu:a100": 1, "gpu:t4": 1}, used={"gpu:t4": 1}))
    held = job(1, gres={"gpu": 1})

    assert told(held, by="user")["users"][0]["held"]["types"] == {"gpu:a100": 1}
    assert told(held, by="user", state=two)["users"][0]["held"]["types"] == {"gpu": 1}


def test_a_job_in_several_partitions_waits_in_each() -> None:
    """And the partition's devices are those of its nodes."""
    waiting = replace(JOBS[2], partition="main,night")
    state = replace(STATE, partitions=(Partition("main"), Partition("night")))
    rows = {each["name"]: each for each in told(waiting, by="partition",
                                                state=state)["partitions"]}  # fmt: skip

    assert [rows[name]["waiting"]["devices"] for name in ("main", "night")] == [5, 5]


BY_QOS = Controller(
    preempt_by="qos", preempt_mode="REQUEUE", qos={"high": Qos(frozenset({"normal"}))}
)
NOW = time.mktime(time.strptime("2026-03-01T10:05:00", "%Y-%m-%dT%H:%M:%S"))


def stoppable(controller: Controller, *jobs: Job, state: ClusterState = STATE) -> dict[str, Any]:
    data = told(*jobs, state=state, controller=controller, taken=NOW)
    return {each["gres"]: each["preemptable"]["by"] for each in data["types"]}


def test_a_qos_may_stop_jobs_of_another() -> None:
    """Running ones, not suspended ones; by name of the QOS that may."""
    found = stoppable(BY_QOS, *JOBS)

    assert found == {"gpu:a100": {"QOS high": 2}, "gpu:t4": {"QOS high": 1},
                     "npu:ascend910b3": {}}  # fmt: skip


@pytest.mark.parametrize(
    "controller",
    [
        replace(BY_QOS, preempt_by=""),
        replace(BY_QOS, preempt_mode="SUSPEND,GANG"),  # keeps its GRES
        replace(BY_QOS, qos={"high": Qos(frozenset({"low"}))}),
        replace(BY_QOS, qos=None),
        replace(BY_QOS, exempt_s=600),  # runs for five minutes only
        replace(BY_QOS, qos={**(BY_QOS.qos or {}), "normal": Qos(mode="SUSPEND")}),
        replace(BY_QOS, qos={**(BY_QOS.qos or {}), "normal": Qos(exempt_s=600)}),
    ],
)
def test_what_does_not_free_devices_now_does_not_count(controller: Controller) -> None:
    """Each of these alone is reason enough."""
    assert not any(stoppable(controller, *JOBS).values())


def test_a_partition_of_a_higher_tier_may_stop_jobs_on_the_nodes_they_share() -> None:
    """Where the lower one's PreemptMode says so."""
    by_tier = Controller(preempt_by="partition_prio", preempt_mode="OFF")
    nodes = tuple(
        replace(each, partitions=("main", "urgent") if each.name == "g1" else ("main",))
        for each in STATE.nodes
    )
    low = Partition("main", preempt_mode="CANCEL")
    parts = (low, Partition("urgent", tier=10, preempt_mode="OFF"))
    state = replace(STATE, nodes=nodes, partitions=parts)

    assert stoppable(by_tier, *JOBS, state=state)["gpu:a100"] == {"partition urgent": 2}
    assert stoppable(by_tier, *JOBS, state=state)["gpu:t4"] == {}
    off = replace(state, partitions=(replace(low, preempt_mode="OFF"), parts[1]))
    assert stoppable(by_tier, *JOBS, state=off)["gpu:a100"] == {}


def test_devices_on_a_node_that_takes_no_jobs_are_not_freed_for_anybody() -> None:
    """The job goes, the node stays out."""
    out = replace(STATE, nodes=tuple(replace(n, usable=False, state="MIXED+DRAIN")
                                     for n in STATE.nodes))  # fmt: skip

    assert not any(stoppable(BY_QOS, *JOBS, state=out).values())


def test_the_view_of_a_user_ends_at_the_users_partitions() -> None:
    """Nodes, partitions, jobs and losses of others do not show."""
    nodes = tuple(
        replace(each, partitions=("main", "art") if each.name == "g2" else ("main",))
        for each in STATE.nodes
    )
    state = replace(STATE, nodes=nodes, partitions=(Partition("main"), Partition("art")))
    scope = Scope("bob", ("art",), frozenset({"art"}))
    data = told(*JOBS, by="partition", state=state, scope=scope)

    assert [each["gres"] for each in data["types"]] == ["gpu:t4"]
    assert [each["name"] for each in data["partitions"]] == ["art"]
    assert data["waiting"] == []
    assert data["scope"] == {
        "user": "bob", "accounts": ["art"], "partitions": ["art"], "nodes_of_others": None,
        "no_account": False,
    }  # fmt: skip
