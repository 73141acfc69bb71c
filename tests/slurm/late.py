"""A site for late binding: every GPU is held, NPUs come back when a test wants them to."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lightcluster.site import ReferenceSite
from lightcluster.testing import require
from tests.slurm.conftest import RELEASES
from tests.slurm.probe import allocation, cpu_ids, indices

MACHINES = {"mix01": "mixed", "npu01": "npu8", "npu02": "npu8"}
NPU = "npu:ascend910b3"
RULES = {
    "rebind": {"enabled": False, "settle": 0},
    "profiles": {"override": {
        "a100-80g": {"units": 9, "cpus_per_device": 4, "mem_per_device_mib": 96},
        "ascend910b3": {"cpus_per_device": 2, "mem_per_device_mib": 64},
        "t4": {"cpus_per_device": 2, "mem_per_device_mib": 32},
    }},
    "classes": {"pool": {"prefer": ["gpu"]}, "gpus": {"kinds": ["gpu"]}},
    # At submission preference alone decides: the expected end would choose NPUs at once.
    "score": {"finish": 0},
}  # fmt: skip
SLEEP = "--wrap=sleep 120"


@pytest.fixture(scope="module", params=RELEASES, name="running")
def running_site(request: pytest.FixtureRequest) -> Iterator[ReferenceSite]:
    """One A100 and 18 NPUs. Moves are made only when a test asks for a cycle."""
    require()
    site = ReferenceSite(request.param, MACHINES, accounting=True, site=RULES)
    try:
        site.start()
        yield site
    finally:
        site.stop()


@pytest.fixture(name="site")
def busy_site(running: ReferenceSite) -> ReferenceSite:
    """All devices of mix01 are held for two hours, the other NPUs are drained."""
    running.reset()
    # A new one, which has not learnt that the jobs of these tests end after seconds.
    running.stop_service()
    running.start_service()
    running.close_breaker()
    hold = ["-J", "gpu", "--gres=compute:gpus:8"], *[["-w", "mix01", "--gres=compute:npu:8"]] * 2
    holders = [submit(running, "-t", "120", *options) for options in hold]
    for job in holders:
        running.wait_job(job, ["RUNNING"], 20)
    switch(running, "DRAIN")
    return running


def switch(site: ReferenceSite, state: str) -> None:
    """Drain or resume the NPU nodes, and wait until the service has seen it."""
    site.run(["scontrol", "update", "NodeName=npu01,npu02", f"State={state}", "Reason=test"],
             check=True)  # fmt: skip
    drained = state == "DRAIN"

    def seen() -> bool:
        said = site.run(["hpcmgr", "quote", "compute:npu:8", "--json"]).stdout
        return json.loads(said)["candidates"][0]["nodes"] == (1 if drained else 3)

    site.wait_until(seen, 20, f"the service to see {state}")


def submit(site: ReferenceSite, *options: str, user: str = "alice") -> str:
    argv = ["sbatch", "--parsable", "-o", "/dev/null", *options, SLEEP]
    return site.run(argv, user=user, check=True).stdout.strip()


def waiting(site: ReferenceSite, *options: str, jobs: int = 1) -> list[str]:
    """Jobs that wait for the A100, though NPUs would serve too; then the NPUs come back."""
    ids = [submit(site, "-t", "60", "--gres=compute:pool:8", *options) for _ in range(jobs)]
    for job in ids:  # on a busy machine some were held first
        site.wait_until(lambda job=job: "gpu:a100" in str(show(site, job)), 20, "it to be bound")
    switch(site, "RESUME")
    return ids


def show(site: ReferenceSite, job: str) -> dict[str, str]:
    return allocation(site, job)[1]


def cycle(site: ReferenceSite, *options: str) -> dict[str, dict[str, object]]:
    said = site.run(["hpcmgr", "rebind", "--json", *options], check=True).stdout
    return {row["job"]: row for row in json.loads(said)["jobs"]}


def race(site: ReferenceSite, command: str) -> dict[str, str]:
    """Decide, let the command happen, then move."""
    script = "/opt/hpcmgr/tests/slurm/race.py"
    said = site.run(
        ["env", "PYTHONPATH=/opt/hpcmgr", "python3", script, command], user="slurm", check=True
    ).stdout
    moved: dict[str, str] = json.loads(said)
    return moved


def places(site: ReferenceSite, jobs: list[str]) -> set[tuple[str, int]]:
    """Node and number of every NPU that the jobs hold; each must have the cores of its socket."""
    found = set()
    for job in jobs:
        [(node, (cpus, gres))] = allocation(site, job)[0].items()
        assert NPU in gres
        [number] = indices(gres, NPU)
        near = range(8) if number >= 4 else range(8, 16)
        assert cpu_ids(cpus) <= set(near), (job, cpus, gres)
        found.add((node, number))
    return found
