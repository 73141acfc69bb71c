"""NUMA nodes, sockets, addresses, device files and what sources disagree on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hpcmgr.inventory import cpu_list
from hpcmgr.inventory.pci_address import canonical, sort_key
from tests.unit.discovery.brands import nodes
from tests.unit.discovery.conftest import Recording, at, source

Make = Callable[[str], Recording]
QX = ("nvidia-smi", "-q", "-x")
GPU, NPU4 = "0000:17:00.0", "0000:c1:00.0"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("3b:00.0", "0000:3b:00.0"),
        ("00:01:00.0", "0000:01:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("0001580:00:00.0", "1580:00:00.0"),
        ("NA", None),
        ("", None),
        (None, None),
        ("3b:00", None),
        ("3b:20.0", None),
        ("3b:00.8", None),
    ],
)
def test_every_spelling_of_an_address_is_one(text: str | None, expected: str | None) -> None:
    """Addresses are spelt as sysfs spells them, or are none."""
    assert canonical(text) == expected


def test_addresses_are_ordered_by_number() -> None:
    """A wide domain comes after a narrow one, no address last."""
    places = ["10000:01:00.0", None, "0001:02:00.0", "0000:ff:00.0"]

    assert sorted(places, key=sort_key) == [
        "0000:ff:00.0",
        "0001:02:00.0",
        "10000:01:00.0",
        None,
    ]


def test_numa_minus_one_is_unknown(recording: Make) -> None:
    """On a machine with two NUMA nodes nobody knows where the card is."""
    host = recording("mixed").file(f"/sys/bus/pci/devices/{GPU}/numa_node", "-1\n")

    assert at(host.discover(), GPU).numa_node is None


def test_numa_minus_one_on_a_machine_with_one_node_is_that_node(recording: Make) -> None:
    """There is only one place where it can be."""
    host = recording("mixed").file(f"/sys/bus/pci/devices/{GPU}/numa_node", "-1\n")
    host.removed("/sys/devices/system/node/node1")

    assert at(host.discover(), GPU).numa_node == 0


def test_a_numa_node_without_cpus_has_no_socket_and_is_no_place(recording: Make) -> None:
    """Memory of a GPU can be a NUMA node of its own; the rule for one node counts CPU nodes."""
    host = recording("mixed").file("/sys/devices/system/node/node1/cpulist", "\n")
    host.file(f"/sys/bus/pci/devices/{GPU}/numa_node", "-1\n")
    inventory = host.discover()

    assert inventory.cpu.numa[1].socket is None
    assert inventory.cpu.numa[1].cpus == ""
    assert at(inventory, GPU).numa_node == 0


def test_a_numa_node_over_two_sockets_belongs_to_none(recording: Make) -> None:
    """Virtual machines have such; its devices have a NUMA node and no socket."""
    host = recording("mixed").removed("/sys/devices/system/node/node1")
    host.file("/sys/devices/system/node/node0/cpulist", "0-63\n")
    inventory = host.discover()

    assert inventory.cpu.sockets == 2
    assert [(node.cpus, node.socket) for node in inventory.cpu.numa] == [("0-63", None)]
    assert at(inventory, GPU).numa_node == 0


def test_npu_smis_affinity_is_not_believed(recording: Make) -> None:
    """npu-smi prints the CPUs of node 0 where the kernel says that it does not know."""
    host = recording("mixed").file(f"/sys/bus/pci/devices/{NPU4}/numa_node", "-1\n")
    topo = ("npu-smi", "info", "-t", "topo")
    host.answers(topo, host.text(*topo).replace("16-31,48-63", "0-15,32-47"))

    assert at(host.discover(), NPU4).numa_node is None


def test_offline_cpus_are_not_counted(recording: Make) -> None:
    """A CPU without topology is offline and named."""
    host = recording("npu8").removed("/sys/devices/system/cpu/cpu15/topology")
    host.file("/sys/devices/system/cpu/cpu15/online", "0\n")
    inventory = host.discover()

    assert inventory.cpu.cores_per_socket == 7
    assert source(inventory, "cpu").detail.endswith("CPUs offline: 15")


def test_cores_without_sibling_lists_are_told_apart_by_die(recording: Make) -> None:
    """core_id repeats over the dies of a package."""
    host = recording("")
    for cpu in range(4):
        base = f"/sys/devices/system/cpu/cpu{cpu}/topology"
        host.file(f"{base}/physical_package_id", "0").file(f"{base}/core_id", str(cpu % 2))
        host.file(f"{base}/die_id", str(cpu // 2))
    host.file("/proc/meminfo", "MemTotal: 1048576 kB\n")
    cpu = host.discover().cpu

    assert (cpu.sockets, cpu.cores_per_socket, cpu.threads_per_core) == (1, 4, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-3,8", {0, 1, 2, 3, 8}), ("", set()), ("3-1", None), ("a", None), ("0-99999999", None)],
)
def test_cpu_lists(text: str, expected: set[int] | None) -> None:
    """Lists are read as the kernel writes them; nonsense is none."""
    assert cpu_list.parse(text) == expected


def test_a_missing_device_node_is_told(recording: Make) -> None:
    """A file that does not exist is not handed on to Slurm."""
    host = recording("mixed")
    nodes = (host.folder / "dev.txt").read_text().splitlines()
    host.file("dev.txt", "\n".join(line for line in nodes if "/dev/nvidia0 " not in line))
    gpu = at(host.discover(), GPU)

    assert gpu.files == ()
    assert gpu.health.state == "degraded"
    assert "/dev/nvidia0 does not exist" in gpu.health.reasons


def test_without_a_list_of_nodes_the_tool_is_believed(recording: Make) -> None:
    """A recording without dev.txt still has the files that the tool names."""
    host = recording("mixed").removed("dev.txt")
    inventory = host.discover()

    assert at(inventory, GPU).files == ("/dev/nvidia0",)
    assert at(inventory, NPU4).files == ()
    assert "device node unknown of NPU 4, 5" in source(inventory, "npu-smi").detail


def test_device_nodes_that_fit_two_numberings_differently_decide_nothing(recording: Make) -> None:
    """NPU ids and logic ids both name 0 and 1, but crosswise."""
    host = recording("mixed")
    for question in (("info",), ("info", "-m"), ("info", "-l")):
        text = host.text("npu-smi", *question)
        text = text.replace("| 4 ", "| 0 ").replace("| 5 ", "| 1 ").replace("\t4 ", "\t0 ")
        host.answers(("npu-smi", *question), text.replace("\t5 ", "\t1 "))
    mapping = host.text("npu-smi", "info", "-m").splitlines()
    swapped = [mapping[0], mapping[1][:62] + "\t1     Ascend 910B3",
               mapping[3][:62] + "\t0     Ascend 910B3"]  # fmt: skip
    host.answers(("npu-smi", "info", "-m"), "\n".join(swapped))
    nodes = (host.folder / "dev.txt").read_text()
    host.file("dev.txt", nodes.replace("davinci4", "davinci0").replace("davinci5", "davinci1"))
    inventory = host.discover()

    assert [d.files for d in inventory.devices if d.kind == "npu"] == [(), ()]


def test_a_printed_physical_id_is_the_device_node(recording: Make) -> None:
    """Where npu-smi has a Phy-ID column nothing is concluded."""
    host = recording("mixed")
    table = host.text("npu-smi", "info").replace("| Chip    ", "| Chip  Phy-ID", 1)
    table = table.replace("| Chip                      |", "| Chip  Phy-ID              |")
    lines = [
        line.replace("| 0     ", "| 0     4" if "C1:00" in line else "| 0     5", 1)
        if ":00.0" in line
        else line
        for line in table.splitlines()
    ]
    host.removed("dev.txt").answers(("npu-smi", "info"), "\n".join(lines))

    assert at(host.discover(), NPU4).files == ("/dev/davinci4",)


def test_chips_on_one_address_are_two_devices(recording: Make) -> None:
    """A Duo card has two chips behind one PCI function; sysfs facts hold for both."""
    host = recording("mixed").file("/sys/bus/pci/devices/0000:82:00.0/numa_node", "1")
    host.removed("/sys/bus/pci/devices/0000:c1:00.0")
    row = (
        "| {npu:<5} 310P3                 | OK            | NA          45       0     / 0    |\n"
        "| {chip:<5} {phy:<21} | 0000:82:00.0  | 0           1263 / 44280 |\n"
    )
    head = (
        "| NPU     Name                | Health        | Power(W)                |\n"
        "| Chip    Device              | Bus-Id        | AICore(%)  Memory-Usage(MB) |\n"
    )
    rows = row.format(npu=9, chip=0, phy=4) + row.format(npu=9, chip=1, phy=5)
    host.without("npu-smi").answers(("npu-smi", "info"), head + rows)
    inventory = host.discover()
    chips = [d for d in inventory.devices if d.kind == "npu"]

    assert [(d.pci, d.chip, d.files, d.numa_node) for d in chips] == [
        ("0000:82:00.0", 0, ("/dev/davinci4",), 1),
        ("0000:82:00.0", 1, ("/dev/davinci5",), 1),
    ]
    assert chips[0].key != chips[1].key


def test_a_serial_on_two_cards_is_named_on_both(recording: Make) -> None:
    """Two cards with one serial number cannot be told apart in a ledger."""
    host = recording("t4x4")
    text = host.text(*QX).replace("1321220643022", "1321220641905")
    inventory = host.answers(QX, text).discover()

    assert "also stands on 0000:5e:00.0" in at(inventory, "0000:3b:00.0").conflicts[0]
    assert "also stands on 0000:3b:00.0" in at(inventory, "0000:5e:00.0").conflicts[0]
    assert at(inventory, "0000:af:00.0").conflicts == ()


def test_two_gpus_of_one_board_may_share_its_serial(recording: Make) -> None:
    """A dual-GPU board has one serial number, which is no conflict."""
    host = recording("t4x4")
    text = host.text(*QX).replace("1321220643022", "1321220641905")
    text = text.replace("<multigpu_board>No", "<multigpu_board>Yes")
    inventory = host.answers(QX, text).discover()

    assert all(device.conflicts == () for device in inventory.devices)


def test_sources_that_disagree_are_named_with_both_values(recording: Make) -> None:
    """The driver in /proc says another minor and uuid than nvidia-smi."""
    host = recording("mixed")
    path = f"/proc/driver/nvidia/gpus/{GPU}/information"
    text = (host.folder / path.lstrip("/")).read_text()
    host.file(path, text.replace("Device Minor: \t 0", "Device Minor: \t 3"))
    gpu = at(host.discover(), GPU)

    assert gpu.files == ("/dev/nvidia0",)
    assert gpu.conflicts == (
        "files: nvidia-smi says /dev/nvidia0, nvidia-driver says /dev/nvidia3",
    )


def test_an_unknown_accelerator_is_reported_without_profile(recording: Make) -> None:
    """A processing accelerator that nobody knows is listed with its PCI id."""
    host = recording("t4x4")
    base = "/sys/bus/pci/devices/0000:b1:00.0"
    host.file(f"{base}/class", "0x120000").file(f"{base}/vendor", "0x1fff")
    host.file(f"{base}/device", "0x0042").file(f"{base}/numa_node", "1")
    device = at(host.discover(), "0000:b1:00.0")

    assert (device.vendor, device.kind, device.model) == ("pci-1fff", "npu", "PCI 1fff:0042")
    assert device.profile is None
    assert device.health.state == "unknown"


@pytest.mark.parametrize("pci_id", ["1a03:2000", "102b:0536", "19e5:1711", "1234:1111", "1002:0"])
def test_a_bmc_display_is_no_accelerator(recording: Make, pci_id: str) -> None:
    """VGA controllers of BMCs and virtual machines are left out; a GPU maker's card is not."""
    host = recording("t4x4")
    base = "/sys/bus/pci/devices/0000:04:00.0"
    vendor, device = pci_id.split(":")
    host.file(f"{base}/class", "0x030000").file(f"{base}/vendor", f"0x{vendor}")
    host.file(f"{base}/device", f"0x{device.zfill(4)}").file(f"{base}/numa_node", "0")
    listed = {d.pci for d in host.discover().devices}

    assert ("0000:04:00.0" in listed) == (vendor == "1002")


