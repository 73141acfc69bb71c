"""topology.conf from the fabric of site.yaml."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.errors import ConfigError
from hpcmgr.fabric import plan_fabric
from hpcmgr.plan import ClusterPlan, NodePlan
from hpcmgr.render import topology as rendered
from hpcmgr.render.topology import SwitchLine, switch_lines
from hpcmgr.settings import Site, Switch, load_site
from hpcmgr.slurm.capability import Release
from hpcmgr.slurm.hostlist import expand

TWO_LEAVES = {
    "spine": {"switches": "leaf[1-2]"},
    "leaf1": {"nodes": "mix[01-09],npu01"},
    "leaf2": {"nodes": "t4[01-09]"},
}


def plan(fabric: dict[str, Any], *nodes: str) -> ClusterPlan:
    planned = [NodePlan(name, 1, 1, 1, 100, (), {}, (), {}) for name in sorted(nodes)]
    site = Site.model_validate({"fabric": fabric})
    return ClusterPlan(tuple(planned), site, fabric=plan_fabric(site, None, {}))


def render_topology(plan: ClusterPlan) -> str | None:
    return rendered.render_topology(plan).get("topology.conf")


def lines(text: str | None) -> list[str]:
    assert text is not None
    return [line for line in text.splitlines() if line.startswith("SwitchName=")]


def test_switches_stand_above_the_nodes_that_exist() -> None:
    """Children first; names of nodes that nobody has are left out."""
    text = render_topology(plan(TWO_LEAVES, "mix01", "npu01", "t401", "t402"))

    assert lines(text) == [
        "SwitchName=leaf1 Nodes=mix01,npu01",
        "SwitchName=leaf2 Nodes=t[401-402]",
        "SwitchName=spine Switches=leaf[1-2]",
    ]


def test_a_switch_without_nodes_is_left_out_with_all_above_it() -> None:
    """leaf2 and pod2 have nothing below them."""
    fabric = {
        **TWO_LEAVES,
        "spine": {"switches": "pod[1-2]"},
        "pod1": {"switches": "leaf1"},
        "pod2": {"switches": "leaf2"},
    }

    assert lines(render_topology(plan(fabric, "mix01"))) == [
        "SwitchName=leaf1 Nodes=mix01",
        "SwitchName=pod1 Switches=leaf1",
        "SwitchName=spine Switches=pod1",
    ]


def test_a_node_that_the_fabric_forgets_has_a_switch_below_the_top() -> None:
    """Slurm would start no job on it otherwise; the file says so."""
    text = render_topology(plan(TWO_LEAVES, "mix01", "new01", "t401"))

    assert "# In no switch of the fabric, here as far from all others as can be: new01" in str(text)
    assert lines(text) == [
        "SwitchName=unplaced Nodes=new01",
        "SwitchName=leaf1 Nodes=mix01",
        "SwitchName=leaf2 Nodes=t401",
        "SwitchName=spine Switches=leaf[1-2],unplaced",
    ]


def test_where_several_switches_are_at_the_top_it_stands_beside_them() -> None:
    """Nobody has said that the islands are connected."""
    fabric = {"a": {"nodes": "n1"}, "unplaced": {"nodes": "n2"}}

    assert lines(render_topology(plan(fabric, "n1", "n2", "n3"))) == [
        "SwitchName=unplaced- Nodes=n3",
        "SwitchName=a Nodes=n1",
        "SwitchName=unplaced Nodes=n2",
    ]


def test_without_a_fabric_or_nodes_there_is_no_file() -> None:
    """Slurm 26.05 refuses an empty one."""
    assert render_topology(plan({}, "n1")) is None
    assert render_topology(plan(TWO_LEAVES)) is None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{a: {switches: b}, c: {switches: b}, b: {nodes: n1}}", "b is below a and below c"),
        ("{a: {nodes: 'n[1-2]'}, b: {nodes: n2}}", "n2 is below a and below b"),
        ("{a: {switches: b}, b: {switches: a}}", "a is above itself"),
        ("{a: {switches: a}}", "a is above itself"),
        ("{a: {switches: b}}", "a: there is no switch b"),
        ("{a: {nodes: b}, b: {nodes: n1}}", "b is a switch and a node of a"),
        ("{a: {}}", "fabric.a: give either switches or nodes"),
        ("{a: {nodes: n1, switches: b}}", "fabric.a: give either switches or nodes"),
        ("{a: {nodes: 'n['}}", "fabric.a.nodes: 'n[' is no hostlist"),
        (f"{{{'s' * 65}: {{nodes: n1}}}}", "s" * 65),
        ("{'a b': {nodes: n1}}", "a b"),
        ("{a: {node: n1}}", "did you mean 'nodes'"),
    ],
)
def test_what_is_no_tree_is_refused_with_file_and_line(
    tmp_path: Path, text: str, part: str
) -> None:
    """Slurm accepts two parents and cycles silently."""
    path = tmp_path / "site.yaml"
    path.write_text(f"schema: hpcmgr.site/1\nfabric: {text}\n")

    with pytest.raises(ConfigError) as caught:
        load_site(path)

    assert part in str(caught.value)
    assert f"{path}:2" in str(caught.value)


def test_a_name_of_64_characters_is_good() -> None:
    """Slurm's own limit."""
    assert Site.model_validate({"fabric": {"s" * 64: {"nodes": "n1"}}}).fabric


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Switch]:
    """Random trees: every switch has one parent among those before it, leaves have nodes."""
    size = draw(st.integers(1, 12))
    children: dict[int, list[int]] = {number: [] for number in range(size)}
    for number in range(1, size):
        parent = draw(st.integers(-1, number - 1))
        if parent >= 0:
            children[parent].append(number)
    return {
        f"s{n}": Switch(switches=",".join(f"s{c}" for c in below))
        if below
        else Switch(nodes=f"n{n},m{n}")
        for n, below in children.items()
    }


