"""Topologies that hpcmgr renders, as Slurm reads them: tree, blocks, and both in topology.yaml."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hpcmgr.fabric import ibnetdiscover, plan_fabric
from hpcmgr.fabric.join import join
from hpcmgr.inventory import NodeInventory
from hpcmgr.plan import ClusterPlan, NodePlan
from hpcmgr.render.topology import render_topology
from hpcmgr.settings import Site
from hpcmgr.slurm.capability import Release
from hpcmgr.slurm.hostlist import expand
from lightcluster import LightCluster, NodeSpec
from lightcluster.siteconf import CHECKOUT
from lightcluster.testing import require
from tests import fabric_texts as texts
from tests.slurm.conftest import RELEASES

pytestmark = pytest.mark.slurm

NODES = [f"n{i}" for i in range(1, 7)]
RAILS = ("mlx5_0", "mlx5_1")
CABLES = [
    *(
        (f"n{i} {nic}", f"su{(i + 1) // 2}-r{r}")
        for i in range(1, 7)
        for r, nic in enumerate(RAILS)
    ),
    *((f"su{u}-r{r}", f"spine{s}") for u in (1, 2, 3) for r in (0, 1) for s in (1, 2)),
]
"""Three units of two nodes, each with two rails; two spines."""
LUA = (CHECKOUT / "slurm-conf" / "job_submit.lua").read_text()


def rendered(
    release: str, cables: list[texts.Cable], topology: dict[str, object], domains: object = None
) -> dict[str, str]:
    """The files for nodes n1 to n6 in this fabric."""
    inventories: dict[str, NodeInventory] = {n: texts.node(n, near=RAILS) for n in NODES}
    seen = ibnetdiscover.parse(texts.ibnetdiscover(cables))
    scan, _ = join([seen], domains or {}, NODES)  # type: ignore[arg-type]
    site = Site.model_validate({"topology": topology})
    planned = tuple(NodePlan(n, 1, 4, 1, 1000, (), {}, (), {}) for n in NODES)
    return render_topology(
        ClusterPlan(
            planned,
            site,
            fabric=plan_fabric(site, scan, inventories),
            release=Release.parse(release),
        )
    )


def slurm_conf(plugin: str, more: str = "") -> str:
    text = (CHECKOUT / "slurm-conf" / "slurm.conf").read_text()
    return text.replace("TopologyPlugin=topology/tree", plugin) + more


@pytest.fixture(name="cluster", scope="module", params=RELEASES)
def _cluster(request: pytest.FixtureRequest) -> Iterator[LightCluster]:
    """Six nodes with the tree; the tests give it other topologies."""
    require()
    conf = {
        "slurm.conf": slurm_conf("TopologyPlugin=topology/tree"),
        "job_submit.lua": LUA,
        **rendered(request.param, CABLES, {}),
    }
    with LightCluster(request.param, [NodeSpec(n) for n in NODES], conf) as cluster:
        yield cluster


def bring(cluster: LightCluster, plugin: str, files: dict[str, str], more: str = "") -> None:
    """Reconfigure with these files; a topology.yaml of before goes."""
    cluster.run(["rm", "-f", "/etc/slurm/topology.yaml", "/etc/slurm/topology.conf"], check=True)
    current = cluster.run(["cat", "/etc/slurm/slurm.conf"], check=True).stdout
    kept = [
        line
        for line in current.splitlines()
        if not line.startswith(("TopologyPlugin", "PartitionName=racks"))
    ]
    cluster.write_conf({"slurm.conf": "\n".join([*kept, plugin, more, ""]), **files})
    cluster.reconfigure()
    cluster.wait_nodes_idle()


def shown(cluster: LightCluster, *args: str) -> dict[str, set[str]]:
    """Switch or block → its nodes, as Slurm has understood."""
    text = cluster.run(["scontrol", "-o", "show", "topology", *args], check=True).stdout
    found = {}
    for line in text.splitlines():
        name = re.match(r"(?:SwitchName|BlockName)=(\S+)", line)
        nodes = re.search(r" Nodes=(\S+)", line)
        if name and nodes:
            found[name[1]] = set(expand(nodes[1]))
    return found


def hosts_of(cluster: LightCluster, *args: str) -> list[str]:
    done = cluster.run(["srun", "--immediate=20", *args, "hostname"], user="alice", check=True)
    return sorted(done.stdout.split())


PAIRS = [["n1", "n2"], ["n3", "n4"], ["n5", "n6"]]
UNITS = {"su1-r0": {"n1", "n2"}, "su2-r0": {"n3", "n4"}, "su3-r0": {"n5", "n6"}}


def test_the_tree_of_a_scan(cluster: LightCluster) -> None:
    """Units and one spine; --switches=1 stays in a unit, six nodes span all."""
    bring(cluster, "TopologyPlugin=topology/tree", rendered(cluster.release, CABLES, {}))

    assert shown(cluster) == {**UNITS, "spine1": set(NODES)}
    assert hosts_of(cluster, "-N2", "--switches=1@60") in PAIRS
    assert hosts_of(cluster, "-N6") == NODES


def test_blocks_of_nvlink_domains(cluster: LightCluster) -> None:
    """Two racks; what is in none has a block of its own, and jobs start there. A segment stays in
    a rack."""
    domains = {"c0ffee00-1.7": ("n1", "n2"), "c0ffee01-1.7": ("n3", "n4")}
    files = rendered(cluster.release, CABLES, {"plugins": ["block"]}, domains)
    bring(cluster, "TopologyPlugin=topology/block", files)

    assert list(files) == ["topology.conf"]
    assert shown(cluster) == {
        "nvl-c0ffee00-7": {"n1", "n2"},
        "nvl-c0ffee01-7": {"n3", "n4"},
        "unplaced": {"n5", "n6"},
    }
    assert hosts_of(cluster, "-N2") in PAIRS
    assert hosts_of(cluster, "-w", "n5") == ["n5"]
    four = hosts_of(cluster, "-N4", "--segment=2")
    assert all(set(pair) <= set(four) or not set(pair) & set(four) for pair in PAIRS)


def test_both_in_topology_yaml(cluster: LightCluster) -> None:
    """The tree for all, blocks for the partition that names them. 24.11 gets the tree alone."""
    domains = {"c0ffee00-1.7": ("n1", "n2"), "c0ffee01-1.7": ("n3", "n4")}
    files = rendered(cluster.release, CABLES, {"plugins": ["tree", "block"]}, domains)
    if cluster.release == "24.11":
        bring(cluster, "TopologyPlugin=topology/tree", files)
        assert shown(cluster) == {**UNITS, "spine1": set(NODES)}
        return
    bring(cluster, "", files, "PartitionName=racks Nodes=n[1-4] Topology=block")

    assert shown(cluster, "tree") == {**UNITS, "spine1": set(NODES)}
    assert set(shown(cluster, "block")) == {"nvl-c0ffee00-7", "nvl-c0ffee01-7", "unplaced"}
    assert hosts_of(cluster, "-p", "racks", "-N2", "--segment=2") in PAIRS[:2]
    assert hosts_of(cluster, "-N2", "--switches=1@60") in PAIRS
    assert hosts_of(cluster, "-w", "n5,n6", "-N2") == ["n5", "n6"]


def test_another_topology_under_a_running_job(cluster: LightCluster) -> None:
    """It runs on and its next step too; a pending job starts in the new one, and one that has no
    room waits until the topology has."""
    tree = rendered(cluster.release, CABLES, {})
    crossed = [(a, b.replace("su1", "su9")) if a.startswith("n1 ") else (a, b) for a, b in CABLES]
    islands = [cable for cable in crossed if not cable[1].startswith("spine")]
    bring(cluster, "TopologyPlugin=topology/tree", tree)
    cluster.run(["install", "-d", "-m", "1777", "/shared/out"], check=True)
    script = (
        "#!/bin/sh\nwhile [ ! -e /shared/out/go ]; do sleep 0.2; done\n"
        "srun -N2 --overlap hostname\n"
    )
    job = cluster.sbatch("-N2", "-w", "n1,n2", "-o", "/shared/out/job", script=script)
    cluster.wait_job(job, "RUNNING")
    wide = cluster.sbatch("-N6", "--exclusive", "-o", "/dev/null", "--wrap", "true")

    cluster.write_conf(rendered(cluster.release, islands, {}))
    cluster.reconfigure()
    cluster.run(["touch", "/shared/out/go"], check=True)

    cluster.wait_job(job, "COMPLETED")
    assert sorted(cluster.run(["cat", "/shared/out/job"]).stdout.split()) == ["n1", "n2"]
    assert cluster.job_state(wide) == "PENDING"
    cluster.write_conf(tree)
    cluster.reconfigure()
    cluster.wait_job(wide, "COMPLETED")


@st.composite
def fabrics(draw: st.DrawFn) -> list[texts.Cable]:
    """Random networks for six nodes, connected or not."""
    names = draw(
        st.sampled_from([("w{}", "x{}"), ("r1-leaf{:02}", "r2-leaf{:02}"), ("?{}", "?{}")])
    )
    count = draw(st.integers(1, 4))
    switches = [names[i % 2].format(i) for i in range(count)]
    ends = [(f"{n} mlx5_{r}", draw(st.sampled_from(switches))) for n in NODES for r in range(2)]
    links = {
        tuple(sorted(pair))
        for pair in draw(
            st.lists(st.tuples(st.sampled_from(switches), st.sampled_from(switches)), max_size=6)
        )
        if pair[0] != pair[1]
    }
    return [*ends, *sorted(links)]  # type: ignore[list-item]


@settings(
    max_examples=8,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(fabrics(), st.sampled_from(["tree", "block"]))
def test_slurm_reads_back_what_was_rendered(
    cluster: LightCluster, cables: list[texts.Cable], plugin: str
) -> None:
    """Whatever the network: the same switches or blocks with the same nodes, every node in one."""
    files = rendered(cluster.release, cables, {"plugins": [plugin]})
    bring(cluster, f"TopologyPlugin=topology/{plugin}", files)

    wanted = meant(files["topology.conf"])
    assert {name: nodes for name, nodes in shown(cluster).items() if name in wanted} == wanted
    leaves = [
        nodes for name, nodes in wanted.items() if f"={name} Nodes=" in files["topology.conf"]
    ]
    assert sorted(n for nodes in leaves for n in nodes) == NODES


def meant(text: str) -> dict[str, set[str]]:
    """Name → all nodes below it, from the rendered lines (children stand first)."""
    found: dict[str, set[str]] = {}
    for name, key, below in re.findall(r"(?m)^(?:Switch|Block)Name=(\S+) (\w+)=(\S+)$", text):
        names = expand(below)
        found[name] = set(names) if key == "Nodes" else set().union(*(found[n] for n in names))
    return found
