"""The service is down, hangs or lies: nothing is lost, nothing runs without a device, slurmctld
does not wait."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lightcluster.enter import Spawned
from lightcluster.site import SOCKET, ReferenceSite
from tests.slurm.probe import allocation

pytestmark = pytest.mark.slurm

SLEEP = "--wrap=sleep 60"


@pytest.fixture(name="away")
def _away(site: ReferenceSite) -> Iterator[ReferenceSite]:
    """The site without its service; the shim's breaker is closed again."""
    site.stop_service()
    site.close_breaker()
    yield site
    site.run(["scancel", "-u", "alice"])


def submit(site: ReferenceSite, *options: str) -> tuple[str, str]:
    done = site.run(["sbatch", "--parsable", *options], user="alice", check=True)
    return done.stdout.strip(), done.stderr


def show(site: ReferenceSite, job_id: str) -> dict[str, str]:
    return allocation(site, job_id)[1]


@contextmanager
def fake(site: ReferenceSite, mode: str) -> Iterator[Spawned]:
    """A misbehaving service on the socket."""
    script = "/opt/hpcmgr/tests/slurm/fake_service.py"
    service = site.spawn(["python3", script, SOCKET, mode], user="slurm", log=f"fake-{mode}.log")
    try:
        site.wait_until(lambda: "listening" in service.log, 10, "the fake service")
        yield service
    finally:
        service.stop()
        site.run(["rm", "-f", SOCKET])


def test_a_request_waits_unbound_and_cannot_run_even_when_released(away: ReferenceSite) -> None:
    """Held with a type no node has; root releases it: it goes nowhere; its user may not."""
    job_id, said = submit(away, "--gres=compute:8", SLEEP)
    held = show(away, job_id)

    assert "do not resubmit" in said.lower() or "not submit it again" in said.lower(), said
    assert held["TresPerNode"] == "gres/compute:unbound:8"
    assert held["Priority"] == "0"
    refused = away.run(["scontrol", "release", job_id], user="alice")
    assert refused.returncode != 0
    away.run(["scontrol", "release", job_id], check=True)
    away.wait_until(
        lambda: show(away, job_id)["Reason"] == "BadConstraints", 20, "the job to be impossible"
    )
    assert show(away, job_id)["JobState"] == "PENDING"


@pytest.mark.parametrize("options", [[], ["--array=0-1"], ["-n2"], ["-N1", "--exclusive"]])
def test_it_is_bound_and_runs_when_the_service_is_back(
    away: ReferenceSite, options: list[str]
) -> None:
    """Batch and arrays: the same request, now real devices and units."""
    job_id, _ = submit(away, "--gres=compute:npu:8", *options, SLEEP)
    first = f"{job_id}_0" if "--array=0-1" in options else job_id
    assert show(away, job_id)["JobState"] == "PENDING"

    away.start_service()
    away.wait_job(first, ["RUNNING"], 30)

    nodes, fields = allocation(away, first)
    assert all("npu:ascend910b3:" in gres and "IDX" in gres for _, gres in nodes.values())
    assert fields["TresPerNode"] == "gres/npu:ascend910b3:1,gres/compute:8,gres/vram:64"
    assert '"state":"bound"' in fields["AdminComment"]


def test_a_request_per_task_is_bound_per_task(away: ReferenceSite) -> None:
    """Held by node with its mark, bound by task without it, where the release can carry it."""
    if away.release == "24.11":
        pytest.skip("Slurm 24.11 loses units per task; such a request is refused")
    job_id, _ = submit(away, "--tres-per-task=gres/compute:npu:8", "-n2", "-N1", SLEEP)

    away.start_service()
    away.wait_job(job_id, ["RUNNING"], 30)

    [(_, gres)] = allocation(away, job_id)[0].values()
    assert "npu:ascend910b3:2(IDX:" in gres
    assert "compute(CNT:16)" in gres


def test_an_srun_waits_and_then_runs(away: ReferenceSite) -> None:
    """The client stays connected; its step gets the device."""
    waiting = away.spawn(
        ["srun", "--gres=compute:npu:8", "sh", "-c", "echo $HPCMGR_GRES"], user="alice", log="w.log"
    )

    def queue() -> str:
        return away.run(["squeue", "-h", "-O", "tres-per-node:80"]).stdout

    away.wait_until(lambda: "unbound" in queue(), 20, "the srun to be held")

    away.start_service()
    away.wait_until(lambda: not waiting.alive, 40, "the srun to end")

    assert "npu:ascend910b3" in waiting.log


def test_a_job_that_its_user_held_stays_held(away: ReferenceSite) -> None:
    """sbatch -H: bound, but not released over the user's head."""
    job_id, _ = submit(away, "-H", "--gres=compute:8", SLEEP)

    away.start_service()
    away.wait_until(
        lambda: "gpu:a100" in show(away, job_id)["TresPerNode"], 30, "the job to be bound"
    )

    assert show(away, job_id)["Priority"] == "0"
    assert away.run(["scontrol", "release", job_id], user="alice").returncode == 0
    away.wait_job(job_id, ["RUNNING"], 20)


def test_what_cannot_be_bound_stays_held_and_says_why(away: ReferenceSite) -> None:
    """A selector that nothing has: not lost, the reason is in the journal."""
    job_id, _ = submit(away, "--gres=compute:nonsense:8", SLEEP)

    service = away.start_service()
    away.wait_until(lambda: f"job {job_id} stays held" in service.log, 30, "the reason to be told")

    assert show(away, job_id)["TresPerNode"] == "gres/compute:unbound:8"
    assert away.service is not None
    assert away.service.alive


