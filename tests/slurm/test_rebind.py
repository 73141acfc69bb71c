"""Late binding on a real cluster: waiting jobs move, each beside its device; races; pins."""

from __future__ import annotations

import json

import pytest

from lightcluster.site import ReferenceSite
from tests.slurm.late import (
    NPU,
    busy_site,
    cycle,
    places,
    race,
    running_site,
    show,
    submit,
    switch,
    waiting,
)
from tests.slurm.probe import allocation

pytestmark = pytest.mark.slurm
__all__ = ["busy_site", "running_site"]


def test_sixteen_jobs_run_on_sixteen_idle_npus(site: ReferenceSite) -> None:
    """They waited for one GPU; now every one runs beside a device of its own."""
    jobs = waiting(site, jobs=16)

    planned = cycle(site, "--dry-run")
    assert {row["to"] for row in planned.values()} == {NPU}
    assert all("gpu:a100" in show(site, job)["TresPerNode"] for job in jobs)
    done = cycle(site)
    for job in jobs:
        site.wait_job(job, ["RUNNING"], 30)

    assert {done[job]["to"] for job in jobs} == {NPU}
    assert len(places(site, jobs)) == 16
    fields = show(site, jobs[0])
    assert "gpu" not in fields.get("TresPerNode", "")
    assert fields["CPUs/Task"] == "2"
    record = json.loads(fields["AdminComment"].removeprefix("hpcmgr:"))
    assert (record["moves"], record["from"], record["binding"]["gres"]) == (1, "gpu:a100", NPU)
    told = site.run(["hpcmgr", "explain", jobs[0]], user="alice", check=True).stdout
    assert "moved from gpu:a100" in told


def test_a_job_whose_devices_are_drained_moves_and_comes_back(site: ReferenceSite) -> None:
    """At once, without gain; and back when they return and the others are gone."""
    job = submit(site, "--gres=compute:pool:8", "-H")
    site.run(["scontrol", "update", "NodeName=mix01", "State=DRAIN", "Reason=fan"], check=True)
    switch_back = ["scontrol", "update", "NodeName=mix01", "State=RESUME"]
    try:
        site.run(["scontrol", "update", "NodeName=npu01", "State=RESUME"], check=True)
        others = [submit(site, "-t", "60", "-w", "npu01", "--gres=compute:npu:8") for _ in range(8)]
        site.run(["scontrol", "release", job], check=True)
        for other in others:
            site.wait_job(other, ["RUNNING"], 20)
        site.wait_until(lambda: cycle(site)[job]["to"] == NPU, 20, "the job to move")
    finally:
        site.run(switch_back, check=True)
    assert NPU in str(show(site, job))

    site.run(["scancel", "--name=gpu"], check=True)
    site.run(["scontrol", "update", f"JobId={job}", "TimeLimit=120"], check=True)
    site.wait_until(lambda: cycle(site)[job]["to"] == "gpu:a100", 20, "the job to move back")
    site.wait_job(job, ["RUNNING"], 20)
    [(node, (_, gres))] = allocation(site, job)[0].items()
    assert (node, gres.split("(")[0]) == ("mix01", "gpu:a100:1")


def test_a_pinned_job_stays_until_it_is_unpinned(site: ReferenceSite) -> None:
    """By its comment at submission, by its owner later; nobody else may."""
    [pinned] = waiting(site, "--comment=mine hpcmgr:pin")
    assert cycle(site)[pinned]["why"] == "it is pinned"
    assert '"state":"pinned"' in show(site, pinned)["AdminComment"]

    assert site.run(["hpcmgr", "unpin", pinned], user="bob").returncode == 1
    site.run(["hpcmgr", "unpin", pinned], user="alice", check=True)
    site.run(["hpcmgr", "pin", pinned], user="alice", check=True)
    assert cycle(site)[pinned]["to"] is None
    site.run(["hpcmgr", "unpin", pinned], user="alice", check=True)

    done = cycle(site)[pinned]
    assert done["to"] == NPU, done["why"]
    site.wait_job(pinned, ["RUNNING"], 20)
    assert show(site, pinned)["Comment"] == "mine"


def test_an_array_moves_as_a_whole(site: ReferenceSite) -> None:
    """Its running tasks keep their devices and their record."""
    site.run(["scancel", "-u", "alice", "-w", "mix01"], check=True)
    array = submit(site, "-t", "60", "--array=0-5", "--gres=compute:pool:8")
    site.wait_job(f"{array}_0", ["RUNNING"], 20)
    held = [i for i in range(6) if "RUNNING" in str(show(site, f"{array}_{i}"))]
    switch(site, "RESUME")

    done = cycle(site)
    [spec] = [name for name in done if name.startswith(array)]
    assert done[spec]["to"] == NPU, done[spec]["why"]
    for task in range(6):
        site.wait_job(f"{array}_{task}", ["RUNNING"], 20)

    for task in range(6):
        fields = show(site, f"{array}_{task}")
        binding = json.loads(fields["AdminComment"].removeprefix("hpcmgr:"))["binding"]
        [(_, gres)] = allocation(site, f"{array}_{task}")[0].values()
        assert gres.startswith(f"{binding['gres']}:1(IDX")
        assert (binding["gres"] == "gpu:a100") == (task in held and task == 0)


