"""Tools whose tables look like nvidia-smi's: MetaX, Iluvatar, Moore Threads, Enflame, Kunlunxin,
T-Head. None of them is NVIDIA's, and none is another's."""

from __future__ import annotations

import pytest

from tests.outputs import OUTPUTS, output
from tests.unit.discovery.brands import Make, broken, card, nodes, says, told
from tests.unit.discovery.conftest import at, source

TABLES = ("mx-smi.txt", "ixsmi.txt", "xpu-smi.txt", "ppu-smi.txt", "mthreads-gmi.txt", "efsmi.txt")


def test_metax_cards_have_their_drm_nodes_and_links(recording: Make) -> None:
    """card0 is the BMC's; of two cards the later one on the bus is number 0."""
    host = card(recording(""), "0000:9b:00.0", "9999:0a01", "0x030200", numa=1)
    card(host, "0000:2a:00.0", "9999:0a01", "0x030200")
    for pci, name in (("9b", "card2"), ("9b", "renderD129"), ("2a", "card1"), ("2a", "renderD128")):
        host.file(f"/sys/bus/pci/devices/0000:{pci}:00.0/drm/{name}/dev", "226:0")
    inventory = says(host, "mx-smi.txt", "mx-smi-topo-n.txt").discover()
    first, second = inventory.devices

    assert told(second) == (
        "MetaX C500", "0000:9b:00.0", 0, ("/dev/dri/card2", "/dev/dri/renderD129"), 65536,
    )  # fmt: skip
    assert (second.driver, second.firmware, second.runtime_version) == (
        "3.4.2", "1.27.3.0", "3.3.0.5",
    )  # fmt: skip
    assert (first.profile, second.numa_node) == ("c500", 1)
    assert (second.health.state, first.health.state) == ("ok", "degraded")
    assert [(x.kind, x.direct) for x in inventory.links] == [("MX", True)]


def test_metax_releases_and_white_labels(recording: Make) -> None:
    """An old release tells no state; ht-smi is the same tool under another name."""
    old = says(recording(""), "mx-smi-old.txt").discover().devices[0]
    white = says(recording(""), "ht-smi.txt").discover()

    assert told(old) == ("MXC500", "0000:2a:00.0", 0, (), 65536)
    assert old.health.state == "unknown"
    assert told(white.devices[0]) == ("Mars X201", "0000:5e:00.0", 0, (), 65536)
    assert (white.devices[0].vendor, white.devices[0].runtime_version) == ("metax", "3.7.1.9")
    assert source(white, "mx-smi").state == "present"


def test_iluvatar_is_never_nvidia(recording: Make) -> None:
    """Even where its tool is called nvidia-smi: the PCI vendor decides."""
    host = says(recording(""), "ixsmi.txt")
    xml = (
        "<nvidia_smi_log><driver_version>4.3.8</driver_version><attached_gpus>1</attached_gpus>"
        '<gpu id="00000000:8A:00.0"><product_name>Iluvatar MR-V100</product_name><pci>'
        "<pci_device_id>00011E3E</pci_device_id></pci></gpu></nvidia_smi_log>"
    )
    inventory = host.answers(("nvidia-smi", "-q", "-x"), xml).discover()

    assert {device.vendor for device in inventory.devices} == {"iluvatar"}
    assert source(inventory, "nvidia-smi").state == "absent"
    assert "not NVIDIA's" in source(inventory, "nvidia-smi").detail


def test_iluvatar_nodes_are_minors(recording: Make) -> None:
    """The table tells no minor: nodes are known from the kernel, or not at all."""
    names = ("/dev/iluvatar0", "/dev/iluvatar1", "/dev/itrctl")
    plain = says(nodes(recording(""), *names), "ixsmi.txt").discover()
    linked = nodes(recording(""), *names, n0="0000:8d:00.0", n1="0000:8a:00.0")
    inventory = says(linked, "ixsmi.txt").discover()

    assert [device.files for device in plain.devices] == [(), ()]
    assert told(at(inventory, "0000:8a:00.0")) == (
        "Iluvatar MR-V100 DUO", "0000:8a:00.0", 0, ("/dev/iluvatar1",), 32768,
    )  # fmt: skip
    assert at(inventory, "0000:8a:00.0").profile == "mr-v100-duo"
    assert at(inventory, "0000:8a:00.0").runtime_version is None


