"""Clusters for the tests of the light cluster itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lightcluster import LightCluster, NodeSpec, node_line
from lightcluster.siteconf import CHECKOUT
from lightcluster.testing import require

RELEASES = ("24.11", "26.05")
DEV_TXT = """\
# path type major minor mode
/dev/nvidia0 c 195 0 0666
/dev/davinci0 c 236 0 0660
/dev/davinci1 c 236 1 0660
"""
# These tests are about the cluster, so they do without the project's own shim.
PLAIN_LUA = {"job_submit.lua": (CHECKOUT / "slurm-conf" / "job_submit.lua").read_text()}


@pytest.fixture(name="recorded", scope="session")
def _recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    host = tmp_path_factory.mktemp("host")
    (host / "dev.txt").write_text(DEV_TXT)
    return host


def mixed_nodes(recorded: Path) -> list[NodeSpec]:
    """One node with a GPU and two NPUs, one without any."""
    return [
        NodeSpec("mix01", sockets=2, cores_per_socket=8, threads_per_core=2, host=recorded),
        NodeSpec("cpu01", sockets=1, cores_per_socket=4),
    ]


def mixed_conf(nodes: list[NodeSpec]) -> dict[str, str]:
    """What hpcmgr would render for them, written by hand."""
    mix, cpu = nodes
    return {
        **PLAIN_LUA,
        "hpcmgr.conf": "GresTypes=gpu,npu\n"
        + node_line(mix, 2000, "gpu:a100:1,npu:ascend910b:2")
        + node_line(cpu, 1000),
        "gres.conf": "NodeName=mix01 Name=gpu Type=a100 File=/dev/nvidia0\n"
        "NodeName=mix01 Name=npu Type=ascend910b File=/dev/davinci[0-1]\n",
    }


@pytest.fixture(name="cluster", scope="module", params=RELEASES)
def _cluster(request: pytest.FixtureRequest, recorded: Path) -> Iterator[LightCluster]:
    require()
    nodes = mixed_nodes(recorded)
    with LightCluster(request.param, nodes, mixed_conf(nodes)) as cluster:
        yield cluster
