"""npu-smi's tables of five releases, and MIG as nvidia-smi tells it."""

from __future__ import annotations

from tests.outputs import output
from tests.unit.discovery.brands import Make, broken, nodes, says, told
from tests.unit.discovery.conftest import at, source


def test_the_950_has_a_table_of_its_own(recording: Make) -> None:
    """A column more, no line for the chip; the mapping tells the physical id; UB is a fabric."""
    host = nodes(recording(""), "/dev/davinci0", "/dev/davinci1", "/dev/davinci_manager")
    says(host, "npu-smi-info-950.txt", "npu-smi-info-m-950.txt", "npu-smi-info-t-topo-ub.txt")
    inventory = host.discover()

    assert told(at(inventory, "0000:91:00.0")) == (
        "Ascend950", "0000:91:00.0", None, ("/dev/davinci1",), 131072,
    )  # fmt: skip
    assert at(inventory, "0000:11:00.0").health.state == "degraded"
    assert [(x.kind, x.direct) for x in inventory.links] == [("UB", True)]
    assert not broken(inventory)


def test_the_910c_has_two_dies_an_npu(recording: Make) -> None:
    """Each has an address and a node of its own; the order of the bus is not that of the NPUs."""
    host = nodes(recording(""), *(f"/dev/davinci{number}" for number in range(4)))
    inventory = says(host, "npu-smi-info-910c.txt").discover()

    assert [(d.pci, d.chip, d.files) for d in inventory.devices] == [
        ("0000:99:00.0", None, ("/dev/davinci2",)),
        ("0000:9b:00.0", None, ("/dev/davinci3",)),
        ("0000:9d:00.0", None, ("/dev/davinci0",)),
        ("0000:9f:00.0", None, ("/dev/davinci1",)),
    ]
    assert not broken(inventory)


def test_a_duo_card_has_two_chips_at_one_address(recording: Make) -> None:
    """They are told apart by chip; noise before the table is a note, no fault."""
    host = nodes(recording(""), "/dev/davinci4", "/dev/davinci5")
    inventory = says(host, "npu-smi-info-duo.txt").discover()

    assert [(d.pci, d.chip, d.files, d.profile) for d in inventory.devices] == [
        ("0000:81:00.0", 0, ("/dev/davinci4",), "ascend310p3-48g"),
        ("0000:81:00.0", 1, ("/dev/davinci5",), "ascend310p3-48g"),
    ]
    assert "said before its table" in source(inventory, "npu-smi").detail
    assert not broken(inventory)


def test_a_system_on_a_chip_has_no_address(recording: Make) -> None:
    """Bus-Id NA; an alarm is a reason."""
    device = says(recording(""), "npu-smi-info-soc.txt").discover().devices[0]

    assert (device.pci, device.files, device.memory_mib) == (None, ("/dev/davinci0",), 15609)
    assert device.health.reasons == ("npu-smi: Alarm",)


def test_a_header_whose_lines_differ_is_none(recording: Make) -> None:
    """A stroke too many in its second line: no row is read by it, and no parser fails."""
    text = output("npu-smi-info-soc.txt").replace("| Chip    Device ", "| Chip | Device ")
    inventory = recording("").answers(("npu-smi", "info"), text).discover()

    assert inventory.devices == ()
    assert source(inventory, "npu-smi").state == "broken"


def test_slices_have_three_files_and_the_display_has_none(recording: Make) -> None:
    """Names of both spellings of uuids; caps by the GPU's minor, which is not its number."""
    minors = "config 1\ngpu2/gi2/access 30\ngpu2/gi2/ci0/access 31\ngpu2/gi9/access 93\n"
    host = says(recording(""), "nvidia-smi-q-x-mig.xml", "nvidia-smi-L.txt")
    host.file("/proc/driver/nvidia-caps/mig-minors", minors + "gpu2/gi9/ci0/access 94\n")
    cut, display = host.discover().devices

    assert [(s.name, s.memory_mib, s.files) for s in cut.slices] == [
        ("3g.40gb", 40192, ("/dev/nvidia2", *caps(30, 31))),
        ("1g.10gb+me", 9728, ("/dev/nvidia2", *caps(93, 94))),
    ]
    assert cut.slices[1].uuid == "MIG-GPU-00000000-1111-0000-0000-000000000001/9/0"
    assert (display.slices, display.profile) == ((), None)


def test_slices_without_the_drivers_minors_have_no_files(recording: Make) -> None:
    """Nor names without -L; how many there are is known."""
    cut = says(recording(""), "nvidia-smi-q-x-mig.xml").discover().devices[0]

    assert [(s.name, s.files) for s in cut.slices] == [("mig", ()), ("mig", ())]


def caps(*minors: int) -> tuple[str, ...]:
    """Device nodes of MIG capabilities."""
    return tuple(f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors)
