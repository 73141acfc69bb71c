"""Neutral requests on a real Slurm: what they become, and what the job then has."""

from __future__ import annotations

import json

import pytest

from lightcluster.site import ReferenceSite
from tests.slurm.probe import LOOK as LOOK_FILE
from tests.slurm.probe import Job, allocation, indices, parse, run_job, sockets, submit

pytestmark = pytest.mark.slurm

CPUS_PER_SOCKET = {"mix01": 32, "npu01": 8, "t401": 8, "t402": 8}


def only_node(job: Job) -> tuple[str, str, str]:
    assert len(job.nodes) == 1, job.nodes
    [(name, (cpus, gres))] = job.nodes.items()
    return name, cpus, gres


def test_the_release_is_the_one_that_was_asked_for(site: ReferenceSite) -> None:
    """Every other result here is worth its release only."""
    assert f"slurm-wlm {site.release}." in site.run(["scontrol", "-V"]).stdout


def test_eight_units_are_the_a100_beside_its_cores_and_nothing_else(site: ReferenceSite) -> None:
    """compute:8: one device, its socket's cores, units booked; every other device is refused."""
    job = run_job(site, "--gres=compute:8")
    node, cpus, gres = only_node(job)

    assert "compute:8 becomes 1 x gpu:a100: 8 units, 80 GiB of device memory" in job.said
    assert node == "mix01"
    assert gres == "gpu:a100:1(IDX:0),compute(CNT:8),vram(CNT:80)"
    assert sockets(cpus, 32) == {0}
    assert job.fields["NumCPUs"] == "4"
    seen = job.steps["batch"]
    assert seen.open == ["/dev/nvidia0"]
    assert seen.refused == ["/dev/davinci4", "/dev/davinci5"]
    assert seen.env["CUDA_VISIBLE_DEVICES"] == "0"
    assert seen.env["HPCMGR_GRES"] == "gpu:a100"
    assert seen.env["HPCMGR_RUNTIME"] == "cuda"
    assert seen.env["HPCMGR_PROFILE"] == "a100-80g"
    assert "ASCEND_RT_VISIBLE_DEVICES" not in seen.env


def test_one_unit_of_cuda_is_a_t4_and_not_an_a100(site: ReferenceSite) -> None:
    """The fewest wasted units win; index 0 of this machine is /dev/nvidia1."""
    job = run_job(site, "--gres=compute:cuda:1")
    node, cpus, gres = only_node(job)

    assert node in {"t401", "t402"}
    assert gres.startswith("gpu:t4:1(IDX:0)")
    assert sockets(cpus, 8) == {0}
    assert job.steps["batch"].open == ["/dev/nvidia1"]
    assert "2 units are booked" in job.said


@pytest.mark.parametrize("request_", ["compute:npu:16", "compute:cann:12", "compute:huawei:9"])
def test_npus_are_asked_for_by_kind_runtime_and_vendor(site: ReferenceSite, request_: str) -> None:
    """Two Ascend devices on one node; only they open; their runtime is told which."""
    job = run_job(site, f"--gres={request_}")
    node, cpus, gres = only_node(job)
    seen = job.steps["batch"]

    assert "npu:ascend910b3:2(IDX:" in gres
    assert "compute(CNT:16)" in gres
    assert len(seen.open) == 2
    assert all(file.startswith("/dev/davinci") for file in seen.open)
    assert not seen.odd
    assert seen.env["HPCMGR_DEVICES"] == ",".join(seen.open)
    assert seen.env["HPCMGR_RUNTIME"] == "cann"
    assert "CUDA_VISIBLE_DEVICES" not in seen.env
    if node == "mix01":  # davinci4 and 5 are devices 0 and 1 of the runtime there
        assert seen.env["ASCEND_RT_VISIBLE_DEVICES"] == "0,1"
        assert sockets(cpus, 32) == {1}


def test_memory_each_and_in_total_choose_the_device(site: ReferenceSite) -> None:
    """A T4's 16 GiB are too few for each; 100 GiB in total need two NPUs."""
    each = run_job(site, "--gres=compute:1,vram:each:40G")
    total = run_job(site, "--gres=compute:8,vram:100")

    assert "gpu:t4" not in only_node(each)[2]
    assert "npu:ascend910b3:2" in only_node(total)[2]