def test_moore_threads_with_and_without_the_ecc_line(recording: Make) -> None:
    """Two lines a card or three; -q adds what the table lacks; a process is no card."""
    host = nodes(recording(""), "/dev/mtgpu.0", "/dev/mtgpu.1")
    two = says(host, "mthreads-gmi.txt", "mthreads-gmi-q.txt").discover()
    three = says(recording(""), "mthreads-gmi-ecc.txt").discover()
    first = at(two, "0000:31:00.0")

    assert told(first) == ("MTT S4000", "0000:31:00.0", 1, ("/dev/mtgpu.1",), 49152)
    assert (first.serial, first.driver) == ("MY13VG023C800091", "3.3.8-server")
    assert first.uuid == "22d7de6e-0000-4000-8000-3237832871e4"
    assert at(two, "0000:b1:00.0").firmware == "29358.1.59"
    assert [told(d)[:2] for d in three.devices] == [("MTT S5000", "0000:18:00.0")]


def test_moore_threads_numbers_that_do_not_fit_name_no_node(recording: Make) -> None:
    """/dev/mtgpu.5 alone is not card 0."""
    host = nodes(recording(""), "/dev/mtgpu.5", "/dev/mtgpu.1")
    inventory = says(host, "mthreads-gmi.txt").discover()

    assert [device.files for device in inventory.devices] == [(), ()]


def test_enflame_has_domains_of_two_digits(recording: Make) -> None:
    """00:c1:00.0 is domain 0, and 01:09:00.0 is domain 1; an older release draws with stars."""
    new = says(recording(""), "efsmi.txt").discover()
    old = says(recording(""), "efsmi-stars.txt").discover().devices[0]

    assert [told(device)[:2] for device in new.devices] == [
        ("S60", "0000:c1:00.0"),
        ("S60", "0001:09:00.0"),
    ]
    assert (new.devices[0].serial, new.devices[0].memory_mib) == ("A0X1000000001", 49120)
    assert (new.devices[0].driver, new.devices[0].profile) == ("1.3.0.101", "s60")
    assert told(old) == ("T20", "0000:3d:00.0", 0, (), 32768)
    assert (old.uuid, old.serial) == ("W28001210999", None)


def test_enflames_only_card_has_the_only_node(recording: Make) -> None:
    """One card and one node belong together; the display of a video part is no node."""
    host = nodes(recording(""), "/dev/gcu0", "/dev/gcu0vid0")
    device = says(host, "efsmi-stars.txt").discover().devices[0]

    assert device.files == ("/dev/gcu0",)


def test_old_kunlun_prints_the_device_node(recording: Make) -> None:
    """Card 1 is /dev/xpu2."""
    inventory = says(recording(""), "xpu_smi.txt").discover()

    assert [told(device) for device in inventory.devices] == [
        ("R300", "0000:56:00.0", 1, ("/dev/xpu2",), 32768),
        ("R300", "0000:d3:00.0", 0, ("/dev/xpu0",), 32768),
    ]
    assert {device.profile for device in inventory.devices} == {"r300"}
    assert not broken(inventory)


def test_new_kunlun_tells_minors_with_q(recording: Make) -> None:
    """The same name as Intel's tool, the look of NVIDIA's; -q lists the cards in another order."""
    inventory = says(recording(""), "xpu-smi.txt", "xpu-smi-q.txt").discover()
    bad, good = inventory.devices

    assert told(good) == ("P800 OAM", "0000:d3:00.0", 0, ("/dev/xpu0",), 98304)
    assert told(bad) == ("P800 OAM", "0000:55:00.0", 1, ("/dev/xpu2",), 98304)
    assert (good.runtime_version, good.serial) == ("5.0.21", "02K0MA0258D00082")
    assert (bad.health.state, good.health.state) == ("degraded", "unknown")
    assert source(inventory, "xpu-smi").state == "absent"


def test_intels_xpu_smi_is_not_kunlunxins(recording: Make) -> None:
    """What it prints names Intel."""
    text = (
        "| Intel XPU-SMI v2.0    Driver: 9FF47    Level Zero: 1.27.0 |\n"
        "+-----+\n| GPU  Name    | Bus-Id |\n+-----+\n| 0  Arc B580  | 0000:03:00.0 |\n+-----+\n"
    )
    inventory = recording("").answers(("xpu-smi",), text).discover()

    assert source(inventory, "xpu_smi").state == "absent"
    assert "kunlunxin" not in {device.vendor for device in inventory.devices}