def test_mig_slices_have_names_and_three_files(recording: Make) -> None:
    """Names come from -L, files from the driver's minors in the order that Slurm needs."""
    host = recording("mixed")
    mig = (
        "<mig_device><index>0</index><gpu_instance_id>2</gpu_instance_id>"
        "<compute_instance_id>0</compute_instance_id><fb_memory_usage><total>40192 MiB</total>"
        "</fb_memory_usage></mig_device>"
    )
    text = host.text(*QX).replace("current_mig>Disabled", "current_mig>Enabled")
    host.answers(QX, text.replace("None\n\t\t</mig_devices>", f"{mig}\n\t\t</mig_devices>"))
    listed = host.text("nvidia-smi", "-L").rstrip("\n")
    uuid = "MIG-6a1f2c90-5d37-5b8e-9c44-0e7712af3b60"
    host.answers(("nvidia-smi", "-L"), f"{listed}\n  MIG 3g.40gb     Device  0: (UUID: {uuid})\n")
    host.file("/proc/driver/nvidia-caps/mig-minors", "gpu0/gi2/access 21\ngpu0/gi2/ci0/access 22\n")
    without = at(host.discover(), GPU)
    nodes(host, "/dev/nvidia0", *(f"/dev/nvidia-caps/nvidia-cap{n}" for n in (21, 22)))
    (piece,) = at(host.discover(), GPU).slices

    assert (piece.name, piece.uuid, piece.memory_mib) == ("3g.40gb", uuid, 40192)
    assert piece.files == (
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap21",
        "/dev/nvidia-caps/nvidia-cap22",
    )
    # slurmd would not start with device nodes that are not there.
    assert without.sliced
    assert without.slices[0].files == ()


def test_virtual_functions_are_no_devices_of_the_host(recording: Make) -> None:
    """They are parts of a card that is listed itself."""
    host = recording("t4x4")
    base = "/sys/bus/pci/devices/0000:3b:00.4"
    host.file(f"{base}/class", "0x030200").file(f"{base}/vendor", "0x10de")
    host.file(f"{base}/device", "0x1eb8").file(f"{base}/numa_node", "0")
    host.file(f"{base}/physfn", "../0000:3b:00.0")

    assert len(host.discover().devices) == 4
