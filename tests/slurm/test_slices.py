"""Slices and shares on a real Slurm: MIG, vNPU, shards of T4s."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

import pytest

from hpcmgr.discovery import discover, open_host
from hpcmgr.plan import make_plan
from hpcmgr.profile import load_library
from hpcmgr.settings import Site
from lightcluster.site import HOSTS, ReferenceSite
from lightcluster.testing import require
from tests.slurm.probe import expand_files, indices, parse, run_job, submit

RELEASES = os.environ.get("HPCMGR_SLURM", "24.11,26.05").split(",")
MACHINES = {"mig01": "mig4", "vnpu01": "vnpu2", "t401": "t4x4"}
SHARING = {"t4": {"shard": 4}}
SITE = {"sharing": SHARING, "classes": {"small": {"slices": True, "kinds": ["gpu"]}}}
INVENTORY = "/shared/hpcmgr/inventory/mig01.json"

pytestmark = pytest.mark.slurm


@pytest.fixture(name="running", scope="module", params=RELEASES)
def _running(request: pytest.FixtureRequest) -> Iterator[ReferenceSite]:
    require()
    site = ReferenceSite(request.param, MACHINES, site=SITE)
    try:
        site.start()
        site.run(["install", "-d", "-m", "1777", "/shared/out"], check=True)
        yield site
    finally:
        site.stop()


@pytest.fixture(name="site")
def _site(running: ReferenceSite) -> ReferenceSite:
    running.reset()
    return running


def caps(*numbers: int) -> set[str]:
    return {f"/dev/nvidia-caps/nvidia-cap{n}" for n in numbers}


SLICES = {
    "MIG-2f1c06b8-4d5e-5a93-b7c1-08e6a94d3f21": {"/dev/nvidia1", *caps(201, 202)},
    "MIG-93b7e5d0-1a68-5c42-8f09-6d21c7b5e0a4": {"/dev/nvidia1", *caps(210, 211)},
    "MIG-c84a1f37-6e02-5d8b-95e3-f1b07a62d9c8": {"/dev/nvidia1", *caps(165, 166)},
    "MIG-07d6e9a5-8b34-5f10-a2c7-43e8905bd16f": {"/dev/nvidia1", *caps(156, 157)},
}
"""uuid → files, of GPU 0 of mig4."""

UNLISTED = {"/dev/nvidia3", "/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-caps/nvidia-cap2"}
"""In no record of gres.conf: Slurm does not guard them."""


@pytest.mark.parametrize("node", MACHINES)
def test_slurmd_counts_what_was_planned(site: ReferenceSite, node: str) -> None:
    """Not one error line; the same types, counts and files, in the same order."""
    said = site.node(node).run(["slurmd", "-G", "-N", node])
    text = said.stdout + said.stderr
    found = discover(open_host(HOSTS / MACHINES[node]), load_library())
    plan = make_plan([found], load_library(), Site.model_validate({"sharing": SHARING})).nodes[0]
    records = re.findall(r"Gres Name=(\S+) Type=(\S+) Count=(\d+)(?: .*?File=(\S+))?", text)

    assert said.returncode == 0
    assert not re.search(r"\b(error|fatal)\b", text, re.IGNORECASE), text
    devices = [
        (name, type_, file)
        for name, type_, _, files in records
        if name in ("gpu", "npu")
        for file in expand_files(files)
    ]
    assert devices == [
        (d.profile.gres.name, d.profile.gres.type, ",".join(d.files)) for d in plan.devices
    ]
    counts: dict[str, int] = {}
    for name, type_, count, _ in records:
        key = f"{name}:{type_}" if name in ("gpu", "npu") else name
        counts[key] = counts.get(key, 0) + int(count)
    assert counts == dict(plan.gres)
    shown = site.run(["scontrol", "-o", "show", "node", node]).stdout
    assert " State=IDLE " in shown
    assert "Reason=" not in shown


def test_a_job_with_a_slice_opens_its_own_files_only(site: ReferenceSite) -> None:
    """The units are booked beside it, the variable is its uuid."""
    job = run_job(site, "-n1", "--gres=gpu:a100_1g.10gb:1")
    seen = job.steps["batch"]
    uuid = seen.env["CUDA_VISIBLE_DEVICES"]

    assert job.fields["TresPerNode"] == "gres/gpu:a100_1g.10gb:1,gres/compute:1,gres/vram:10"
    assert set(seen.open) - UNLISTED == SLICES[uuid]
    assert set(seen.env["HPCMGR_DEVICES"].split(",")) == SLICES[uuid]
    assert seen.env["HPCMGR_PROFILE"] == "a100-80g-1g.10gb"
    assert {"/dev/nvidia0", "/dev/nvidia2"} <= set(seen.refused)


def test_two_jobs_on_two_slices_of_one_gpu(site: ReferenceSite) -> None:
    """They share the GPU's own node and nothing else."""
    ids = [submit(site, "-n1", "--gres=gpu:a100_1g.10gb:1").split("\n")[0] for _ in range(2)]
    seen = []
    for job in ids:
        site.wait_job(job, ["RUNNING"], 20)
        output = f"/shared/out/{job}_4294967294"
        site.wait_until(
            lambda o=output: "ready" in site.run(["cat", o]).stdout, 20, "the job to look"
        )  # type: ignore[misc]
        seen.append(parse(site.run(["cat", output]).stdout)["batch"])
    first, second = (set(s.open) - UNLISTED for s in seen)

    assert first & second == {"/dev/nvidia1"}
    assert {s.env["CUDA_VISIBLE_DEVICES"] for s in seen} == set(list(SLICES)[:2])
    third = submit(site, "-n1", "--gres=gpu:a100_1g.10gb:1").split("\n")[0]
    assert site.run(["squeue", "-h", "-j", third, "-o", "%T"]).stdout.strip() == "PENDING"


