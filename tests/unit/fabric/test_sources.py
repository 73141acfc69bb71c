"""What ibnetdiscover, lldpcli and the GPUs say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.fabric import ibnetdiscover, lldp, nvlink
from hpcmgr.fabric.join import join, switch_names
from tests import fabric_texts as texts

CABLES = [
    ("n01 mlx5_0", "leaf1"),
    ("n02 mlx5_0", "leaf2"),
    ("n02 HCA-1", "leaf2"),
    ("leaf1", "spine1"),
    ("leaf2", "spine1"),
]
NODES = [f"n{i}" for i in range(4)]


def test_ibnetdiscover_tells_switches_cables_and_hosts() -> None:
    """Each cable once, though both ends tell it; NICs by the words of the node description."""
    seen = ibnetdiscover.parse(texts.ibnetdiscover(CABLES))

    names = {number: text.split(";")[1].split(":")[0] for number, text in seen.switches.items()}
    assert sorted(names.values()) == ["leaf1", "leaf2", "spine1"]
    assert {(host, nic, names[switch]) for host, nic, switch in seen.ports} == {
        ("n01", "mlx5_0", "leaf1"),
        ("n02", "mlx5_0", "leaf2"),
        ("n02", "HCA-1", "leaf2"),
    }
    assert len(seen.cables) == 2
    assert seen.problems == []


def test_the_ports_report_tells_the_same() -> None:
    """``-p``; ports without a cable are passed over."""
    seen = ibnetdiscover.parse(texts.ports_report(CABLES))

    assert (len(seen.switches), len(seen.cables), len(seen.ports)) == (3, 2, 3)
    assert seen.problems == []


def test_ports_spellings_and_foreign_adapters() -> None:
    """A second port is another NIC; aggregation nodes and nameless adapters are no hosts."""
    text = (
        'Switch\t40 "S-0000000000000010"\t\t# "SwitchX -  Mellanox Technologies" base port 0\n'
        '[3][ext 12]\t"H-0000000000000020"[2](22) \t\t# "n07 mlx4_0" lid 3 4xFDR\n'
        '[4]\t"H-0000000000000030"[1](31) \t\t# "Mellanox Technologies Aggregation Node"\n'
        'Ca\t2 "H-0000000000000020"\t\t# "n07 mlx4_0"\n'
        '[2](22) \t"S-0000000000000010"[3]\t\t# lid 3 lmc 0 "SwitchX" lid 5 4xFDR\n'
        'Ca\t1 "H-0000000000000030"\t\t# "Mellanox Technologies Aggregation Node"\n'
        '[1](31) \t"S-0000000000000010"[4]\t\t# lid 8 lmc 0 "SwitchX" lid 5 4xHDR\n'
    )

    seen = ibnetdiscover.parse(text)

    assert seen.ports == {("n07", "mlx4_0/2", "0000000000000010")}
    assert seen.problems == []


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "it names no host"),
        ("ibwarn: [811] mad_rpc: _do_madrpc failed; dport (DR path)\n", "line 1 cannot be read"),
        (texts.ibnetdiscover(CABLES).partition("Ca\t")[0], "cut off"),
    ],
)
def test_what_is_not_all_there_is_a_problem(text: str, part: str) -> None:
    """A warning of the tool, or a text that ends early, is never passed over."""
    assert part in "; ".join(ibnetdiscover.parse(text).problems)


@given(st.integers(1, len(texts.ibnetdiscover(CABLES).splitlines()) - 1))
def test_a_text_that_ends_early_never_passes_for_whole(lines: int) -> None:
    """Cut behind any line but in the last adapter: something is missing, and is said."""
    whole = texts.ibnetdiscover(CABLES).splitlines()
    cut = ibnetdiscover.parse("\n".join(whole[:lines]))
    complete = ibnetdiscover.parse("\n".join(whole))

    assert cut.problems or (cut.ports, cut.cables) == (complete.ports, complete.cables)


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    """Foreign text may say anything."""
    ibnetdiscover.parse(text)
    assert lldp.scan({"n1": text}, ["n1"]).problems


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["lldp", "interface", "chassis", "id", "name", "value", "eth0"]),
                inner,
                max_size=3,
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_is_neighbours_or_a_reason(document: object) -> None:
    """No shape makes it fail otherwise."""
    lldp.scan({"n1": json.dumps({"lldp": document})}, ["n1"])


@pytest.mark.parametrize("printed", [texts.lldp, texts.lldp0])
def test_lldp_in_its_shapes(printed) -> None:  # type: ignore[no-untyped-def]
    """One neighbour, several and none, as json and json0 spell them."""
    one = lldp.parse(printed(("eth2", "leaf1")))
    two = lldp.parse(printed(("eth2", "leaf1"), ("eth3", "leaf2")))

    assert [(n.interface, n.name, n.forwards) for n in one] == [("eth2", "leaf1", True)]
    assert [(n.interface, n.name) for n in two] == [("eth2", "leaf1"), ("eth3", "leaf2")]
    assert lldp.parse(printed()) == []


def test_lldp_of_a_chassis_without_a_name() -> None:
    """It stands without its name in between; a host that does not forward is no switch."""
    text = json.dumps(
        {"lldp": {"interface": {"eth0": {"chassis": {
            "id": {"type": "mac", "value": "02:aa"},
            "capability": {"type": "Bridge", "enabled": False},
        }}}}}
    )  # fmt: skip

    assert lldp.parse(text)[0].id == "02:aa"
    assert lldp.scan({"n1": text}, ["n1"]).switches == {}


def test_lldp_files_of_nodes_and_switches_make_one_network() -> None:
    """A switch's own file tells its cables; a node's its NICs."""
    seen = lldp.scan(
        {
            "n1": texts.lldp(("eth2", "leaf1"), ("eth3", "leaf2")),
            "leaf1": texts.lldp(("swp49", "spine1"), ("swp1", "n1")),
            "broken": "{",
        },
        ["n1"],
    )

    assert {(h, i) for h, i, _ in seen.ports} == {("n1", "eth2"), ("n1", "eth3")}
    assert (texts.mac("leaf1"), texts.mac("spine1")) in seen.cables
    assert seen.problems[0].startswith("broken: no JSON")


def test_without_the_switches_own_files_one_core_stands_above_the_leaves() -> None:
    """Nodes see their own switch only."""
    seen = lldp.scan({f"n{i}": texts.lldp(("eth2", f"leaf{i % 2}")) for i in range(4)}, NODES)

    scan, strangers = join([seen], {}, NODES)

    assert scan.switches["core"].links == "leaf[0-1]"
    assert scan.switches["leaf0"].hosts == {"eth2": "n[0,2]"}
    assert strangers == ()


def test_names_of_switches() -> None:
    """From the description, else from the id; alike ones carry their id, all of them."""
    described = {
        "0a": "MF0;rack7-leaf:MQM8700/U1",
        "0b": "Quantum Mellanox Technologies",
        "0c": "tor.example.org",
        "0d": "tor",
        "0e": "x" * 80,
        "0f": "n1",
    }

    assert switch_names(described, {"n1"}) == {
        "0a": "rack7-leaf",
        "0b": "sw-0b",
        "0c": "tor-0c",
        "0d": "tor-0d",
        "0e": "sw-0e",
        "0f": "n1-0f",
    }


def test_hosts_are_nodes_by_their_short_name_too() -> None:
    """Others are strangers: storage, login nodes."""
    cables = [("n01.cluster.example mlx5_0", "leaf1"), ("nas mlx5_0", "leaf1")]

    scan, strangers = join([ibnetdiscover.parse(texts.ibnetdiscover(cables))], {}, ["n01"])

    assert scan.switches["leaf1"].hosts == {"mlx5_0": "n01"}
    assert strangers == ("nas",)


def test_nvlink_domains_are_nodes_that_say_the_same() -> None:
    """Cluster and clique; a node in two domains is a problem, one without is none."""
    a, b = "c11aa3f0-6a5e-4a61-9a51-0c1f6a2f7d10.7", "d0d0a3f0-6a5e-4a61-9a51-0c1f6a2f7d10.7"
    nodes = [texts.node("g1", domain=a), texts.node("g2", domain=a), texts.node("g3", domain=b),
             texts.node("c1")]  # fmt: skip
    torn = texts.node("g4", domain=a, devices=2)
    lost = torn.devices[1].model_copy(update={"nvlink_domain": None})
    torn = torn.model_copy(update={"devices": (torn.devices[0], lost)})

    assert nvlink.domains(nodes) == ({a: ("g1", "g2"), b: ("g3",)}, [])
    assert nvlink.domains([torn])[1] == [f"g4: its GPUs are in several NVLink domains: {a}, none"]
    scan, _ = join([], {a: ("g1", "g2"), b: ("g3",)}, [])
    assert {n: d.nodes for n, d in scan.domains.items()} == {
        "nvl-c11aa3f0-7": "g[1-2]",
        "nvl-d0d0a3f0-7": "g3",
    }


def test_the_public_examples_are_read(corpus: Path) -> None:
    """Real outputs: nothing fails, and what is in them is found."""
    folder = corpus.parents[1] / "slurm" / "topology"
    plain = lldp.parse((folder / "060.json").read_text())
    listed = lldp.parse((folder / "062.json").read_text())

    assert plain == listed
    assert [(n.interface, n.name) for n in plain] == [("eth0", "ns-2.example.com")]
    assert lldp.parse((folder / "064.json").read_text()) == []
    assert ibnetdiscover.parse((folder / "059.ibnetdiscover").read_text()).problems
