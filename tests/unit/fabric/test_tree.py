"""A scan → the tree and the rails that Slurm is told."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from hpcmgr.errors import PlanError
from hpcmgr.fabric import Scan, block_sizes, ibnetdiscover, lldp, plan_fabric
from hpcmgr.fabric.join import join
from hpcmgr.fabric.rails import choose
from hpcmgr.fabric.survey import Survey, survey
from hpcmgr.fabric.tree import find_leaves, make_tree
from hpcmgr.inventory import NodeInventory
from hpcmgr.settings import Rails, Site
from hpcmgr.settings.fabric import Fabric
from hpcmgr.slurm.capability import Release
from hpcmgr.slurm.hostlist import expand, fold
from tests import fabric_texts as texts

RAILS = ("mlx5_0", "mlx5_1")
STORAGE = "mlx5_8"


def rail_fabric(units: int = 4, nodes: int = 2) -> list[texts.Cable]:
    """Units with a leaf a rail; pods of two units, two spines a pod, two cores; a storage leaf."""
    cables = []
    for unit in range(units):
        for number in range(nodes):
            node = f"n{unit * nodes + number + 1:02}"
            cables += [(f"{node} {nic}", f"su{unit}-r{r}") for r, nic in enumerate(RAILS)]
            cables.append((f"{node} {STORAGE}", "stor1"))
        pod = unit // 2
        cables += [(f"su{unit}-r{r}", f"pod{pod}-s{s}") for r in range(2) for s in range(2)]
    for pod in range((units + 1) // 2):
        cables += [(f"pod{pod}-s{s}", f"core{c}") for s in range(2) for c in range(2)]
    return [*cables, ("stor1", "pod0-s0"), ("nas01 mlx5_0", "stor1")]


def inventories(count: int = 8) -> dict[str, NodeInventory]:
    names = [f"n{i + 1:02}" for i in range(count)]
    return {n: texts.node(n, near=RAILS, far=[STORAGE]) for n in names}


def surveyed(
    cables: Iterable[texts.Cable],
    nodes: dict[str, NodeInventory],
    rule: Rails = Rails(),  # noqa: B008
    last: Scan | None = None,
) -> Survey:
    return survey([ibnetdiscover.parse(texts.ibnetdiscover(cables))], {}, nodes, rule, last)


def shape(found: Survey) -> dict[str, str]:
    tree = make_tree(found.scan, found.choice.ports)
    return {name: switch.nodes or switch.switches or "" for name, switch in tree.switches.items()}


def test_rails_pods_and_cores_become_one_tree() -> None:
    """Leaves of one unit are one switch, redundant spines too; storage is left out."""
    found = surveyed(rail_fabric(), inventories())

    assert shape(found) == {
        "su0-r0": "n[01-02]",
        "su1-r0": "n[03-04]",
        "su2-r0": "n[05-06]",
        "su3-r0": "n[07-08]",
        "pod0-s0": "su[0-1]-r0",
        "pod1-s0": "su[2-3]-r0",
        "core0": "pod[0-1]-s0",
    }
    tree = make_tree(found.scan, found.choice.ports)
    assert tree.members["core0"] == ("core0", "core1")
    assert tree.members["su0-r0"] == ("su0-r0", "su0-r1")
    assert (found.faults, found.gaps, found.remarks) == ((), (), ())
    assert found.strangers == ("nas01",)


def test_the_storage_rail_is_left_out_by_its_distance_and_the_reason_is_told() -> None:
    """Its NIC is farther from the GPUs than the others."""
    rails = {r.nic: (r.chosen, r.why) for r in surveyed(rail_fabric(), inventories()).choice.rails}

    assert rails["mlx5_0"] == (True, "nearest to the devices")
    assert rails[STORAGE] == (
        False,
        "farther from the devices than other NICs: a storage rail",
    )


def test_a_rule_of_the_site_comes_first() -> None:
    """include names all that count; exclude takes away from the nearest."""
    found = surveyed(rail_fabric(), inventories(), Rails(include=("mlx5_[8-9]",)))
    without = surveyed(rail_fabric(), inventories(), Rails(exclude=("*_1",)))

    assert {p.nic for p in found.choice.ports} == {STORAGE}
    assert shape(found) == {"stor1": "n[01-08]"}
    assert {p.nic for p in without.choice.ports} == {"mlx5_0"}


def test_ethernet_is_left_out_where_there_is_infiniband() -> None:
    """A management network reaches every node, and says nothing."""
    ethernet = lldp.scan(
        {f"n{i:02}": texts.lldp(("eno1", "mgmt1")) for i in range(1, 9)}, inventories()
    )
    both, _ = join(
        [ibnetdiscover.parse(texts.ibnetdiscover(rail_fabric())), ethernet], {}, inventories()
    )

    chosen = choose(both, Rails(), inventories())
    by_name = choose(both, Rails(network="ethernet"), inventories())

    assert {p.network for p in chosen.ports} == {"infiniband"}
    assert {r.nic: r.why for r in chosen.rails}["eno1"] == (
        "ethernet; the compute network is infiniband"
    )
    assert {p.nic for p in by_name.ports} == {"eno1"}


def test_a_node_that_lost_a_cable_stays_with_its_unit() -> None:
    """It is told, and so is a node that is cabled to two units."""
    cables = [c for c in rail_fabric() if c != ("n01 mlx5_1", "su0-r1")]
    crossed = [("n03 mlx5_1", "su0-r1") if c == ("n03 mlx5_1", "su1-r1") else c for c in cables]

    found = surveyed(crossed, inventories())

    assert shape(found)["su0-r0"].startswith("n[01-0")
    assert found.gaps == ()
    assert any("n01: cabled to some switches of su0-r0 only" in r for r in found.remarks)
    assert any(r.startswith("n03: below") for r in found.remarks)
    assert any("n01: fewer rails than the 2" in r for r in found.remarks)


def test_incomplete_scans_are_told() -> None:
    """A node that is missing, one that was there before, a leaf without its uplinks."""
    whole = surveyed(rail_fabric(), inventories())
    cables = rail_fabric()
    without_node = [c for c in cables if not c[0].startswith("n05 ")]
    without_uplink = [c for c in cables if c[0] not in ("su0-r0", "su0-r1")]
    known = {n: i for n, i in inventories().items() if n != "n05"}

    assert surveyed(without_node, inventories()).gaps == (
        "no compute NIC of n05 is in the scan (1 node)",
    )
    assert surveyed(without_node, known, last=whole.scan).gaps == (
        "n05 stood in the last scan, below a switch (1 node)",
    )
    assert surveyed(without_uplink, inventories()).faults == (
        "switch su0-r0 has no cable to any other switch, others have",
        "switch su0-r1 has no cable to any other switch, others have",
    )


def test_a_node_without_infiniband_is_no_gap() -> None:
    """What it does not have cannot be missing; nor a node whose NICs nobody knows."""
    plain = {**inventories(), "cpu01": texts.node("cpu01", ethernet=["eno1"])}

    assert surveyed(rail_fabric(), plain).gaps == ()


def test_leaves_that_are_cabled_to_each_other_have_one_switch_above() -> None:
    """No spine to be named after."""
    cables = [("n01 mlx5_0", "a1"), ("n02 mlx5_0", "a2"), ("a1", "a2")]
    nodes = {n: texts.node(n, near=["mlx5_0"]) for n in ("n01", "n02")}

    assert shape(surveyed(cables, nodes)) == {"a1": "n01", "a2": "n02", "above-a1": "a[1-2]"}


def test_islands_stay_islands() -> None:
    """Nobody has said that they are connected."""
    cables = [("n01 mlx5_0", "a1"), ("n02 mlx5_0", "a2")]
    nodes = {n: texts.node(n, near=["mlx5_0"]) for n in ("n01", "n02")}

    assert shape(surveyed(cables, nodes)) == {"a1": "n01", "a2": "n02"}


def test_a_scan_keeps_its_bytes_and_is_read_back(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """The order in which the tool tells things does not matter."""
    from hpcmgr.fabric import load_scan

    scan = surveyed(rail_fabric(), inventories()).scan
    path = tmp_path / "fabric.yaml"
    path.write_text(scan.to_json())

    assert load_scan(path) == scan
    assert surveyed(list(reversed(rail_fabric())), inventories()).scan.switches.keys() == (
        scan.switches.keys()
    )


def test_blocks_come_from_the_site_then_from_nvlink_then_from_leaves() -> None:
    """The first that says anything."""
    scan = surveyed(rail_fabric(), inventories()).scan
    domains = {"u.1": ("n01", "n02", "n03"), "u.2": ("n04",)}
    nvlink = join([ibnetdiscover.parse(texts.ibnetdiscover(rail_fabric()))], domains, inventories())
    site = Site()
    own = Site.model_validate({"topology": {"blocks": {"rack1": "n[01-04]"}}})

    assert list(plan_fabric(site, scan, inventories()).blocks) == [
        "su0-r0", "su1-r0", "su2-r0", "su3-r0",
    ]  # fmt: skip
    assert plan_fabric(site, nvlink[0], inventories()).blocks == {
        "nvl-u.1-1": ("n01", "n02", "n03"),
        "nvl-u.2-2": ("n04",),
    }
    assert list(plan_fabric(own, nvlink[0], inventories()).blocks) == ["rack1"]


@pytest.mark.parametrize(
    ("release", "sizes", "spare", "expected"),
    [
        ("26.05.5", [18, 18, 17], [], (18,)),
        ("26.05.5", [18, 18, 17], ["x"], (18,)),
        ("24.11.5", [18, 18, 17], [], (17,)),
        ("24.11.5", [18, 18], ["x"], (1,)),
        ("26.05.5", [4, 8], [], (8,)),
    ],
)
def test_the_base_size(
    release: str, sizes: list[int], spare: list[str], expected: tuple[int, ...]
) -> None:
    """What most blocks have; before 25.05 slurmctld refuses any block below it."""
    blocks = {f"b{i}": [f"n{i}-{k}" for k in range(size)] for i, size in enumerate(sizes)}

    assert block_sizes(blocks, spare, Site(), Release.parse(release)) == expected


def test_own_block_sizes_are_refused_where_slurmctld_would_not_start() -> None:
    """The block is named."""
    site = Site.model_validate({"topology": {"block_sizes": [4, 16]}})
    blocks = {"b1": ["n1", "n2"]}

    assert block_sizes(blocks, [], site, Release.parse("26.05.5")) == (4, 16)
    with pytest.raises(PlanError, match="b1 has 2"):
        block_sizes(blocks, [], site, Release.parse("24.11.5"))


@st.composite
def fabrics(draw: st.DrawFn) -> list[texts.Cable]:
    """Random cables: some switches, some between them, some hosts with one or two NICs."""
    switches = [f"w{i}" for i in range(draw(st.integers(1, 6)))]
    pairs = st.tuples(st.sampled_from(switches), st.sampled_from(switches))
    cables = {tuple(sorted(p)) for p in draw(st.lists(pairs, max_size=10)) if p[0] != p[1]}
    hosts = draw(st.integers(1, 6))
    ends = [
        (f"n{i} mlx5_{nic}", draw(st.sampled_from(switches)))
        for i in range(hosts)
        for nic in range(draw(st.integers(1, 2)))
    ]
    return [*sorted(cables), *ends]


@given(fabrics())
def test_whatever_the_cabling_it_is_a_tree_with_every_node_once(cables: list[texts.Cable]) -> None:
    """site.yaml's own check passes, and nodes that a path joins have a switch in common."""
    names = {c[0].split()[0] for c in cables if " " in c[0]}
    nodes = {n: texts.node(n, devices=1) for n in names}

    found = surveyed(cables, nodes)
    tree = make_tree(found.scan, found.choice.ports)

    TypeAdapter(Fabric).validate_python(
        {name: switch.model_dump(exclude_none=True) for name, switch in tree.switches.items()}
    )
    placed = [n for s in tree.switches.values() if s.nodes for n in expand(s.nodes)]
    assert sorted(placed) == sorted(names)
    assert fold(placed) == fold(n for leaf in find_leaves(found.choice.ports) for n in leaf.nodes)
    assert len(tops(tree.switches)) == islands(cables, names)


def tops(switches) -> set[str]:  # type: ignore[no-untyped-def]
    below = {c for s in switches.values() if s.switches for c in expand(s.switches)}
    return set(switches) - below


def islands(cables: list[texts.Cable], names: set[str]) -> int:
    """Parts of the graph that hold nodes; a node joins its switches."""
    group = {n: {n} for n in {e.split()[0] for c in cables for e in c}}
    for a, b in cables:
        joined = group[a.split()[0]] | group[b.split()[0]]
        for member in joined:
            group[member] = joined
    return len({frozenset(group[n]) for n in names})