def test_eight_one_npu_jobs_fill_a_node_each_beside_its_device(site: ReferenceSite) -> None:
    """Fact 23 is what must not happen: on both releases all eight run, on the right socket."""
    ids = [submit(site, "--gres=compute:npu:8", "-w", "npu01").split("\n")[0] for _ in range(8)]
    for job_id in ids:
        site.wait_job(job_id, ["RUNNING"], 30)

    places = [allocation(site, job_id)[0]["npu01"] for job_id in ids]
    used = [indices(gres, "npu:ascend910b3") for _, gres in places]

    assert sorted(i for each in used for i in each) == list(range(8))  # no device twice
    for (cpus, _), devices in zip(places, used, strict=True):
        # Devices 0-3 lie on socket 1 of this machine, 4-7 on socket 0.
        assert sockets(cpus, 8) == ({1} if min(devices) < 4 else {0})


def test_two_npus_of_one_job_lie_on_one_socket_with_its_cores(site: ReferenceSite) -> None:
    """Four two-device jobs fill the node; none spans the sockets."""
    ids = [submit(site, "--gres=compute:npu:16", "-w", "npu01").split("\n")[0] for _ in range(4)]
    for job_id in ids:
        site.wait_job(job_id, ["RUNNING"], 30)

    for job_id in ids:
        cpus, gres = allocation(site, job_id)[0]["npu01"]
        devices = indices(gres, "npu:ascend910b3")
        assert sockets(cpus, 8) == ({1} if max(devices) < 4 else {0}), (cpus, gres)


def test_partial_steps_see_their_own_devices_only(site: ReferenceSite) -> None:
    """Batch: both; a step with one: one; a plain step: both; --gres=none: none, and no variable."""
    body = f"cat >/tmp/look.$SLURM_JOB_ID <<'END'\n{LOOK_FILE}\nEND\n"
    for name, option in (("one", "--gres=npu:1"), ("plain", ""), ("none", "--gres=none")):
        body += f"srun {option} -n1 sh -c '. /tmp/look.$SLURM_JOB_ID; look {name}'\n"
    job = run_job(site, "--gres=compute:npu:16", "-w", "npu01", body=body)
    batch, one, plain, none = (job.steps[n] for n in ("batch", "one", "plain", "none"))

    assert plain.open == batch.open
    assert len(one.open) == 1
    assert set(one.open) < set(batch.open)
    assert none.open == []
    assert one.env["ASCEND_RT_VISIBLE_DEVICES"] in batch.env["ASCEND_RT_VISIBLE_DEVICES"]
    assert one.env["HPCMGR_DEVICES"] == one.open[0]
    assert "ASCEND_RT_VISIBLE_DEVICES" not in none.env
    assert "HPCMGR_DEVICES" not in none.env


def test_hpcmgr_gres_makes_a_portable_step(site: ReferenceSite) -> None:
    """srun --gres=$HPCMGR_GRES:1 asks one device of whatever the job became."""
    body = f"cat >/tmp/look.$SLURM_JOB_ID <<'END'\n{LOOK_FILE}\nEND\n"
    body += "srun --gres=$HPCMGR_GRES:1 -n1 sh -c '. /tmp/look.$SLURM_JOB_ID; look step'\n"
    job = run_job(site, "--gres=compute:npu:16", body=body)

    assert len(job.steps["step"].open) == 1


def test_units_show_in_squeue_sinfo_and_sacct_and_are_billed(site: ReferenceSite) -> None:
    """TRES of the job: devices and units; the bill is the units (two NPUs: 16)."""
    job = run_job(site, "--gres=compute:npu:16")
    line = ["sacct", "-n", "-P", "-X", "-j", job.id, "-o", "AllocTRES"]

    def booked() -> str:
        return site.run(line).stdout.strip()

    assert "gres/compute=16" in job.fields["AllocTRES"]
    assert "billing=16" in job.fields["AllocTRES"]
    site.wait_until(lambda: "gres/compute=16" in booked(), 20, "sacct to know the job")
    assert "gres/npu:ascend910b3=2" in booked()
    assert "gres/vram=128" in booked()
    assert "compute:24" in site.run(["sinfo", "-h", "-o", "%G"]).stdout