@pytest.mark.parametrize("count", ["0", "-8", "2.5"])
def test_a_count_that_can_never_be_meant_is_refused_at_once(
    away: ReferenceSite, count: str
) -> None:
    """The shim itself knows this much."""
    done = away.run(["sbatch", f"--gres=compute:{count}", SLEEP], user="alice")

    assert done.returncode != 0
    assert "compute" in done.stderr


def test_a_direct_request_and_a_cpu_job_pass(away: ReferenceSite) -> None:
    """They need nobody: real devices, or none."""
    direct, _ = submit(away, "--gres=gpu:t4:1", SLEEP)
    plain, _ = submit(away, SLEEP)

    away.wait_job(direct, ["RUNNING"], 20)
    away.wait_job(plain, ["RUNNING"], 20)


@pytest.mark.parametrize("mode", ["garbage", "half", "version", "outside", "wrongtype", "closed",
                                  "huge"])  # fmt: skip
def test_a_wrong_answer_holds_the_job(away: ReferenceSite, mode: str) -> None:
    """Nothing of a wrong answer is applied, not even its good half."""
    with fake(away, mode):
        job_id, _ = submit(away, "--gres=compute:8", SLEEP)
        held = show(away, job_id)

    assert held["TresPerNode"] == "gres/compute:unbound:8"
    assert held["UserId"].startswith("alice(")


@pytest.mark.parametrize("mode", ["hang", "trickle"])
def test_a_hanging_service_is_given_up_within_the_limit_and_not_asked_again(
    away: ReferenceSite, mode: str
) -> None:
    """The shim closes the connection; the breaker keeps the next submissions away from it."""
    with fake(away, mode) as service:
        for _ in range(5):
            submit(away, "--gres=compute:8", SLEEP)
        away.wait_until(lambda: "closed_after" in service.log, 10, "the connection to be closed")
        lines = [json.loads(line) for line in service.log.splitlines() if line.startswith("{")]

    assert sum("asked" in line for line in lines) == 1
    # The limit is 200 ms here; the margin is for a busy machine.
    assert max(line.get("closed_after", 0) for line in lines) < 0.7


def test_users_cannot_edit_what_is_managed(site: ReferenceSite) -> None:
    """GRES, features and admin_comment are the service's; the time limit is the user's own."""
    site.run(["scontrol", "update", "PartitionName=main", "State=DOWN"], check=True)
    try:
        job_id, _ = submit(site, "--gres=compute:8", SLEEP)

        for edit in ("TresPerNode=gres/gpu:a100:4", "Gres=npu:ascend910b3:1", "Features=t4",
                     "AdminComment=hpcmgr:{}"):  # fmt: skip
            done = site.run(["scontrol", "update", f"JobId={job_id}", edit], user="alice")
            assert done.returncode != 0, edit
        limit = ["scontrol", "update", f"JobId={job_id}", "TimeLimit=5"]
        assert site.run(limit, user="alice").returncode == 0
        # Nodes to leave out are the user's own until hpcmgr has added some.
        exclude = ["scontrol", "update", f"JobId={job_id}", "ExcNodeList=t401"]
        assert site.run(exclude, user="alice").returncode == 0
        added = ["scontrol", "update", f"JobId={job_id}", 'AdminComment=hpcmgr:{"avoids":true}']
        site.run(added, check=True)
        exclude[-1] = "ExcNodeList="
        assert "managed by hpcmgr" in site.run(exclude, user="alice").stderr
        assert show(site, job_id)["ExcNodeList"] == "t401"
        assert show(site, job_id)["TresPerNode"].startswith("gres/gpu:a100:1,")
    finally:
        site.run(["scontrol", "update", "PartitionName=main", "State=UP"], check=True)


def test_a_neutral_request_cannot_be_slipped_in_by_an_update(site: ReferenceSite) -> None:
    """compute:8 by scontrol update would run without a device: it is vetoed."""
    job_id, _ = submit(site, "-H", SLEEP)

    done = site.run(["scontrol", "update", f"JobId={job_id}", "Gres=compute:8"], user="alice")

    assert done.returncode != 0


def test_the_socket_is_closed_to_users(site: ReferenceSite) -> None:
    """Only its owner, SlurmUser, may speak to it."""
    script = f"import socket;socket.socket(socket.AF_UNIX).connect('{SOCKET}')"
    done = site.run(["python3", "-c", script], user="alice")

    assert "PermissionError" in done.stderr


def test_a_second_service_is_refused(site: ReferenceSite) -> None:
    """Two services would bind jobs twice; the first lives on."""
    done = site.run(["hpcmgr", "serve"], user="slurm", timeout=20)

    assert done.returncode == 1
    assert "another service" in done.stderr
    assert "Traceback" not in done.stderr
    assert site.service is not None
    assert site.service.alive


def test_a_service_without_slurm_holds_and_recovers(site: ReferenceSite) -> None:
    """slurmctld restarted: the service says once that it cannot read, and goes on afterwards."""
    site.restart_daemon("slurmctld")
    site.wait_nodes_idle()
    job_id, _ = submit(site, "--gres=compute:8", SLEEP)

    site.wait_job(job_id, ["RUNNING"], 30)
