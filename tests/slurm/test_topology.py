"""topology.conf as Slurm reads it."""

from __future__ import annotations

import pytest

from lightcluster import LightCluster, NodeSpec
from lightcluster.site import ReferenceSite
from lightcluster.siteconf import CHECKOUT
from lightcluster.testing import require
from tests.slurm.conftest import RELEASES

pytestmark = pytest.mark.slurm


def test_slurm_shows_the_fabric_of_site_yaml(site: ReferenceSite) -> None:
    """Two leaf switches below one spine, every node in one of them."""
    shown = site.run(["scontrol", "show", "topology"], check=True).stdout
    switches = {
        words["SwitchName"]: words
        for words in (dict(w.split("=", 1) for w in row.split()) for row in shown.splitlines())
    }

    assert set(switches) == {"leaf1", "leaf2", "spine"}
    assert switches["leaf1"]["Level"] == switches["leaf2"]["Level"] == "0"
    assert switches["spine"]["Level"] == "1"
    assert "error" not in site.log("slurmctld").split("TOPOLOGY")[-1][:200]
    hosts = site.run(["scontrol", "show", "hostnames", switches["leaf2"]["Nodes"]]).stdout.split()
    assert hosts == ["t401", "t402"]


def test_jobs_stay_below_one_switch_when_they_say_so(site: ReferenceSite) -> None:
    """--switches=1: two nodes of one leaf; a job over both leaves runs without it."""
    near = site.run(["srun", "-N2", "--switches=1@60", "hostname"], user="alice", check=True)
    wide = site.run(["srun", "-N4", "hostname"], user="alice", check=True)

    assert sorted(near.stdout.split()) in (["mix01", "npu01"], ["t401", "t402"])
    assert sorted(wide.stdout.split()) == ["mix01", "npu01", "t401", "t402"]


@pytest.mark.parametrize("release", RELEASES)
def test_slurm_starts_no_job_on_a_node_that_no_switch_holds(release: str) -> None:
    """Why the rendered file names every node (docs/slurm.md); if this fails, Slurm has changed."""
    require()
    conf = {
        "job_submit.lua": (CHECKOUT / "slurm-conf" / "job_submit.lua").read_text(),
        "topology.conf": "SwitchName=s1 Nodes=n1\n",
    }
    with LightCluster(release, [NodeSpec("n1"), NodeSpec("n2")], conf) as cluster:
        held = cluster.run(["srun", "-w", "n1", "hostname"], user="alice")
        alone = cluster.run(["srun", "--immediate=5", "-w", "n2", "hostname"], user="alice")

    assert held.stdout == "n1\n"
    assert alone.returncode != 0
    assert "Requested topology configuration is not available" in alone.stderr
