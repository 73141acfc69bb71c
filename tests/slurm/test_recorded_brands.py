"""What is rendered for machines of other brands, under a real slurmd with their device nodes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from hpcmgr.discovery import discover, open_host
from hpcmgr.plan import make_plan
from hpcmgr.profile import load_library
from hpcmgr.render import render_cluster, render_node
from hpcmgr.settings import Site
from lightcluster import LightCluster, NodeSpec
from lightcluster.testing import require
from tests.conftest import HERE

RELEASES = os.environ.get("HPCMGR_SLURM", "24.11,26.05").split(",")
MACHINES = {"mi01": "mi300x8", "gd01": "gaudi8", "arc01": "arc4", "mlmx01": "mlu2mx2"}
LIBRARY = load_library()

pytestmark = pytest.mark.slurm


@pytest.fixture(name="cluster", scope="module", params=RELEASES)
def _cluster(request: pytest.FixtureRequest) -> Iterator[LightCluster]:
    """Each machine with its device nodes and its processors, configured as it is rendered."""
    require()
    found = {
        node: discover(open_host(HERE / "hosts" / host), LIBRARY) for node, host in MACHINES.items()
    }
    plan = make_plan(found.values(), LIBRARY, Site.model_validate({"accounting": False}))
    specs = [
        NodeSpec(
            node,
            inventory.cpu.sockets,
            inventory.cpu.cores_per_socket,
            inventory.cpu.threads_per_core,
            HERE / "hosts" / MACHINES[node],
        )
        for node, inventory in found.items()
    ]
    with LightCluster(request.param, specs) as cluster:
        files = render_cluster(plan)
        # The machine that plays them has less memory.
        files["hpcmgr.conf"] = re.sub(r"RealMemory=\d+", "RealMemory=900", files["hpcmgr.conf"])
        for node in plan.nodes:
            for name, text in render_node(node).items():
                cluster.node(node.name).write(f"/etc/hpcmgr/{name}", text)
            cluster.node(node.name).run(["chmod", "755", "/etc/hpcmgr/task_prolog.sh"], check=True)
        cluster.write_conf({name: files[name] for name in ("hpcmgr.conf", "gres.conf")})
        cluster.reconfigure()
        cluster.wait_nodes_idle(60)
        yield cluster


@pytest.mark.parametrize(
    ("node", "first", "count"),
    [
        ("mi01", "/dev/dri/card2,/dev/dri/renderD129", 8),
        ("gd01", "/dev/accel/accel7", 8),
        ("arc01", "/dev/dri/card3,/dev/dri/renderD130", 4),
        ("mlmx01", "/dev/dri/card2,/dev/dri/renderD129", 4),
    ],
)
def test_slurmd_takes_the_files(cluster: LightCluster, node: str, first: str, count: int) -> None:
    """``slurmd -G`` has no error line and numbers the devices in the order of the runtime."""
    done = cluster.node(node).run(["slurmd", "-G", "-N", node])

    said = done.stdout + done.stderr
    records = re.findall(r"Count=(\d+) .*File=(/dev/\S+)", said)
    assert done.returncode == 0
    assert not re.search(r"\b(error|fatal)\b", said, re.IGNORECASE), said
    assert sum(int(number) for number, _ in records) == count, said
    assert records[0][1] == first, said


def _open(cluster: LightCluster, node: str, request: str, *paths: str) -> tuple[str, set[str]]:
    """A job's environment, and which device nodes its cgroup lets it open."""
    tries = "; ".join(
        f"(exec 3<{path}) 2>&1 | grep -q 'not permitted' || echo open {path}" for path in paths
    )
    done = cluster.run(
        ["srun", "-n1", "-w", node, f"--gres={request}", "sh", "-c", f"env; {tries}"],
        user="alice",
        check=True,
    )
    opened = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("open ")}
    return done.stdout, opened


def test_a_job_has_both_nodes_of_its_amd_gpu(cluster: LightCluster) -> None:
    """Card and render node of the runtime's first GPU, and of no other; the variable is ROCm's."""
    pairs = [f"/dev/dri/{name}" for n in range(4) for name in (f"card{n + 1}", f"renderD{128 + n}")]

    env, opened = _open(cluster, "mi01", "gpu:mi300x:1", *pairs)

    assert opened == {"/dev/dri/card2", "/dev/dri/renderD129"}
    assert "ROCR_VISIBLE_DEVICES=0" in env
    assert "CUDA_VISIBLE_DEVICES" not in env
    assert "HPCMGR_RUNTIME=rocm" in env


def test_a_job_sees_gaudi_modules(cluster: LightCluster) -> None:
    """The prolog tells the module of the node that the step may open, not the node's number."""
    modules = {f"/dev/accel/accel{n}": module for module, n in enumerate((7, 5, 6, 4, 3, 2, 1, 0))}

    env, opened = _open(cluster, "gd01", "npu:gaudi2:1", *modules)

    assert len(opened) == 1
    assert f"HABANA_VISIBLE_MODULES={modules[opened.pop()]}\n" in env


def test_a_job_has_intels_mask(cluster: LightCluster) -> None:
    """xpu-smi's GPU 0 is card3."""
    env, opened = _open(
        cluster, "arc01", "gpu:arc_pro_b70:1", *(f"/dev/dri/card{n}" for n in (0, 2, 3, 4))
    )

    assert opened == {"/dev/dri/card3"}
    assert "ZE_AFFINITY_MASK=0" in env


def test_a_job_sees_its_mlu_and_its_metax_gpu(cluster: LightCluster) -> None:
    """Two brands in one node, each with its own variable; Slurm sets none for either."""
    mlus = [f"/dev/cambricon_dev{n}" for n in range(2)]
    cards = ["/dev/dri/card1", "/dev/dri/card2"]

    env, opened = _open(cluster, "mlmx01", "npu:mlu370_x4:1", *mlus, *cards)
    both, shared = _open(cluster, "mlmx01", "gpu:c500:1,npu:mlu370_x4:1", *mlus, *cards)

    assert opened in ({mlus[0]}, {mlus[1]})
    assert f"MLU_VISIBLE_DEVICES={opened.pop()[-1]}\n" in env
    assert "CUDA_VISIBLE_DEVICES" not in env
    assert len(shared) == 2
    assert len(shared & {*mlus}) == 1
    assert "HPCMGR_RUNTIME=maca,neuware\n" in both
    # GPU 0 is card2.
    index = 0 if "/dev/dri/card2" in shared else 1
    assert f"CUDA_VISIBLE_DEVICES={index}\n" in both
