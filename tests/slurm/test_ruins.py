"""What would ruin a site, by name: a device in two jobs, a neutral job that runs without a device,
slurmctld that waits for us. (A neighbour's job killed by an apply: test_apply.py.)"""

from __future__ import annotations

import random
import time

import pytest

from lightcluster.site import SOCKET, ReferenceSite
from tests.slurm.probe import cpu_ids

pytestmark = pytest.mark.slurm

REQUESTS = (
    "compute:8", "compute:1", "compute:cuda:1", "compute:npu:8", "compute:npu:16", "compute:12",
    "compute:t4:4", "compute:8,vram:100", "vram:40", "gpu:t4:1", "npu:ascend910b3:1",
    "compute:infer:8", "compute:cann:3",
)  # fmt: skip
TELL = r"""#!/bin/sh
sleep 1
echo "$SLURM_JOB_ID $SLURMD_NODENAME ${HPCMGR_DEVICES:-none}" >>/shared/out/ran
"""


def submit_many(site: ReferenceSite, rng: random.Random, jobs: int) -> tuple[list[str], int]:
    """Submit as alice and bob; returns ids, and how many were refused."""
    ids, refused = [], 0
    for _ in range(jobs):
        options = [f"--gres={rng.choice(REQUESTS)}", "-o", "/dev/null"]
        options += rng.choice([[], [], ["-n2"], ["-c2"], ["--ntasks-per-node=2"], ["--array=0-1"]])
        done = site.run(
            ["sbatch", "--parsable", *options], user=rng.choice(["alice", "bob"]), input=TELL
        )
        if done.returncode == 0:
            ids.append(done.stdout.strip())
        else:
            refused += 1
    return ids, refused


def held_devices(site: ReferenceSite) -> list[tuple[str, str, int]]:
    """(node, GRES, index) of every device that a running job holds."""
    held = []
    text = site.run(["scontrol", "show", "job", "-d"]).stdout
    for block in text.split("\n\n"):
        if "JobState=RUNNING" not in block:
            continue
        for line in block.splitlines():
            words = dict(w.split("=", 1) for w in line.split() if "=" in w)
            if "GRES" not in words or "CPU_IDs" not in words:
                continue
            for node in site.run(["scontrol", "show", "hostnames", words["Nodes"]]).stdout.split():
                for entry in words["GRES"].split("),"):
                    name, _, indices = entry.partition("(IDX:")
                    held += [(node, name.rsplit(":", 1)[0], i) for i in cpu_ids(indices)]
    return held


def test_a_device_is_never_in_two_jobs(site: ReferenceSite) -> None:
    """A crowd of mixed requests: at every look each device has one job at most."""
    site.run(["sh", "-c", "rm -f /shared/out/ran; install -m 666 /dev/null /shared/out/ran"])
    ids, _ = submit_many(site, random.Random(1), 40)
    looks = 0

    def all_done() -> bool:
        nonlocal looks
        held = held_devices(site)
        assert len(held) == len(set(held)), sorted(held)
        looks += 1
        return site.run(["squeue", "-h", "-t", "PD,R,CG"]).stdout == ""

    site.wait_until(all_done, 120, "the crowd to be through")

    assert looks > 3
    assert len(ids) == 40


def test_a_neutral_job_never_runs_without_a_device(site: ReferenceSite) -> None:
    """The service comes and goes, hangs and lies while jobs come in: each job that ran held a
    device, none is lost, none is left unbound."""
    rng = random.Random(2)
    site.run(["sh", "-c", "rm -f /shared/out/ran; install -m 666 /dev/null /shared/out/ran"])
    ids: list[str] = []
    for mode in ("up", "down", "garbage", "hang", "up", "outside"):
        if mode == "up":
            if site.service is None or not site.service.alive:
                site.start_service()
        elif mode == "down":
            site.stop_service()
        else:
            site.stop_service()
            script = "/opt/hpcmgr/tests/slurm/fake_service.py"
            fake = site.spawn(["python3", script, SOCKET, mode], user="slurm", log=f"f-{mode}.log")
            site.wait_until(lambda f=fake: "listening" in f.log, 10, "the fake service")  # type: ignore[misc]
            site.close_breaker()
        ids += submit_many(site, rng, 6)[0]
        if mode not in {"up", "down"}:
            fake.stop()
            site.run(["rm", "-f", SOCKET])
    site.start_service()
    site.wait_until(
        lambda: site.run(["squeue", "-h", "-t", "PD,R,CG"]).stdout == "", 120, "all jobs to end"
    )

    lines = [line.split() for line in site.run(["cat", "/shared/out/ran"]).stdout.splitlines()]
    assert len(ids) == 36
    assert len(lines) >= len(ids)  # arrays tell twice
    assert all(devices != "none" for _, _, devices in lines), lines


def test_slurmctld_does_not_wait_for_us(site: ReferenceSite) -> None:
    """A service that hangs: twenty submissions together wait for one time limit, not for twenty,
    and other requests are answered meanwhile."""
    site.stop_service()
    script = "/opt/hpcmgr/tests/slurm/fake_service.py"
    fake = site.spawn(["python3", script, SOCKET, "hang"], user="slurm", log="f-ruin.log")
    try:
        site.wait_until(lambda: "listening" in fake.log, 10, "the fake service")
        site.close_breaker()
        started = time.monotonic()
        sbatch = ["sbatch", "--gres=compute:8", "--wrap=sleep 30"]
        clients = [site.spawn(sbatch, user="alice", log=f"c{i}.log") for i in range(20)]
        assert site.run(["sinfo"], timeout=10).returncode == 0
        site.wait_until(lambda: not any(c.alive for c in clients), 20, "all to be submitted")
        spent = time.monotonic() - started
        asked = fake.log.count("asked")
    finally:
        fake.stop()
        site.run(["rm", "-f", SOCKET])

    assert asked == 1
    # Twenty waits of a hanging socket would be far more; the margin is for a busy machine.
    assert spent < 10
    assert len(site.run(["squeue", "-h"]).stdout.splitlines()) == 20