@given(trees(), st.sets(st.from_regex(r"[nmx][0-9]", fullmatch=True), min_size=1))
def test_every_node_has_one_place_and_every_switch_one_parent(
    fabric: dict[str, Switch], nodes: set[str]
) -> None:
    """Whatever the fabric: each node just once, no empty switch, children defined before."""
    made, left = switch_lines(Site.model_validate({"fabric": fabric}).fabric, sorted(nodes), {})

    placed = [n for line in made if line.key == "Nodes" for n in expand(line.below)]
    below = [n for line in made if line.key == "Switches" for n in expand(line.below)]
    assert sorted(placed) == sorted(nodes)
    assert len(below) == len(set(below))
    assert all(line.below for line in made)
    assert set(left) == nodes - {n for s in fabric.values() if s.nodes for n in s.below}
    defined: set[str] = set()
    for line in made:
        if line.key == "Switches":
            assert set(expand(line.below)) <= defined
        defined.add(line.name)


def test_the_order_in_site_yaml_does_not_matter() -> None:
    """Equal fabric, equal bytes."""
    backwards = dict(reversed(TWO_LEAVES.items()))

    assert render_topology(plan(TWO_LEAVES, "mix01", "t401")) == render_topology(
        plan(backwards, "t401", "mix01")
    )
    assert switch_lines({"a": Switch(nodes="n1")}, ["n1"], {}) == (
        [SwitchLine("a", "Nodes", "n1")],
        [],
    )


def rendered_for(release: str, topology: dict[str, Any], *nodes: str) -> dict[str, str]:
    made = plan(TWO_LEAVES, *nodes)
    site = Site.model_validate({"fabric": TWO_LEAVES, "topology": topology})
    return rendered.render_topology(
        replace(made, site=site, fabric=plan_fabric(site, None, {}), release=Release.parse(release))
    )


NODES = ("mix01", "mix02", "t401", "t402", "new01")


def test_blocks_hold_every_node_and_the_base_size_that_the_release_takes() -> None:
    """Before 25.05 slurmctld refuses a block below the base size, so it is the smallest's."""
    older = rendered_for("24.11.5", {"plugins": ["block"]}, *NODES)["topology.conf"]
    newer = rendered_for("26.05.5", {"plugins": ["block"]}, *NODES)["topology.conf"]

    assert older.splitlines()[-4:] == [
        "BlockName=leaf1 Nodes=mix[01-02]",
        "BlockName=leaf2 Nodes=t[401-402]",
        "BlockName=unplaced Nodes=new01",
        "BlockSizes=1",
    ]
    assert newer.splitlines()[-1] == "BlockSizes=2"
    assert "# For TopologyPlugin=topology/block." in newer
    assert "# In no block of the fabric, here as far from all others as can be: new01" in newer


def test_two_topologies_are_one_yaml_where_the_release_reads_it() -> None:
    """Before, the first alone; the file says so."""
    both = {"plugins": ["block", "tree"], "block_sizes": [1, 2]}

    assert list(rendered_for("26.05.5", both, *NODES)) == ["topology.yaml"]
    first, second = yaml.safe_load(rendered_for("26.05.5", both, *NODES)["topology.yaml"])
    assert (first["topology"], first["cluster_default"]) == ("block", True)
    assert first["block"]["block_sizes"] == [1, 2]
    assert (second["topology"], second["cluster_default"]) == ("tree", False)
    older = rendered_for("24.11.5", both, *NODES)
    assert list(older) == ["topology.conf"]
    assert "# Without topology/tree: Slurm 24.11.5 has one topology only" in older["topology.conf"]


@pytest.mark.parametrize(
    ("topology", "part"),
    [
        ("{block_sizes: [4, 12]}", "topology.block_sizes: the first is the base size"),
        ("{block_sizes: [4, 2]}", "rising"),
        ("{block_sizes: [0]}", "greater than or equal to 1"),
        ("{plugins: []}", "at least 1 item"),
        ("{plugins: [tree, tree]}", "each once only"),
        ("{plugins: [ring]}", "'tree' or 'block'"),
        ("{blocks: {a: 'n[1-2]', b: n2}}", "n2 is in a and in b"),
        ("{rails: {include: ['mlx5_[']}}", "is no hostlist"),
        ("{scan: /x.yaml}", "fabric and topology.scan: give one of both"),
    ],
)
def test_topology_settings_that_slurmctld_would_refuse(
    tmp_path: Path, topology: str, part: str
) -> None:
    """Told before anything is rendered."""
    path = tmp_path / "site.yaml"
    path.write_text(f"fabric: {{a: {{nodes: n1}}}}\ntopology: {topology}\n")

    with pytest.raises(ConfigError) as caught:
        load_site(path)

    assert part in str(caught.value)