def test_a_qos_limit_in_units_holds_a_job_back(site: ReferenceSite) -> None:
    """MaxTRESPerUser=gres/compute=16: the second job waits with Slurm's own reason."""
    site.run(["sacctmgr", "-i", "modify", "qos", "normal", "set",
              "MaxTRESPerUser=gres/compute=16"], check=True)  # fmt: skip
    try:
        first = submit(site, "--gres=compute:npu:16").split("\n")[0]
        second = submit(site, "--gres=compute:npu:8").split("\n")[0]
        site.wait_job(first, ["RUNNING"], 20)

        def reason() -> str:
            return site.run(["squeue", "-h", "-j", second, "-o", "%r"]).stdout.strip()

        site.wait_until(lambda: reason() == "QOSMaxGRESPerUser", 20, "the limit to hold it back")
    finally:
        site.run(["sacctmgr", "-i", "modify", "qos", "normal", "set",
                  "MaxTRESPerUser=gres/compute=-1"], check=True)  # fmt: skip


def test_a_direct_request_gets_its_units_booked(site: ReferenceSite) -> None:
    """gpu:t4:2 stays what it is and books 4 units, 32 GiB."""
    job = run_job(site, "--gres=gpu:t4:2")

    assert only_node(job)[2].endswith("compute(CNT:4),vram(CNT:32)")
    assert "books 4 units" in job.said


@pytest.mark.parametrize(
    ("options", "units"),
    [
        (["--gpus=t4:2", "-N1"], 4),
        (["--gpus-per-node=t4:2"], 4),
        (["--gpus-per-task=t4:1", "-n2", "-N1"], 4),
        (["--gpus-per-socket=t4:1", "--sockets-per-node=1"], 2),
    ],
)
def test_every_gpus_option_gets_its_units_and_its_steps_run(
    site: ReferenceSite, options: list[str], units: int
) -> None:
    """Totals per node, per task, per socket; an inner srun still finds its devices."""
    body = "srun -n1 sh -c 'echo step env HPCMGR_DEVICES=$HPCMGR_DEVICES'\n"
    job = run_job(site, *options, body=body)

    assert f"compute(CNT:{units})" in only_node(job)[2]
    assert job.steps["step"].env["HPCMGR_DEVICES"].startswith("/dev/nvidia")


def test_a_total_without_a_node_count_is_refused_with_a_hint(site: ReferenceSite) -> None:
    """direct_totals: per_node, the default."""
    done = site.run(["sbatch", "--gpus=2", "--wrap=true"], user="alice")

    assert done.returncode != 0
    assert "needs a number of nodes that divides it (-N)" in done.stderr


@pytest.mark.parametrize("options", [["-n2"], ["--ntasks-per-node=2"], ["-n1", "-c3"]])
def test_the_users_task_counts_stand(site: ReferenceSite, options: list[str]) -> None:
    """SLURM_NTASKS and the CPUs are those of the same job with devices asked directly."""
    neutral = run_job(site, "--gres=compute:gpu:8", *options)
    direct = run_job(site, "--gres=gpu:a100:1", *options)
    names = ("SLURM_NTASKS", "SLURM_TASKS_PER_NODE", "SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE")

    ours, theirs = ([j.steps["batch"].env.get(n) for n in names] for j in (neutral, direct))

    assert ours == theirs


def test_exclusive_takes_the_node_and_says_that_cores_are_not_enforced(
    site: ReferenceSite,
) -> None:
    """No bit, no task count with --exclusive; Slurm books the whole node."""
    job = run_job(site, "--gres=compute:gpu:8", "--exclusive")

    assert "not enforced: --exclusive" in job.said
    assert "compute(CNT:24)" in only_node(job)[2]


def test_srun_and_salloc_get_the_same(site: ReferenceSite) -> None:
    """A direct srun, and an srun inside salloc, hold the device that the request became."""
    look = f"{LOOK_FILE}\nlook step"
    for command in (
        ["srun", "--gres=compute:npu:8", "sh", "-c", look],
        ["salloc", "--gres=compute:npu:8", "srun", "sh", "-c", look],
    ):
        done = site.run(command, user="alice", timeout=60)
        seen = parse(done.stdout)["step"]

        assert done.returncode == 0, done.stderr
        assert "becomes 1 x npu:ascend910b3" in done.stderr
        assert len(seen.open) == 1, (command, seen)
        assert seen.env["HPCMGR_GRES"] == "npu:ascend910b3"


