"""Intel's GPUs and Gaudi: numbers of tools, nodes and modules are three things."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from hpcmgr.discovery import hl_smi, xpu_smi_text
from hpcmgr.discovery.questions import HL_SMI_FIELDS
from tests.unit.discovery.conftest import Recording, at, source

Make = Callable[[str], Recording]
DISCOVERY = ("xpu-smi", "discovery", "-j")
TOPOLOGY = ("xpu-smi", "topology", "-m")
CSV = ("hl-smi", "-Q", HL_SMI_FIELDS, "-f", "csv,noheader")
PCI = "/sys/bus/pci/devices"


def test_the_tools_gpu_0_is_card3(recording: Make) -> None:
    """Card and render node come from the kernel, the number from the tool."""
    inventory = recording("arc4").discover()

    assert [(d.index, d.files) for d in inventory.devices] == [
        (0, ("/dev/dri/card3", "/dev/dri/renderD130")),
        (1, ("/dev/dri/card4", "/dev/dri/renderD131")),
        (2, ("/dev/dri/card0", "/dev/dri/renderD128")),
        (3, ("/dev/dri/card2", "/dev/dri/renderD129")),
    ]
    assert not any(d.conflicts for d in inventory.devices)
    assert not inventory.broken_sources


def test_the_processors_graphics_and_a_bmc_are_no_accelerators(recording: Make) -> None:
    """Both have a card between the others."""
    places = {d.pci for d in recording("arc4").discover().devices}

    assert places == {f"0000:{bus}:00.0" for bus in ("23", "27", "43", "47")}


@pytest.mark.parametrize("pci_id", ["8086:7d1d", "8086:643e"])
def test_a_laptops_npu_is_no_accelerator(recording: Make, pci_id: str) -> None:
    """It has an accelerator's class and a node in /dev/accel."""
    host = recording("arc4")
    vendor, device = pci_id.split(":")
    for name, text in (("vendor", vendor), ("device", device), ("class", "120000")):
        host.file(f"{PCI}/0000:00:0b.0/{name}", f"0x{text}\n")
    host.file("/sys/class/accel/accel0/device/pci_addr", "0000:00:0b.0\n")
    inventory = host.discover()

    assert len(inventory.devices) == 4
    assert source(inventory, "accel").state == "absent"


def test_without_the_tool_the_kernel_tells_nodes(recording: Make) -> None:
    """Place, nodes and profile; who misses the tool is told."""
    inventory = recording("arc4").without("xpu-smi").discover()

    assert source(inventory, "xpu-smi").state == "broken"
    assert at(inventory, "0000:23:00.0").files == ("/dev/dri/card3", "/dev/dri/renderD130")
    assert at(inventory, "0000:23:00.0").profile == "arc-pro-b70"


def test_a_card_that_the_kernel_calls_otherwise_breaks_the_source(recording: Make) -> None:
    """The tool's card is another GPU's: the kernel is believed."""
    host = recording("arc4")
    host.answers(DISCOVERY, host.text(*DISCOVERY).replace("/dev/dri/card3", "/dev/dri/card1"))
    inventory = host.discover()

    assert source(inventory, "xpu-smi").state == "broken"
    assert "/dev/dri/card1" in source(inventory, "xpu-smi").detail
    assert at(inventory, "0000:23:00.0").files[0] == "/dev/dri/card3"


def test_another_vendors_tool_of_the_same_name_is_no_fault(recording: Make) -> None:
    """Kunlunxin's xpu-smi on its own machine."""
    table = (
        "+------------------------------------+\n"
        "| XPU-SMI   Driver Version: 5.0.21   XPU-RT Version: 5.0 |\n"
        "|------------------------------------+------------------+\n"
        "| XPU  Name  Persistence-M | Bus-Id  Disp.A |\n"
        "|====================================+==================+\n"
        "|   0  P800 OAM  N/A | 00000000:0F:00.0 N/A |\n"
        "+------------------------------------+------------------+\n"
    )
    host = recording("t4x4").answers(DISCOVERY, table).answers(("xpu-smi",), table)
    inventory = host.discover()

    assert source(inventory, "xpu-smi").state == "absent"
    assert all(d.vendor != "intel" for d in inventory.devices)


