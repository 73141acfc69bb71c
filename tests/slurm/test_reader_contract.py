"""What every reader of the cluster's state tells of the same cluster, whatever it asks with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import TypeAdapter

from hpcmgr.slurm.state import ClusterState, NodeState
from lightcluster.site import ReferenceSite
from tests.slurm.probe import submit

pytestmark = pytest.mark.slurm

READ = "/opt/hpcmgr/tests/slurm/read_state.py"
REASON = "fan 3 = dead, State=IDLE [see #12]"


@pytest.fixture(scope="module")
def busy(running_site: ReferenceSite) -> Iterator[tuple[ReferenceSite, list[str]]]:
    """The A100 and an NPU are in use, an array waits for the A100, t402 drains, t401 is bob's."""
    site = running_site
    site.reset()
    if site.service is None or not site.service.alive:
        site.start_service()
        site.close_breaker()
    jobs = [
        submit(site, *options).split("\n")[0]
        for options in (
            ("--gres=gpu:a100:1", "-w", "mix01", "--mem=100"),
            ("--gres=compute:npu:8", "-w", "npu01"),
        )
    ]
    for job in jobs:
        site.wait_job(job, ["RUNNING"], 30)
    jobs.append(submit(site, "--gres=gpu:a100:1", "--array=1-3").split("\n")[0])
    site.wait_until(lambda: _reason(site, jobs[2]) in {"Resources", "Priority"}, 30, "Resources")
    site.run(["scontrol", "update", "NodeName=t402", "State=DRAIN", f"Reason={REASON}"], check=True)
    site.run(
        ["scontrol", "create", "reservation", "ReservationName=course", "starttime=now",
         "duration=10", "users=bob", "nodes=t401"],
        check=True,
    )  # fmt: skip
    site.wait_until(
        lambda: "RESERVED" in site.run(["scontrol", "show", "node", "t401"]).stdout, 30, "RESERVED"
    )
    try:
        yield site, jobs
    finally:
        site._cancel_all(20)
        site.run(["scontrol", "delete", "ReservationName=course"], check=True)
        site.run(["scontrol", "update", "NodeName=t402", "State=RESUME"], check=True)


def _reason(site: ReferenceSite, job: str) -> str:
    return site.run(["squeue", "-h", "-j", job, "-o", "%r"]).stdout.split("\n")[0]


@pytest.fixture(scope="module", params=["commands", "pyslurm"])
def state(busy: tuple[ReferenceSite, list[str]], request: pytest.FixtureRequest) -> ClusterState:
    site, _ = busy
    if request.param == "pyslurm":
        there = site.run(["python3", "-c", "from importlib.metadata import *; version('pyslurm')"])
        if there.returncode != 0:
            pytest.skip("pyslurm 25.11 builds beside Slurm 25.11 only; no Debian release has that")
    said = site.run(
        ["env", "PYTHONPATH=/opt/hpcmgr", "python3", READ, request.param], user="slurm", check=True
    ).stdout
    return TypeAdapter(ClusterState).validate_json(said)


def node(state: ClusterState, name: str) -> NodeState:
    return next(node for node in state.nodes if node.name == name)


def test_nodes_with_their_machine(state: ClusterState) -> None:
    assert {node.name for node in state.nodes} == {"mix01", "npu01", "t401", "t402"}
    mix = node(state, "mix01")
    assert (mix.gres["gpu:a100"], mix.gres["npu:ascend910b3"]) == (1, 2)
    assert mix.sockets * mix.cores_per_socket * mix.threads_per_core == mix.cpus
    assert "rdma" in mix.features
    assert mix.partitions
    assert mix.sockets_of["gpu:a100"]
    assert "gpu:a100" in mix.indexed


def test_devices_in_use_by_type(state: ClusterState) -> None:
    mix, npu = node(state, "mix01"), node(state, "npu01")
    assert (mix.free("gpu:a100"), mix.free("npu:ascend910b3")) == (0, 2)
    assert (npu.used["npu:ascend910b3"], npu.free("npu:ascend910b3")) == (1, 7)
    assert npu.used["compute"] == 8
    assert mix.used["compute"] == 8
    assert mix.cpus_used > 0
    assert mix.memory_used == 100
    assert node(state, "t401").used.get("gpu:t4", 0) == 0


def test_a_drained_node(state: ClusterState) -> None:
    t402 = node(state, "t402")
    assert "DRAIN" in t402.words
    assert not t402.usable
    assert (t402.reason, t402.reason_by) == (REASON, "root")
    assert t402.reason_since
    assert node(state, "mix01").usable
    assert node(state, "mix01").reason == ""


def test_who_waits_for_what(state: ClusterState, busy: tuple[ReferenceSite, list[str]]) -> None:
    waiting = [job for job in state.pending if job.job_id.split("_")[0] == busy[1][2]]
    assert sum(job.nodes for job in waiting) == 3
    assert all(job.queued and job.priority > 0 for job in waiting)
    assert all("gpu:a100:1" in job.tres_per_node for job in waiting)
    assert all("compute:8" in job.tres_per_node for job in waiting)
    assert len(state.pending) == len(waiting)


def test_partitions(state: ClusterState) -> None:
    default = state.default_partition
    assert default in node(state, "mix01").partitions
    part = next(part for part in state.partitions if part.name == default)
    assert (part.up, part.state, part.exclusive) == (True, "UP", False)
    assert (part.allow_accounts, part.deny_accounts) == (None, frozenset())
    assert part.max_nodes is None


def test_a_reservation(state: ClusterState) -> None:
    (made,) = state.reservations
    assert (made.name, made.nodes, made.whole, made.active) == ("course", "t401", True, True)
    assert node(state, "t401").reservation == "course"
    assert node(state, "mix01").reservation == ""
