"""Classes on a real Slurm: templates, runtime versions, features, failed devices."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

import pytest

from hpcmgr.slurm.hostlist import members
from lightcluster.site import ReferenceSite
from lightcluster.testing import require
from tests.slurm.conftest import RELEASES
from tests.slurm.probe import LOOK as LOOK_FILE
from tests.slurm.probe import allocation, indices, run_job, sockets, submit

pytestmark = pytest.mark.slurm

# The driver of sxm01 serves CUDA 12.2, that of mix01 12.4.
MACHINES = {"mix01": "mixed", "npu01": "npu8", "sxm01": "a100x8"}
CLASSES = {
    "mixed-train": {"groups": [{"kinds": ["gpu"]}, {"kinds": ["npu"], "devices": 2}]},
    "newer": {"kinds": ["gpu"], "needs": {"cuda": ">=12.4"}},
    "newest": {"kinds": ["gpu"], "needs": {"cuda": ">=13"}},
    "both": {"features": ["nvidia"]},
    "near-gpu": {"kinds": ["gpu"], "topology": "same_socket"},
    "near-npu": {"kinds": ["npu"], "topology": "same_socket"},
    "one-switch": {"kinds": ["npu"], "topology": "same_switch"},
}
FABRIC = {"spine": {"switches": "leaf[1-2]"}, "leaf1": {"nodes": "mix01"},
          "leaf2": {"nodes": "npu01,sxm01"}}  # fmt: skip


@pytest.fixture(name="running", scope="module", params=RELEASES)
def _running(request: pytest.FixtureRequest) -> Iterator[ReferenceSite]:
    require()
    settings = {"classes": CLASSES, "fabric": FABRIC, "service": {"inventory_refresh": 1}}
    with ReferenceSite(request.param, MACHINES, site=settings) as site:
        site.run(["install", "-d", "-m", "1777", "/shared/out"], check=True)
        yield site


@pytest.fixture(name="site")
def _site(running: ReferenceSite) -> ReferenceSite:
    running.reset()
    return running


def refused(site: ReferenceSite, *options: str) -> str:
    done = site.run(["sbatch", "-o", "/dev/null", *options, "--wrap", "true"], user="alice")
    assert done.returncode, done.stdout
    return done.stderr


def test_a_template_has_its_devices_on_one_node_and_nothing_else(site: ReferenceSite) -> None:
    """One GPU and two NPUs: their units booked, each runtime told which are its own."""
    body = f"cat >/tmp/look.$SLURM_JOB_ID <<'END'\n{LOOK_FILE}\nEND\n"
    body += "srun -n1 sh -c '. /tmp/look.$SLURM_JOB_ID; look plain'\n"
    body += "srun -n1 --gres=$HPCMGR_GRES:1 sh -c '. /tmp/look.$SLURM_JOB_ID; look each'\n"
    job = run_job(site, "--gres=compute:mixed-train:1", body=body)
    [(node, (_, gres))] = job.nodes.items()
    batch, plain, each = (job.steps[name] for name in ("batch", "plain", "each"))

    assert "becomes 1 x gpu:a100 + 2 x npu:ascend910b3: 24 units, 208 GiB" in job.said
    assert node == "mix01"
    assert gres == ("gpu:a100:1(IDX:0),npu:ascend910b3:2(IDX:0-1),compute(CNT:24),vram(CNT:208)")
    assert sorted(batch.open) == ["/dev/davinci4", "/dev/davinci5", "/dev/nvidia0"]
    assert not batch.refused
    assert batch.env["CUDA_VISIBLE_DEVICES"] == "0"
    assert batch.env["ASCEND_RT_VISIBLE_DEVICES"] == "0,1"
    assert batch.env["HPCMGR_GRES"] == "gpu:a100,npu:ascend910b3"
    assert batch.env["HPCMGR_RUNTIME"] == "cuda,cann"
    assert job.fields["NumCPUs"] == "8"  # 4 of the A100, 2 of each NPU
    assert plain.open == batch.open
    assert len([file for file in each.open if "davinci" in file]) == 1
    assert "/dev/nvidia0" in each.open


def test_a_template_that_no_node_holds_is_offered_on_one_switch(site: ReferenceSite) -> None:
    """The line in the refusal is one that Slurm takes, and both components run."""
    said = refused(site, "--gres=compute:mixed-train:2")
    told = " ".join(line.removeprefix("sbatch: error: ") for line in said.splitlines())
    found = re.search(r"below switch leaf2 it is: sbatch (.*) SCRIPT", told)
    assert found, told
    components = shlex.split(found[1])
    script = "#!/bin/sh\nsleep 60\n"
    done = site.run(
        ["sbatch", "--parsable", "-o", "/dev/null", *components], user="alice", input=script,
        check=True,
    )  # fmt: skip
    job_id = done.stdout.strip()
    site.wait_job(f"{job_id}+0", ["RUNNING"], 30)
    site.wait_job(f"{job_id}+1", ["RUNNING"], 30)

    where = site.run(["squeue", "-h", "-o", "%N"]).stdout.split()
    assert sorted(where) == ["npu01", "sxm01"]


def test_a_node_whose_driver_is_too_old_is_left_out(site: ReferenceSite) -> None:
    """Both nodes have an A100; Slurm would take either."""
    first = run_job(site, "--gres=compute:newer:8")
    held = submit(site, "--gres=compute:newer:8").split("\n")[0]
    site.wait_job(held, ["RUNNING"], 20)
    waiting = submit(site, "--gres=compute:newer:8").split("\n")[0]
    site.wait_until(
        lambda: "Resources" in site.run(["squeue", "-h", "-j", waiting, "-o", "%r"]).stdout,
        20,
        "the job to wait for mix01",
    )

    assert list(first.nodes) == ["mix01"]
    assert "1 nodes are left out" in first.said
    assert first.fields["ExcNodeList"] == "sxm01"
    assert "driver serves cuda up to 12." in refused(site, "--gres=compute:newest:8")


def test_the_capacity_of_a_class_is_what_a_submission_gets(site: ReferenceSite) -> None:
    """Nodes with old drivers do not count; the largest request of each class starts at once where
    it is said to, and one that is larger does not."""
    done = site.run(["hpcmgr", "capacity", "--by=class", "--json"], user="alice", check=True)
    rows = {row["name"]: row for row in json.loads(done.stdout)["classes"]}

    # Slurm has nine A100; of these one has a driver that serves CUDA 12.4.
    assert {name: rows[name]["devices"]["total"] for name in ("near-gpu", "newer", "newest")} == {
        "near-gpu": 9, "newer": 1, "newest": 0,
    }  # fmt: skip
    assert rows["newest"]["largest"] is None
    assert rows["mixed-train"]["types"] == ["gpu:a100", "npu:ascend910b3"]
    assert rows["mixed-train"]["devices"]["total"] == 3
    for name in set(CLASSES) - {"newest"}:
        largest = rows[name]["largest"]
        job = submit(site, f"--gres={largest['request']}").split("\n")[0]
        site.wait_job(job, ["RUNNING"], 30)
        node = site.run(["squeue", "-h", "-j", job, "-o", "%N"]).stdout.strip()
        assert node in members(largest["nodes"]), name
        site.run(["scancel", job], check=True)
        site.wait_job(job, ["CANCELLED"], 30)
        stem, _, units = largest["request"].rpartition(":")
        assert refused(site, f"--gres={stem}:{int(units) + 1}"), name


@pytest.mark.parametrize(
    ("constraint", "joined"), [("", "nvidia"), ("gpu|npu", "(gpu|npu)&nvidia")]
)
def test_features_of_a_class_are_asked_of_slurm(
    site: ReferenceSite, constraint: str, joined: str
) -> None:
    """The user's constraint and the class's, joined as Slurm takes it."""
    options = [f"--constraint={constraint}"] if constraint else []
    job = run_job(site, "--gres=compute:both:8", *options)

    assert job.fields["Features"] == joined


def test_a_failed_device_is_not_counted(site: ReferenceSite) -> None:
    """All eight are asked: with one failed the job waits, and its user is told for what."""
    path = "/shared/hpcmgr/inventory/sxm01.json"
    good = site.run(["cat", path], check=True).stdout
    bad = good.replace('"state": "ok"', '"state": "failed"', 1)
    assert bad != good
    try:
        site.controller.write(path, bad)
        site.wait_until(
            lambda: "(1 of 8 gpu:a100 failed)" in submit(site, "--gres=compute:a100:64"),
            20,
            "the service to read the inventory and tell the user",
        )
    finally:
        site.controller.write(path, good)


class TestTopology:
    """Devices on one socket, nodes below one switch: on both releases."""

    @pytest.mark.parametrize(("request_", "node"), [("gpu", "sxm01"), ("npu", "npu01")])
    def test_a_job_waits_rather_than_span_two_sockets(
        self, site: ReferenceSite, request_: str, node: str
    ) -> None:
        """Three devices of each socket are taken, one of each is free: two are on no socket."""
        near, one = f"--gres=compute:near-{request_}:16", ["-N1", "-w", node]
        alone = run_job(site, near, *one, body=STEP)
        [(_, (cpus, gres))] = alone.nodes.items()
        assert one_socket(node, cpus, gres)
        assert alone.steps["plain"].open == alone.steps["batch"].open
        assert len(alone.steps["batch"].env["HPCMGR_DEVICES"].split(",")) == 2

        for _ in range(2):
            held = submit(site, f"--gres=compute:near-{request_}:24", *one).split("\n")[0]
            site.wait_job(held, ["RUNNING"], 20)
        waiting = submit(site, near, *one).split("\n")[0]
        site.wait_until(
            lambda: "Resources" in site.run(["squeue", "-h", "-j", waiting, "-o", "%r"]).stdout,
            20,
            "the job to wait for a socket",
        )
        site.run(["scancel", held])
        site.wait_job(waiting, ["RUNNING"], 30)
        cpus, gres = allocation(site, waiting)[0][node]
        assert one_socket(node, cpus, gres)

    def test_nodes_below_one_switch(self, site: ReferenceSite) -> None:
        """mix01 and npu01 hang on two leaves: NPUs of two nodes are no candidate, and told so."""
        said = submit(site, "--gres=compute:one-switch:8", "-N2")
        job_id, _, told = said.partition("\n")

        assert "at most 1 nodes are below one switch" in told
        assert "they may lie anywhere" in told
        site.wait_job(job_id, ["RUNNING"], 20)


STEP = (
    f"cat >/tmp/look.$SLURM_JOB_ID <<'END'\n{LOOK_FILE}\nEND\n"
    "srun -n1 sh -c '. /tmp/look.$SLURM_JOB_ID; look plain'\n"
)


def one_socket(node: str, cpus: str, gres: str) -> bool:
    """Whether CPUs and devices lie on the same single socket, as gres.conf has them."""
    width = {"sxm01": 64, "npu01": 8}[node]
    name = "gpu:a100" if node == "sxm01" else "npu:ascend910b3"
    [cpu_socket] = sockets(cpus, width)
    # Devices 0-3 lie on the second socket of npu01, on the first of sxm01.
    first = 1 if node == "npu01" else 0
    places = {first if index < 4 else 1 - first for index in indices(gres, name)}
    return places == {cpu_socket}