RELEASE_2 = """\
+----------------------------------------------+----------------------------+-----------------+
|            Intel XPU-SMI v2.0    Driver: A1B2C3    Level Zero: 1.27.0                        |
+----------------------------------------------+----------------------------+-----------------+
| GPU  Name                    Persistence-M   | Bus-Id            Disp.A   |  Uncorr. ECC    |
| Fan  Temp  Pwr:Usage/Cap                     | Memory-Usage               |  Compute M.     |
+----------------------------------------------+----------------------------+-----------------+
|   0  Intel(R) Arc(TM) B580   Off             | 0000:03:00.0      Off      |    Disabled     |
| N/A    25C  66W / 190W                       | 239MiB / 12216MiB          |    Default      |
+----------------------------------------------+----------------------------+-----------------+
| Processes:                                                                                  |
|   GPU         PID    Type    Process Name                                  GPU Memory Usage |
+----------------------------------------------+----------------------------+-----------------+
|     0     1234567     C      xpu-smi                                                206 MiB |
+----------------------------------------------+----------------------------+-----------------+
"""


def test_release_2_looks_like_another_tool(recording: Make) -> None:
    """Its table has the place and the memory; a process is no GPU."""
    host = recording("").answers(DISCOVERY, "unknown command", exit=1)
    (gpu,) = host.answers(("xpu-smi",), RELEASE_2).discover().devices

    assert (gpu.model, gpu.pci, gpu.memory_mib) == ("Intel(R) Arc(TM) B580", "0000:03:00.0", 12216)
    assert (gpu.driver, gpu.index) == ("A1B2C3", 0)


TABLE = """\
+-----------+------------------------------------------------------------+
| Device ID | Device Information                                         |
+-----------+------------------------------------------------------------+
| 0         | Device Name: Intel(R) Data Center GPU Max 1550             |
|           | UUID: 00000000-0000-0000-0000-0bd500008086                 |
|           | Serial Number: unknown                                     |
|           | PCI BDF Address: 0001:4d:00.0                              |
|           | Memory Physical Size: 131072.00 MiB                        |
+-----------+------------------------------------------------------------+
| 1         | Device Name: Intel(R) Data Center GPU Max 1550             |
|           | UUID: 00000000-0000-0000-0000-0bd500008086                 |
|           | PCI BDF Address: 0001:6e:00.0                              |
+-----------+------------------------------------------------------------+
"""


def test_a_table_of_keys(recording: Make) -> None:
    """A uuid that holds the model's ids only stands on every card, and is none."""
    first, second = recording("").answers(DISCOVERY, TABLE).discover().devices

    assert (first.pci, second.pci) == ("0001:4d:00.0", "0001:6e:00.0")
    assert (first.uuid, first.serial, first.memory_mib) == (None, None, 131072)
    assert not first.conflicts


@pytest.mark.parametrize(
    ("told", "pci_id"), [("0xe223", "8086:e223"), ("0x20a", "8086:020a"), ("56c0", "8086:56c0")]
)
def test_ids_with_and_without_their_zeros(recording: Make, told: str, pci_id: str) -> None:
    """Three spellings of three releases."""
    entry = {"device_id": 0, "pci_bdf_address": "0000:01:00.0", "pci_device_id": told}
    host = recording("").answers(DISCOVERY, json.dumps({"device_list": [entry]}))
    (gpu,) = host.discover().devices

    assert gpu.pci_id == pci_id


TILES = """\
         GPU 0/0  GPU 0/1  GPU 1/0  GPU 1/1  CPU Affinity
GPU 0/0  S        MDF      XL*      XL16     0-23,48-71
GPU 0/1  MDF      S        XL16     XL*      0-23,48-71
GPU 1/0  XL*      XL16     S        MDF      24-47,72-95
GPU 1/1  XL16     XL*      MDF      S        24-47,72-95
"""


@pytest.mark.parametrize("lines", [TILES, "\n".join(TILES.splitlines()[1:])])
def test_links_of_tiles_are_links_of_gpus(lines: str) -> None:
    """A row's own place names its column, so no heading is needed."""
    assert xpu_smi_text.links(lines) == {(0, 1): "XL*"}
    assert xpu_smi_text.gpus(lines) == (0, 1)


def test_a_cut_matrix_names_no_column_that_it_does_not_show() -> None:
    """The row of GPU 0 is missing, so nobody knows which column is its."""
    assert xpu_smi_text.links("\n".join(TILES.splitlines()[2:])) == {(0, 1): "XL16"}
    assert xpu_smi_text.links("\n".join(TILES.splitlines()[3:])) == {}