def test_every_task_of_an_array_gets_a_device_of_its_own(site: ReferenceSite) -> None:
    """Four tasks, four T4 or NPUs, no device twice."""
    job_id = submit(site, "--gres=compute:npu:8", "--array=0-3", "-w", "npu01").split("\n")[0]
    tasks = [f"{job_id}_{i}" for i in range(4)]
    for task in tasks:
        site.wait_job(task, ["RUNNING"], 30)

    used = [indices(allocation(site, t)[0]["npu01"][1], "npu:ascend910b3") for t in tasks]

    assert len(set().union(*used)) == 4


def test_two_nodes_get_the_units_each(site: ReferenceSite) -> None:
    """compute:4 -N2 is 4 units on each node: two T4 there, one step over both."""
    body = f"cat >/shared/out/look.$SLURM_JOB_ID <<'END'\n{LOOK_FILE}\nEND\n"
    body += "srun sh -c '. /shared/out/look.$SLURM_JOB_ID; look step$SLURM_NODEID'\n"
    job = run_job(site, "--gres=compute:t4:2", "-N2", body=body)

    assert set(job.nodes) == {"t401", "t402"}
    assert "on each of 2 nodes" in job.said
    for cpus, gres in job.nodes.values():
        assert gres.startswith("gpu:t4:1(IDX:")
        assert len(sockets(cpus, 8)) == 1
    assert len(job.steps["step0"].open) == 1
    assert len(job.steps["step1"].open) == 1


def test_units_per_task_become_devices_per_task(site: ReferenceSite) -> None:
    """--tres-per-task=gres/compute:8 with two tasks: two devices, units with them; refused on
    24.11, where the steps would lose them."""
    options = ["--tres-per-task=gres/compute:npu:8", "-n2", "-N1"]
    if site.release == "24.11":
        done = site.run(["sbatch", *options, "--wrap=true"], user="alice")
        assert "loses units per task" in done.stderr
        return
    job = run_job(site, *options)

    assert "npu:ascend910b3:2(IDX:" in only_node(job)[2]
    assert "compute(CNT:16)" in only_node(job)[2]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--gres=compute:0"], "no whole number"),
        (["--gres=compute:-8"], "no whole number"),
        (["--gres=compute:2.5"], "no whole number"),
        (["--gres=compute:99999999999999999999"], "no whole number"),
        (["--gres=compute:npuu:8"], "did you mean 'npu'"),
        (["--gres=compute:unbound:8"], "set by the system alone"),
        (["--gres=compute:800"], "What would fit: compute:a100:8"),
        (["--gres=compute:8", "--gpus=1"], "cannot stand beside"),
        (["--gres=compute:8,gpu:a100:1"], "cannot stand beside"),
        (["--gres=compute:8,vram:much"], "only vram:GiB"),
    ],
)
def test_bad_requests_are_refused_in_words_for_their_user(
    site: ReferenceSite, options: list[str], part: str
) -> None:
    """Nothing is queued, and the text says what to do."""
    done = site.run(["sbatch", *options, "--wrap=true"], user="alice")

    assert done.returncode != 0
    assert part in done.stderr
    assert site.run(["squeue", "-h"]).stdout == ""


def test_explain_tells_the_story_of_a_job(site: ReferenceSite) -> None:
    """From admin_comment and journal: request, binding, every candidate with its terms."""
    job = run_job(site, "--gres=compute:8")
    done = site.run(["hpcmgr", "explain", job.id, "--json"], check=True)
    story = json.loads(done.stdout)

    assert story["job"]["binding"]["gres"] == "gpu:a100"
    site.wait_until(
        lambda: json.loads(site.run(["hpcmgr", "explain", job.id, "--json"]).stdout)["journal"],
        10,
        "the journal to be written",
    )
    story = json.loads(site.run(["hpcmgr", "explain", job.id, "--json"]).stdout)
    names = [c["profile"] for c in story["journal"][0]["candidates"]]
    assert names[0] == "a100-80g"
    assert {"ascend910b3", "t4"} < set(names)