def test_steps_see_their_own_slice(site: ReferenceSite) -> None:
    """A job of two slices, two steps of one."""
    body = (
        "for n in 1 2; do srun -n1 --exact --gres=gpu:a100_1g.10gb:1 "
        "sh -c 'echo step$0 env CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES; sleep 2' $n & "
        "done; wait"
    )
    job = run_job(site, "-n2", "--gres=gpu:a100_1g.10gb:2", body=body)
    given = {job.steps[f"step{n}"].env["CUDA_VISIBLE_DEVICES"] for n in (1, 2)}

    assert given == set(list(SLICES)[:2])
    assert set(job.steps["batch"].env["CUDA_VISIBLE_DEVICES"].split(",")) == given


def test_a_whole_gpu_beside_slices(site: ReferenceSite) -> None:
    """It is alone in its job's view; its variable is set although slices have theirs."""
    job = run_job(site, "-n1", "--gres=gpu:a100:1")
    seen = job.steps["batch"]

    assert set(seen.open) - UNLISTED == {"/dev/nvidia0"}
    assert seen.env["CUDA_VISIBLE_DEVICES"] == "0"
    assert job.fields["TresPerNode"] == "gres/gpu:a100:1,gres/compute:8,gres/vram:80"


def test_a_neutral_request_gets_a_slice_where_its_class_allows(site: ReferenceSite) -> None:
    """And a whole device where it does not."""
    site.wait_picture()  # or slices of the test before look taken
    small = run_job(site, "-n1", "--gres=compute:small:1")
    whole = run_job(site, "-n1", "--gres=compute:cuda:1")
    none = site.run(["sbatch", "--gres=compute:a100_1g.10gb:1", "--wrap=true"], user="alice")

    assert small.fields["TresPerNode"].startswith("gres/gpu:a100_1g.10gb:1,gres/compute:1")
    assert small.steps["batch"].env["CUDA_VISIBLE_DEVICES"] in SLICES
    assert whole.fields["TresPerNode"].startswith("gres/gpu:t4:1,")
    assert none.returncode != 0
    assert "whole devices only" in none.stderr


def test_a_job_with_a_vnpu_opens_its_own_node_only(site: ReferenceSite) -> None:
    """And the container runtime is told its number."""
    job = run_job(site, "-n1", "--gres=npu:ascend910b3_vir05_1c_16g:1")
    seen = job.steps["batch"]
    number = seen.env["ASCEND_VISIBLE_DEVICES"]

    assert number in ("100", "101")
    # The cut NPU's own node is in no record: Slurm does not guard it.
    assert set(seen.open) - {"/dev/davinci0"} == {f"/dev/vdavinci{number}"}
    assert {"/dev/davinci1", "/dev/vdavinci102"} <= set(seen.refused)
    assert "ASCEND_RT_VISIBLE_DEVICES" not in seen.env
    assert job.fields["TresPerNode"].endswith("gres/compute:2,gres/vram:16")


def test_four_jobs_share_a_device(site: ReferenceSite) -> None:
    """Sixteen jobs with a share each run at once, four on every device; each opens its own only."""
    job, _, _ = submit(site, "-n1", "--array=0-15", "--gres=shard:1").partition("\n")
    outputs = [f"/shared/out/{job}_{task}" for task in range(16)]
    site.wait_until(
        lambda: site.run(["cat", *outputs]).stdout.count("ready") == 16, 60, "the jobs to look"
    )
    opened: list[str] = []
    for output in outputs:
        seen = parse(site.run(["cat", output]).stdout)["batch"]
        own = [file for file in seen.open if file.startswith("/dev/nvidia")]
        assert own == seen.env["HPCMGR_DEVICES"].split(",")
        assert seen.env["CUDA_VISIBLE_DEVICES"] == "0"
        opened += own

    assert {file: opened.count(file) for file in opened} == {f"/dev/nvidia{n}": 4 for n in range(4)}
    whole = submit(site, "-n1", "--gres=gpu:t4:1").split("\n")[0]
    assert site.run(["squeue", "-h", "-j", whole, "-o", "%T"]).stdout.strip() == "PENDING"