def test_what_it_leaves_alone(site: ReferenceSite) -> None:
    """A device by name, a class of GPUs only, part of a heterogeneous job, a held job."""
    named = submit(site, "-t", "60", "--gres=gpu:a100:1")
    gpus = submit(site, "-t", "60", "--gres=compute:gpus:8")
    held = submit(site, "-t", "60", "-H", "--gres=compute:pool:8")
    het = submit(site, "-t", "60", "--gres=compute:pool:8", ":", "--gres=compute:pool:8")
    switch(site, "RESUME")

    done = cycle(site)

    assert all(row["to"] is None for row in done.values()), done
    assert "by name" in str(done[named]["why"])
    assert done[gpus]["why"] == "no other device type may serve it"
    assert "something else" in str(done[held]["why"])
    assert any(name.startswith(f"{het}+") for name in done)


STARTED = "it has started or ended"
CHANGED = "it was changed meanwhile"
RACE = "PYTHONPATH=/opt/hpcmgr python3 /opt/hpcmgr/tests/slurm/race.py"
UNTIL_IT_RUNS = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; squeue -hj {job} -t R | grep . && break"
RACES = {
    "cancelled": ("scancel {job}", {"it is gone", STARTED}),
    "held": ("scontrol hold {job}", {"it is held"}),
    "pinned": ("scontrol update JobId={job} Comment=hpcmgr:pin", {CHANGED}),
    "changed by an administrator": ("scontrol update JobId={job} MinMemoryNode=80", {CHANGED}),
    "moved by another service": (f"{RACE} true", {CHANGED, STARTED}),
    "started": (f"scancel -u alice -w mix01; {UNTIL_IT_RUNS}; done", {STARTED}),
}


@pytest.mark.parametrize("what", RACES)
def test_a_job_that_changed_meanwhile_is_left_alone(site: ReferenceSite, what: str) -> None:
    """Decided on what was; right before the update it is looked at again."""
    command, allowed = RACES[what]
    [job] = waiting(site)

    said = race(site, command.format(job=job))

    assert said[job] in allowed
    fields = show(site, job)
    if what != "moved by another service":
        assert "gpu:a100" in fields["TresPerNode"]
        assert '"moves":0' in fields["AdminComment"]
    else:
        assert '"moves":1' in fields["AdminComment"]


def test_slurmctld_restarts_in_between(site: ReferenceSite) -> None:
    """The move waits for it, and happens; a second cycle moves nothing more."""
    [job] = waiting(site, "--begin=now")
    site.stop_daemon("slurmctld")
    away = site.run(["hpcmgr", "rebind"])
    site.start_daemon("slurmctld")

    assert away.returncode == 1
    assert "Traceback" not in away.stderr

    site.wait_until(lambda: cycle(site).get(job, {}).get("to") == NPU
                    or '"moves":1' in show(site, job)["AdminComment"], 30, "the move")  # fmt: skip
    site.wait_job(job, ["RUNNING"], 30)

    assert '"moves":1' in show(site, job)["AdminComment"]


def test_a_requeued_job_keeps_its_record(site: ReferenceSite) -> None:
    """Moved, run, requeued: it waits again for what it was moved to."""
    [job] = waiting(site)
    done = cycle(site)[job]
    assert done["to"] == NPU, done["why"]
    site.wait_job(job, ["RUNNING"], 20)

    site.run(["scontrol", "requeue", job], check=True)
    site.wait_job(job, ["PENDING"], 30)

    assert cycle(site)[job]["to"] is None
    assert '"moves":1' in show(site, job)["AdminComment"]


def test_a_second_service_refuses_to_start(site: ReferenceSite) -> None:
    """They share a journal, and would move jobs twice."""
    second = site.run(["hpcmgr", "serve"], user="slurm")

    assert second.returncode == 1
    assert "another service" in second.stderr


def test_with_slurms_own_defaults_for_gpus(site: ReferenceSite) -> None:
    """DefCpuPerGPU knows no NPU: it is written into the job as plain CPUs of a device of any name,
    so the job can move. DefMemPerGPU cannot be kept out of a GPU job: that one stays, and says why.
    """
    set_defaults(site, "DefCpuPerGPU=2\\nDefMemPerCPU=16")
    jobs = waiting(site, jobs=16)
    cycle(site)
    for job in jobs:
        site.wait_job(job, ["RUNNING"], 30)
    assert len(places(site, jobs)) == 16
    assert show(site, jobs[0])["CPUs/Task"] == "2"

    set_defaults(site, "DefCpuPerGPU=2\\nDefMemPerGPU=50")
    [job] = waiting(site)
    site.wait_until(lambda: "gpu:50" in str(show(site, job)), 20, "Slurm to look at it")
    done = cycle(site)[job]
    assert done["to"] is None
    assert "DefMemPerGPU" in str(done["why"])


def set_defaults(site: ReferenceSite, lines: str) -> None:
    """Other defaults in slurm.conf, none in the profiles; then as the fixture leaves it."""
    change = f"s/^Def(Mem|Cpu)Per.*//; s/^DefMem.*//; /^MpiDefault/a {lines}"
    site.run(["sh", "-c", f"sed -Ei '{change}' /etc/slurm/slurm.conf"], check=True)
    site.write_site(profiles={"override": {}})
    site.stop_service()
    site.run(["scancel", "-u", "alice"], check=True)
    # A daemon that stops in between leaves its node completing for minutes.
    site.wait_until(lambda: not site.run(["squeue", "-h"]).stdout, 30, "all jobs to be gone")
    site.run(["scontrol", "update", "NodeName=npu01,npu02", "State=RESUME"])
    site.restart_slurm()
    site.start_service()
    site.close_breaker()
    hold = ["-t", "120", "--mem=10", "-w", "mix01"]
    holders = [submit(site, *hold, "--gres=compute:gpus:8"),
               *(submit(site, *hold, "--gres=compute:npu:8") for _ in range(2))]  # fmt: skip
    for job in holders:
        site.wait_job(job, ["RUNNING"], 20)
    switch(site, "DRAIN")