def test_gaudis_three_numberings(recording: Make) -> None:
    """Module 0 is listed as index 1 and is /dev/accel/accel7."""
    inventory = recording("gaudi8").discover()
    by_module = {d.index: d for d in inventory.devices}

    assert by_module[0].pci == "0000:b4:00.0"
    assert by_module[0].files == ("/dev/accel/accel7",)
    assert by_module[5].files == ("/dev/accel/accel2",)
    assert {d.profile for d in inventory.devices} == {"gaudi2"}
    assert not any(d.conflicts for d in inventory.devices)


def test_gaudi_without_its_tool(recording: Make) -> None:
    """sysfs has nodes, state and driver; the module is unknown, and said so by nobody."""
    host = recording("gaudi8").without("hl-smi")
    host.file("/sys/class/accel/accel2/device/status", "Malfunction\n")
    inventory = host.discover()

    assert source(inventory, "hl-smi").state == "broken"
    assert at(inventory, "0000:19:00.0").files == ("/dev/accel/accel2",)
    assert at(inventory, "0000:19:00.0").health.reasons == ("driver: Malfunction",)
    assert at(inventory, "0000:1a:00.0").health.state == "ok"
    assert at(inventory, "0000:1a:00.0").index is None


def test_an_older_driver_has_hl_nodes(recording: Make) -> None:
    """/sys/class/habanalabs and /dev/hlN."""
    host = recording("gaudi8").removed("/sys/class/accel")
    for number, bus in enumerate(("19", "1a")):
        host.file(f"/sys/class/habanalabs/hl{number}/pci_addr", f"0000:{bus}:00.0\n")
        host.file(f"/sys/class/habanalabs/hl_controlD{number}/pci_addr", f"0000:{bus}:00.0\n")
    host.file("dev.txt", "/dev/hl0 c 511 0 0666\n/dev/hl1 c 511 2 0666\n")
    inventory = host.discover()

    assert at(inventory, "0000:1a:00.0").files == ("/dev/hl1",)
    assert at(inventory, "0000:19:00.0").health.state == "ok"


def test_uncorrectable_events_degrade(recording: Make) -> None:
    """Under either name of the column; without a count in the reason."""
    host = recording("gaudi8")
    text = host.text("hl-smi")
    row = next(line for line in text.splitlines() if "0000:cd:00.0" in line)
    for name in ("Volatile Uncor-Events", "Volatile Uncorr. ECC "):
        changed = text.replace(row, row.replace("0  |", "3  |"))
        host.answers(("hl-smi",), changed.replace("Volatile Uncor-Events", name))
        gaudi = at(host.discover(), "0000:cd:00.0")

        assert gaudi.health.state == "degraded"
        assert gaudi.health.reasons == ("uncorrectable errors since the driver was loaded",)


def test_a_card_that_only_one_answer_shows_breaks_the_source(recording: Make) -> None:
    """The list has seven, the table eight."""
    host = recording("gaudi8")
    host.answers(CSV, "\n".join(host.text(*CSV).splitlines()[1:]))
    inventory = host.discover()

    assert source(inventory, "hl-smi").state == "broken"
    assert "-Q does not show AIP 0" in source(inventory, "hl-smi").detail
    assert len(inventory.devices) == 8


def test_a_csv_with_its_heading_in_any_order() -> None:
    """Columns are read by name where names are there; units in brackets do not matter."""
    rows, bad = hl_smi.parse_csv("module_id, memory.total [MiB], index\n6, 98304 MiB, 0\n\n")

    assert rows == {"0": {"module_id": "6", "memory.total": "98304 MiB", "index": "0"}}
    assert bad == ""


@pytest.mark.parametrize("text", ["", "Could not find any device", "0, 1", "x\n|||\n", "a,b,c"])
def test_garbage_of_hl_smi_makes_no_gaudi(recording: Make, text: str) -> None:
    """The eight that the kernel lists stay, without a module."""
    inventory = recording("gaudi8").answers(CSV, text).answers(("hl-smi",), text).discover()

    assert source(inventory, "hl-smi").state == "broken"
    assert [d.index for d in inventory.devices] == [None] * 8
