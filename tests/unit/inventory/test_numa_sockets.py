"""NUMA nodes as sockets: NPS4 and SNC."""

from __future__ import annotations

import pytest

from hpcmgr.inventory import CpuTopology, Device, NodeInventory, NumaNode
from hpcmgr.inventory.numa_sockets import advice, by_numa
from hpcmgr.slurm.capability import Release


def nps(*nodes: tuple[str, int | None], sockets: int = 2, threads: int = 2) -> CpuTopology:
    """Two packages of 8 cores, NUMA nodes as given by their CPUs and package."""
    return CpuTopology(
        sockets=sockets,
        cores_per_socket=8,
        threads_per_core=threads,
        numa=tuple(NumaNode(id=i, cpus=cpus, socket=s) for i, (cpus, s) in enumerate(nodes)),
    )


NPS2 = nps(("0-3,16-19", 0), ("4-7,20-23", 0), ("8-11,24-27", 1), ("12-15,28-31", 1))


def node(cpu: CpuTopology, *numa: int | None) -> NodeInventory:
    """A node with a device on each of these NUMA nodes."""
    devices = tuple(
        Device(vendor="amd", kind="gpu", model="x", pci=f"0000:{i:02x}:00.0", numa_node=n)
        for i, n in enumerate(numa)
    )
    return NodeInventory(node="n1", cpu=cpu, memory_mib=1, devices=devices)


def test_every_numa_node_is_a_socket() -> None:
    """In the order of their lowest CPU, as slurmd numbers sockets."""
    counted = by_numa(NPS2)

    assert counted is not None
    assert (counted.sockets, counted.cores_per_socket, counted.threads_per_core) == (4, 4, 2)
    assert [n.socket for n in counted.numa] == [0, 1, 2, 3]


def test_numbers_of_numa_nodes_need_not_be_in_order() -> None:
    """Some firmware numbers them across packages; memory of GPUs is a node without CPUs."""
    counted = by_numa(nps(("8-15", 1), ("0-7", 0), ("", None), threads=1))

    assert counted is not None
    assert [n.socket for n in counted.numa] == [1, 0, None]


@pytest.mark.parametrize(
    "cpu",
    [
        nps(("0-3,16-19", 0), ("4-7,20-23", 0), ("8-15,24-31", 1)),
        nps(("0-15", None), ("16-31", None)),
        nps(("0-3,16-19", 0), ("4-7,20-23", 0)),
        nps(),
    ],
)
def test_what_cannot_stand_for_sockets(cpu: CpuTopology) -> None:
    """Different sizes, nodes over several packages, offline CPUs, no nodes."""
    assert by_numa(cpu) is None


@pytest.mark.parametrize(
    ("release", "part"),
    [
        ("24.11.5", "SlurmdParameters=numa_node_as_socket in slurm.conf"),
        ("26.05.5", "set Parameters=numa_node_as_socket on its NodeName line,"),
        (None, "(Slurm 25.11 and newer) or SlurmdParameters="),
    ],
)
def test_the_advice_fits_the_release(release: str | None, part: str) -> None:
    """Before 25.11 it can only be said for all nodes."""
    text = advice(node(NPS2, 0, 1, 2), Release.parse(release) if release else None)

    assert text.startswith("devices of socket 0 are on several NUMA nodes")
    assert part in text
    assert "'sockets: numa'" in text
    assert "4 sockets x 4 cores" in text


@pytest.mark.parametrize("numa", [(), (0, 0, 2, 2), (None, 0), (1, 3)])
def test_nothing_is_said_where_sockets_are_fine_enough(numa: tuple[int | None, ...]) -> None:
    """One NUMA node with devices in each socket is told apart by the sockets."""
    assert advice(node(NPS2, *numa), None) == ""
