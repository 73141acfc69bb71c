"""The kernel's tree of bridges: what lies between two functions where no tool says it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from hpcmgr.discovery import discover, open_host
from hpcmgr.discovery.node_graph import NodeGraph
from hpcmgr.discovery.recorder import files, record
from hpcmgr.discovery.recording_writer import write
from tests.unit.discovery.brands import Make, card
from tests.unit.discovery.conftest import LIBRARY, Recording

SWITCH = "pci0000:3a/0000:3a:00.0/0000:3b:00.0"
A, B, C, D, E = (f"0000:{bus}:00.0" for bus in ("3f", "40", "60", "3d", "e1"))
WAYS = {
    A: f"{SWITCH}/0000:3c:08.0/{A}",
    B: f"{SWITCH}/0000:3c:10.0/{B}",
    # Behind a switch of its own below that one.
    C: f"{SWITCH}/0000:3c:18.0/0000:50:00.0/0000:51:00.0/{C}",
    # Another port of the same host bridge, and another host bridge.
    D: f"pci0000:3a/0000:3a:02.0/{D}",
    E: f"pci0000:e0/0000:e0:01.0/{E}",
}


def machine(host: Recording, *places: str, domain: str = "") -> Recording:
    """Cards whose place in the bus is a link, as on a machine."""
    for pci in places:
        moved(card(host, pci, "cabc:0370", numa=0), pci, domain + WAYS[pci])
    return host


def moved(host: Recording, pci: str, way: str) -> None:
    """The function's folder lies where its way leads."""
    folder, real = host.folder / f"sys/bus/pci/devices/{pci}", host.folder / f"sys/devices/{way}"
    real.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(real)
    folder.symlink_to(f"../../../devices/{way}")


def test_the_words_are_those_of_the_tools(recording: Make) -> None:
    """One switch, a switch below a switch, the host bridge; between host bridges nothing."""
    links = machine(recording(""), A, B, C, D, E).discover().links

    assert {(link.a, link.b): link.kind for link in links} == {
        (A, B): "pix", (A, C): "pxb", (B, C): "pxb", (D, A): "phb", (D, B): "phb", (D, C): "phb"
    }  # fmt: skip
    assert not any(link.direct for link in links)


def test_the_tools_word_comes_first(recording: Make) -> None:
    """nvidia-smi's PHB stays, whatever the tree says; the graph tells whose word it is."""
    host = recording("mixed")
    before = host.discover()
    gpu, nic = next((x.a, x.b) for x in before.links if x.kind == "PIX")
    port = next(found.pci for found in before.nics if found.name == nic)
    for pci in (gpu, port or ""):
        moved(host, pci, f"pci0000:16/{pci[:5]}16:0{int(pci[6], 16)}.0/{pci}")
    after = host.discover()

    assert after.links == before.links


def test_a_graph_says_whose_word_it_is(recording: Make) -> None:
    """Small letters are hpcmgr's own."""
    graph = NodeGraph(machine(recording(""), A, B, E).discover())
    a, b, e = graph.ends
    near, far = graph.way(a, b), graph.way(a, e)

    assert near is not None
    assert far is not None
    assert (near.kind, near.said, far.kind) == ("pix", False, "node")


def test_a_domain_behind_a_bridge_of_its_own(recording: Make) -> None:
    """A volume management device has a host bridge below a function."""
    links = machine(recording(""), A, B, domain="pci0000:00/0000:00:0e.0/").discover().links

    assert [link.kind for link in links] == ["pix"]


@pytest.mark.parametrize(
    "target",
    [
        "../../../devices/virtual/x",
        f"../../../devices/{A}",
        f"../../../devices/pci0000:3a/{B}/0000:3b:00.0",
        "nonsense",
        "/",
    ],
)
def test_a_tree_that_does_not_show_it_adds_nothing(recording: Make, target: str) -> None:
    """As recordings made by hand, which have folders in place of links."""
    host = machine(recording(""), A, B)
    link = host.folder / f"sys/bus/pci/devices/{A}"
    real = link.resolve()
    link.unlink()
    if target == "/":
        real.rename(link)
    else:
        link.symlink_to(target)

    assert host.discover().links == ()


def test_a_recording_keeps_the_tree(recording: Make, tmp_path: Path) -> None:
    """The bridges above a device are in it."""
    host = machine(recording(""), A, B, C)
    recorded = files(record(open_host(host.folder), LIBRARY, date(2026, 1, 1)))
    write(recorded, tmp_path / "again", "again")
    links = discover(open_host(tmp_path / "again"), LIBRARY).links

    assert len(links) == 3
    assert links == host.discover().links