def test_a_device_with_shares_in_use_is_not_given_whole(site: ReferenceSite) -> None:
    """Three of four T4 are free; a job for four waits."""
    shared = run_with(site, "--gres=shard:1")
    whole = run_job(site, "-n1", "--gres=gpu:t4:3")
    four = submit(site, "-n1", "--gres=gpu:t4:4").split("\n")[0]

    assert len(shared) == 1
    assert len(shared | set(whole.steps["batch"].open)) == 4
    assert site.run(["squeue", "-h", "-j", four, "-o", "%T"]).stdout.strip() == "PENDING"


def run_with(site: ReferenceSite, *options: str) -> set[str]:
    """A job that goes on running; what it opened."""
    job = submit(site, "-n1", *options).split("\n")[0]
    output = f"/shared/out/{job}_4294967294"
    site.wait_job(job, ["RUNNING"], 20)
    site.wait_until(lambda: "ready" in site.run(["cat", output]).stdout, 20, "the job to look")
    return set(parse(site.run(["cat", output]).stdout)["batch"].open)


def test_a_neutral_request_knows_which_devices_are_shared(site: ReferenceSite) -> None:
    """Capacity, too: a T4 with a share in use is not free."""
    job = submit(site, "-n1", "--gres=shard:1").split("\n")[0]
    site.wait_job(job, ["RUNNING"], 20)
    told = json.loads(site.run(["hpcmgr", "capacity", "--json"], check=True).stdout)
    by_type = {t["gres"]: t["devices"] for t in told["types"]}

    assert (by_type["gpu:t4"]["total"], by_type["gpu:t4"]["free"]) == (4, 3)
    assert by_type["gpu:a100_1g.10gb"]["free"] == 2
    assert by_type["npu:ascend910b3_vir10_3c_32g"]["total"] == 1


def test_capacity_counts_slices_and_shared_devices(site: ReferenceSite) -> None:
    """Names with dots and underscores; a device of which somebody has a share is in use, once."""
    for options in (
        ["--gres=gpu:a100_1g.10gb:1"],
        ["--gres=shard:1"],
        ["--gres=shard:2"],
        ["--gres=npu:ascend910b3_vir05_1c_16g:1"],
    ):
        job = submit(site, "-n1", *options).partition("\n")[0]
        site.wait_job(job, ["RUNNING"], 20)

    said = site.run(["hpcmgr", "capacity", "--json"], check=True).stdout
    figures = {
        row["gres"]: (row["devices"]["total"], row["devices"]["used"], row["devices"]["free"])
        for row in json.loads(said)["types"]
    }
    used = site.run(["scontrol", "-d", "show", "node", "t401"]).stdout
    shares = re.search(r"shard:t4:\d+\(([^)]*)\)", used.partition("GresUsed=")[2])
    assert shares is not None
    shared = sum(not part.startswith("0/") for part in shares[1].split(","))

    assert figures["gpu:a100_1g.10gb"] == (2, 1, 1)
    assert figures["gpu:a100_3g.40gb"] == (3, 0, 3)
    assert figures["npu:ascend910b3_vir05_1c_16g"] == (2, 1, 1)
    assert figures["gpu:t4"] == (4, shared, 4 - shared)


def test_a_gpu_is_not_cut_anew_under_a_running_job(site: ReferenceSite) -> None:
    """Facts 19 and 20: other slices are other positions; the node keeps its lines until the job on
    another slice is gone."""
    before = site.run(["cat", INVENTORY], check=True).stdout
    job = submit(site, "-n1", "--gres=gpu:a100_3g.40gb:1").split("\n")[0]
    site.wait_job(job, ["RUNNING"], 20)
    held = indices(re.search(r" GRES=(\S*)", _details(site, job))[1], "gpu:a100_3g.40gb")  # type: ignore[index]
    found = json.loads(before)
    found["devices"][0]["slices"] = found["devices"][0]["slices"][2:]  # both 1g are gone
    try:
        site.controller.write(INVENTORY, json.dumps(found))
        said = site.run(["hpcmgr", "apply", "--yes"])
        conf = site.run(["cat", "/etc/slurm/gres.conf"]).stdout

        assert "mig01 waits (its devices would move)" in said.stdout + said.stderr
        assert "nvidia-cap211" in conf
        assert site.run(["squeue", "-h", "-j", job, "-o", "%T"]).stdout.strip() == "RUNNING"
        assert held == indices(
            re.search(r" GRES=(\S*)", _details(site, job))[1], "gpu:a100_3g.40gb"
        )  # type: ignore[index]

        site.run(["scancel", job], check=True)
        site.wait_until(lambda: not site.run(["squeue", "-h"]).stdout, 20, "the job to end")
        site.run(["hpcmgr", "apply", "--yes"], check=True)
        assert "nvidia-cap211" not in site.run(["cat", "/etc/slurm/gres.conf"]).stdout
    finally:
        site.controller.write(INVENTORY, before)
        site.run(["hpcmgr", "apply", "--yes"])


def _details(site: ReferenceSite, job: str) -> str:
    return site.run(["scontrol", "show", "job", "-d", job], check=True).stdout
