"""The recorded hosts of this project, from end to end."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmgr.discovery import discover as discover_host
from hpcmgr.discovery import open_host
from tests.unit.discovery.conftest import LIBRARY, Recording, at

HOSTS = ("a100x8", "arc4", "cpu01", "cpx1", "gaudi8", "mi300x8", "mig4", "mixed", "mlu2mx2", "npu8",
         "t4x4", "vnpu2")  # fmt: skip


@pytest.mark.parametrize("name", HOSTS)
def test_the_inventory_is_the_golden_one(
    name: str, hosts: Path, golden: Callable[[str, str], None]
) -> None:
    """Each recorded host gives its inventory byte by byte."""
    golden(f"hosts/{name}.json", discover_host(open_host(hosts / name), LIBRARY).to_json())


@pytest.mark.parametrize("name", HOSTS)
def test_the_golden_inventory_can_fail(
    name: str, hosts: Path, recording: Callable[[str], Recording]
) -> None:
    """A machine with one other fact gives other bytes and another digest."""
    before = discover_host(open_host(hosts / name), LIBRARY)
    last = sorted((hosts / name / "sys/bus/pci/devices").iterdir())[-1].name
    changed = recording(name).removed(f"/sys/bus/pci/devices/{last}").discover()

    assert changed.digest != before.digest
    assert changed.model_copy(update={"node": before.node}).to_json() != before.to_json()


@pytest.mark.parametrize("name", HOSTS)
def test_a_packed_recording_is_the_same_machine(name: str, hosts: Path, tmp_path: Path) -> None:
    """A .tar.gz gives the inventory of the folder, with or without the folder on top."""
    expected = discover_host(open_host(hosts / name), LIBRARY)
    for arcname in (name, "."):
        path = tmp_path / "host.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            archive.add(hosts / name, arcname)

        assert discover_host(open_host(path), LIBRARY) == expected


def test_the_mixed_host_tells_its_numberings_apart(hosts: Path) -> None:
    """NPU 5 is listed first, is logic id 1, /dev/davinci5 and lies first on the bus."""
    inventory = discover_host(open_host(hosts / "mixed"), LIBRARY)
    npus = [d for d in inventory.devices if d.kind == "npu"]

    assert [(d.pci, d.index, d.files) for d in npus] == [
        ("0000:82:00.0", 1, ("/dev/davinci5",)),
        ("0000:c1:00.0", 0, ("/dev/davinci4",)),
    ]
    assert [d.profile for d in inventory.devices] == ["a100-80g", "ascend910b3", "ascend910b3"]


def test_the_rdma_card_near_the_gpu_is_known(hosts: Path) -> None:
    """InfiniBand lies on the GPU's NUMA node and one PCIe switch away, RoCE on the other node."""
    inventory = discover_host(open_host(hosts / "mixed"), LIBRARY)
    nics = {nic.rdma: nic for nic in inventory.nics if nic.rdma}

    assert (nics["mlx5_0"].link_layer, nics["mlx5_0"].numa_node) == ("InfiniBand", 0)
    assert (nics["mlx5_1"].link_layer, nics["mlx5_1"].numa_node) == ("Ethernet", 1)
    assert ("0000:17:00.0", "ibp24s0", "PIX") in [(x.a, x.b, x.kind) for x in inventory.links]


def test_the_t4_host_uses_minors_for_files_and_bus_order_for_indexes(hosts: Path) -> None:
    """The first GPU on the bus is index 0 and /dev/nvidia1."""
    inventory = discover_host(open_host(hosts / "t4x4"), LIBRARY)

    assert at(inventory, "0000:3b:00.0").index == 0
    assert at(inventory, "0000:3b:00.0").files == ("/dev/nvidia1",)
    assert [node.socket for node in inventory.cpu.numa] == [0, 1]


def test_sockets_are_numbered_as_slurm_does(hosts: Path) -> None:
    """Package ids 36 and 3180 are sockets 0 and 1, with two NUMA nodes each."""
    inventory = discover_host(open_host(hosts / "npu8"), LIBRARY)

    assert (inventory.cpu.sockets, inventory.cpu.cores_per_socket) == (2, 8)
    assert [node.socket for node in inventory.cpu.numa] == [0, 0, 1, 1]


@pytest.mark.parametrize("name", HOSTS)
def test_only_accelerators_are_devices(name: str, hosts: Path) -> None:
    """BMC displays and a processor's own engines have the class of an accelerator but are none."""
    inventory = discover_host(open_host(hosts / name), LIBRARY)

    assert all(device.profile for device in inventory.devices)
    # Where no tool says anything of health, nobody knows it.
    expected = "unknown" if name in ("arc4", "cpx1") else "ok"
    assert all(device.health.state == expected for device in inventory.devices)
    assert not inventory.broken_sources
