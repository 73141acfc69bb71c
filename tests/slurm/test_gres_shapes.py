"""Links, MPS beside shards, and NUMA nodes as sockets: rendered, and what Slurm makes of them."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator

import pytest

from hpcmgr.discovery import discover, open_host
from hpcmgr.inventory import CpuTopology, Device, NodeInventory, NumaNode, Slice
from hpcmgr.plan import make_plan
from hpcmgr.profile import load_library
from hpcmgr.render import render_cluster, render_node
from hpcmgr.settings import Site
from hpcmgr.slurm.capability import Release, has
from lightcluster import LightCluster, NodeSpec
from lightcluster.errors import WaitError
from lightcluster.probe import cpu_ids, indices
from lightcluster.testing import require
from tests.conftest import HERE
from tests.slurm.probe import expand_files

RELEASES = os.environ.get("HPCMGR_SLURM", "24.11,26.05").split(",")
MACHINES = {"lnk01": "t4x4", "mps01": "t4x4", "shd01": "t4x4", "numa01": "npu8", "cpx01": "cpx1"}
NUMA = "numa_node_as_socket"

pytestmark = pytest.mark.slurm


def machine(name: str) -> NodeInventory:
    """A recorded machine; on lnk01 nobody knows which cores the GPUs are near."""
    found = discover(open_host(HERE / "hosts" / MACHINES[name]), load_library())
    found = found.model_copy(update={"node": name})
    if name != "lnk01":
        return found
    devices = tuple(d.model_copy(update={"numa_node": None}) for d in found.devices)
    return found.model_copy(update={"devices": devices})


def site(release: str) -> Site:
    option = {"Parameters": NUMA} if has(Release.parse(release), "NODE_LINE_PARAMETERS") else {}
    return Site.model_validate(
        {
            "accounting": False,
            "nodes": [
                {"nodes": "mps01", "sharing": {"t4": {"mps": True}}},
                {"nodes": "shd01", "sharing": {"t4": {"shard": 4}}},
                {"nodes": "numa01", "sockets": "numa", "options": option},
            ],
        }
    )


GPUS, CAPS = 4, 96


@pytest.fixture(name="cluster", scope="module", params=RELEASES)
def _cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LightCluster]:
    """One node more, any01, has device nodes for GPUs that are cut in any way."""
    require()
    anything = tmp_path_factory.mktemp("any01")
    nodes = [f"/dev/nvidia{n} c 195 {n} 0666\n" for n in range(GPUS)]
    nodes += [f"/dev/nvidia-caps/nvidia-cap{n} c 238 {n} 0444\n" for n in range(CAPS)]
    (anything / "dev.txt").write_text("".join(nodes))
    rules = site(request.param)
    plan = make_plan([machine(name) for name in MACHINES], load_library(), rules)
    specs = [
        NodeSpec(name, 2, 8, 1, HERE / "hosts" / host, numa_per_socket=2 if name == "numa01" else 1)
        for name, host in MACHINES.items()
    ]
    specs.append(NodeSpec("any01", 2, 8, 1, anything))
    with LightCluster(request.param, specs) as cluster:
        files = render_cluster(plan)
        # The machine that plays them has less memory.
        conf = re.sub(r"RealMemory=\d+", "RealMemory=900", files["hpcmgr.conf"])
        if not has(Release.parse(request.param), "NODE_LINE_PARAMETERS"):
            conf = f"SlurmdParameters={NUMA}\n{conf}"
        for node in plan.nodes:
            for name, text in render_node(node).items():
                cluster.node(node.name).write(f"/etc/hpcmgr/{name}", text)
            cluster.node(node.name).run(["chmod", "755", "/etc/hpcmgr/task_prolog.sh"], check=True)
        conf += "NodeName=any01 Sockets=2 CoresPerSocket=8 RealMemory=900\n"
        cluster.write_conf({"hpcmgr.conf": conf, "gres.conf": files["gres.conf"]})
        cluster.reconfigure()
        cluster.wait_nodes_idle(60)
        yield cluster


@pytest.fixture(autouse=True)
def _clean(cluster: LightCluster) -> Iterator[None]:
    yield
    cluster.run(["scancel", "-u", "alice"])
    cluster.wait_until(lambda: not cluster.run(["squeue", "-h"]).stdout, 30, "jobs to end")


def start(cluster: LightCluster, node: str, *options: str) -> tuple[str, str]:
    """A job that goes on running: its CPU ids and its GRES."""
    job = cluster.sbatch("-w", node, "-o", "/dev/null", "--wrap=sleep 60", *options)
    cluster.wait_job(job, ["RUNNING"], 20)
    text = cluster.run(["scontrol", "show", "job", "-d", job], check=True).stdout
    found = re.search(r"CPU_IDs=(\S+) Mem=\d+ GRES=(\S*)", text)
    assert found, text
    return found[1], found[2]


def waits(cluster: LightCluster, node: str, *options: str) -> bool:
    """Whether such a job does not start."""
    job = cluster.sbatch("-w", node, "-o", "/dev/null", "--wrap=sleep 60", *options)
    try:
        cluster.wait_job(job, ["RUNNING"], 5)
    except WaitError:
        return True
    return False


@pytest.mark.parametrize("node", MACHINES)
def test_slurmd_has_no_error_line(cluster: LightCluster, node: str) -> None:
    """And the node is idle, without a reason."""
    done = cluster.node(node).run(["slurmd", "-G", "-N", node])
    text = done.stdout + done.stderr
    shown = cluster.run(["scontrol", "-o", "show", "node", node]).stdout

    assert done.returncode == 0
    assert not re.search(r"\b(error|fatal)\b", text, re.IGNORECASE), text
    assert " State=IDLE " in shown
    assert "Reason=" not in shown


def test_links_would_keep_linked_gpus_apart(cluster: LightCluster) -> None:
    """Why they are not rendered: with them a request per node gets GPUs that are not linked."""
    before = (cluster.controller.root / "etc/slurm/gres.conf").read_text()
    rows = ["-1,4,0,0", "4,-1,0,0", "0,0,-1,4", "0,0,4,-1"]
    records = [
        f"NodeName=lnk01 Name=gpu Type=t4 File=/dev/nvidia{n} Links={row} Flags=nvidia_gpu_env\n"
        for n, row in enumerate(rows)
    ]
    kept = [line for line in before.splitlines(keepends=True)
            if not line.startswith("NodeName=lnk01 Name=gpu")]  # fmt: skip
    without = indices(start(cluster, "lnk01", "-n1", "--gres=gpu:t4:2")[1], "gpu:t4")
    cluster.run(["scancel", "-u", "alice"])
    cluster.wait_until(lambda: not cluster.run(["squeue", "-h"]).stdout, 30, "the job to end")
    try:
        cluster.write_conf({"gres.conf": "".join([*kept, *records])})
        cluster.reconfigure()
        cluster.wait_nodes_idle(30)
        with_links = indices(start(cluster, "lnk01", "-n1", "--gres=gpu:t4:2")[1], "gpu:t4")
    finally:
        cluster.run(["scancel", "-u", "alice"])
        cluster.write_conf({"gres.conf": before})
        cluster.reconfigure()
        cluster.wait_nodes_idle(30)

    assert without == {0, 1}
    assert with_links == {0, 2}


@pytest.mark.parametrize(("node", "share"), [("mps01", "mps:30"), ("shd01", "shard:1")])
def test_a_gpu_with_shares_in_use_is_not_given_whole(
    cluster: LightCluster, node: str, share: str
) -> None:
    """One sort a node, though the cluster has both."""
    start(cluster, node, "-n1", f"--gres={share}")
    start(cluster, node, "-n1", "--gres=gpu:t4:3")

    assert waits(cluster, node, "-n1", "--gres=gpu:t4:1")


def test_a_share_of_mps_is_told_in_percent(cluster: LightCluster) -> None:
    """With the GPU that Slurm gave."""
    done = cluster.run(
        ["srun", "-n1", "-w", "mps01", "--gres=mps:30", "env"], user="alice", check=True
    )

    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30\n" in done.stdout
    assert "CUDA_VISIBLE_DEVICES=0\n" in done.stdout
    assert "HPCMGR_GRES=gpu:t4\n" in done.stdout


def test_partitions_of_a_gpu_are_devices(cluster: LightCluster) -> None:
    """CPX: a job opens the two nodes of its own partition, though all have one PCI function."""
    tries = (
        "for f in /dev/dri/*; do (exec 3<$f) 2>&1 | grep -q 'not permitted' || echo open $f; done"
    )
    done = cluster.run(
        ["srun", "-n1", "-w", "cpx01", "--gres=gpu:mi300x_cpx:1", "sh", "-c", f"env; {tries}"],
        user="alice", check=True,
    )  # fmt: skip
    opened = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("open ")}

    assert opened == {"/dev/dri/card1", "/dev/dri/renderD128"}
    assert "ROCR_VISIBLE_DEVICES=0\n" in done.stdout
    assert "HPCMGR_PROFILE=mi300x-cpx\n" in done.stdout


def test_numa_nodes_are_sockets(cluster: LightCluster) -> None:
    """Four of four cores, with two NPUs each; the others' sockets are as they were."""
    shown = cluster.run(["scontrol", "-o", "show", "node", "numa01"]).stdout
    other = cluster.run(["scontrol", "-o", "show", "node", "shd01"]).stdout

    assert " CoresPerSocket=4 " in shown
    assert " Sockets=4 " in shown
    assert "npu:ascend910b3:8(S:0-3)," in shown
    assert " Sockets=2 " in other