def test_t_head_numbers_start_elsewhere(recording: Make) -> None:
    """alixpu_ppu1 is card 0 on one machine: only the kernel knows."""
    host = nodes(recording(""), "/dev/alixpu_ppu1", "/dev/alixpu_ppu2", n0="0001:c9:00.0")
    inventory = says(host, "ppu-smi.txt", "ppu-smi-L.txt").discover()

    assert told(at(inventory, "0001:c9:00.0")) == (
        "PPU-ZW810E", "0001:c9:00.0", 0, ("/dev/alixpu_ppu1",), 98304,
    )  # fmt: skip
    assert at(inventory, "0000:7e:00.0").files == ()
    assert at(inventory, "0000:7e:00.0").uuid == "GPU-019ea108-c120-040c-0000-0000c0000002"


@pytest.mark.parametrize("asked", TABLES)
@pytest.mark.parametrize("printed", TABLES)
def test_no_tool_is_taken_for_another(recording: Make, asked: str, printed: str) -> None:
    """A tool that prints what another vendor's prints gives no device and is not believed."""
    inventory = recording("").answers(OUTPUTS[asked], output(printed)).discover()
    vendors = {device.vendor for device in inventory.devices}

    assert len(vendors) == (asked == printed)


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("mx-smi.txt", "mx-smi"),
        ("ixsmi.txt", "ixsmi"),
        ("mthreads-gmi.txt", "mthreads-gmi"),
        ("efsmi.txt", "efsmi"),
        ("xpu-smi.txt", "xpu_smi"),
        ("ppu-smi.txt", "ppu-smi"),
        ("cnmon.txt", "cnmon"),
    ],
)
def test_a_table_that_is_cut_is_broken(recording: Make, name: str, tool: str) -> None:
    """The first card stays, the second has lost its second line."""
    lines = output(name).splitlines(keepends=True)
    second = next(n for n, line in enumerate(lines) if line.lstrip("| ").startswith("1 "))
    inventory = recording("").answers(OUTPUTS[name], "".join(lines[: second + 1])).discover()

    assert len(inventory.devices) == 1
    assert source(inventory, tool).state == "broken"
    assert "card 1" in source(inventory, tool).detail


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Failed to initialize the library: driver not loaded\n",
        "You do not have permission to run this tool.\n",
        "No devices were found\n",
    ],
)
@pytest.mark.parametrize(
    "name", [*sorted({*TABLES} - {"xpu-smi.txt"}), "cnmon.txt", "neuron-ls.json", "tt-smi.txt"]
)
def test_an_error_on_stdout_is_no_machine_without_cards(
    recording: Make, name: str, text: str
) -> None:
    """Even with exit status 0: broken, and what it said."""
    inventory = recording("").answers(OUTPUTS[name], text).discover()
    said = broken(inventory)

    assert inventory.devices == ()
    assert len(said) == 1
    assert all(text.strip()[:20] in detail for detail in said.values())


def test_an_error_of_an_xpu_smi_is_of_nobody_knows_which_vendor(recording: Make) -> None:
    """Two vendors have a tool of that name: where a card of one is there, that one is broken."""
    host = recording("").answers(("xpu-smi",), "Failed to initialize: driver not loaded\n")
    inventory = card(host, "0000:d3:00.0", "1d22:3685").discover()

    assert "0000:d3:00.0" in source(inventory, "xpu_smi").detail
    assert source(inventory, "xpu_smi").state == "broken"


def test_an_error_beside_the_table_is_broken(recording: Make) -> None:
    """The cards that are shown stay."""
    text = "Error: GPU 2 is lost\n" + output("mx-smi.txt")
    inventory = recording("").answers(("mx-smi",), text).discover()

    assert len(inventory.devices) == 2
    assert "GPU 2 is lost" in source(inventory, "mx-smi").detail


def test_fewer_cards_than_attached_is_broken(recording: Make) -> None:
    """The tool's own count is a witness."""
    text = output("mx-smi.txt").replace(": 2\n", ": 8\n")
    inventory = recording("").answers(("mx-smi",), text).discover()

    assert source(inventory, "mx-smi").state == "broken"
    assert "8 cards attached" in source(inventory, "mx-smi").detail


def test_a_card_without_its_tool_is_not_missed(recording: Make) -> None:
    """The kernel lists it: the source is broken, the device is there with its NUMA node."""
    inventory = card(recording(""), "0000:2a:00.0", "9999:0a01", "0x030200", numa=1).discover()

    assert [(d.vendor, d.numa_node) for d in inventory.devices] == [("metax", 1)]
    assert source(inventory, "mx-smi").state == "broken"
    assert "not installed" in source(inventory, "mx-smi").detail