def test_cores_of_the_devices_numa_node(cluster: LightCluster) -> None:
    """NPU 0 is on the fourth NUMA node; Slurm binds by it where it can."""
    if cluster.release != "24.11":
        pytest.skip("26.05 gives NPUs of the first socket only with enforce-binding")
    cpus, gres = start(
        cluster, "numa01", "-n1", "--gres=npu:ascend910b3:2", "--gres-flags=enforce-binding"
    )
    devices = indices(gres, "npu:ascend910b3")
    near = {0: 3, 1: 3, 2: 2, 3: 2, 4: 0, 5: 0, 6: 1, 7: 1}

    assert len({near[n] for n in devices}) == 1
    assert {cpu // 4 for cpu in cpu_ids(cpus)} == {near[n] for n in devices}


def any_machine(rng: random.Random) -> NodeInventory:
    """GPUs of three models, whole, cut or to be cut, in any order of their device nodes."""
    numa = tuple(NumaNode(id=n, socket=n) for n in range(2))
    cpu = CpuTopology(sockets=2, cores_per_socket=8, threads_per_core=1, numa=numa)
    caps = iter(rng.sample(range(CAPS), CAPS))
    minors = rng.sample(range(GPUS), GPUS)
    cuts = {"a100-80g": ("1g.10gb", "2g.20gb", "3g.40gb"), "a30": ("1g.6gb", "2g.12gb"), "t4": ()}
    devices = []
    for index, minor in enumerate(minors):
        model = rng.choice(list(cuts))
        names = rng.choices(cuts[model], k=rng.randrange(4)) if cuts[model] else []
        node = f"/dev/nvidia{minor}"
        slices = tuple(
            Slice(name=name, uuid=f"MIG-{index}-{n}",
                  files=(node, *(f"/dev/nvidia-caps/nvidia-cap{next(caps)}" for _ in "gc")))
            for n, name in enumerate(names)
        )  # fmt: skip
        devices.append(
            Device(vendor="nvidia", model=model, kind="gpu", profile=model, index=index,
                   numa_node=rng.choice([0, 1]), pci=f"0000:{index:02x}:00.0", files=(node,),
                   sliced=bool(slices) or rng.random() < 0.1, slices=slices)
        )  # fmt: skip
    rng.shuffle(devices)
    return NodeInventory(node="any01", cpu=cpu, memory_mib=900, devices=tuple(devices))


@pytest.mark.parametrize("seed", range(12))
def test_slurmd_reads_what_was_planned(cluster: LightCluster, seed: int) -> None:
    """The same devices with the same files and cores in the same order, and the same counts."""
    rng = random.Random(seed)
    rules = Site.model_validate(
        {"accounting": False, "sharing": rng.choice([{}, {"t4": {"shard": 4}}, {"t4": {"mps": 1}}])}
    )
    plan = make_plan([any_machine(rng)], load_library(), rules)
    (node,), files = plan.nodes, render_cluster(plan)
    folder = cluster.controller.root / "etc/slurm"
    before = {name: (folder / name).read_text() for name in ("hpcmgr.conf", "gres.conf")}
    try:
        cluster.write_conf({name: files[name] for name in before})
        done = cluster.node("any01").run(["slurmd", "-G", "-N", "any01"])
    finally:
        cluster.write_conf(before)
    text = done.stdout + done.stderr
    records = re.findall(
        r"Gres Name=(\S+) Type=(\S+) Count=(\d+)(?: .*?File=(\S+))?(?: Cores=(\S+))?", text
    )
    counts: dict[str, int] = {}
    for name, type_, count, _, _ in records:
        key = f"gpu:{type_}" if name == "gpu" else name
        counts[key] = counts.get(key, 0) + int(count)

    assert done.returncode == 0, text
    assert not re.search(r"\b(error|fatal)\b", text, re.IGNORECASE), text
    assert [
        (type_, file, cores)
        for name, type_, _, files, cores in records
        if name == "gpu"
        for file in expand_files(files)
    ] == [
        (d.profile.gres.type, ",".join(d.files), "0-7" if d.socket == 0 else "8-15")
        for d in node.devices
    ]
    assert {key: count for key, count in counts.items() if count} == dict(node.gres)
