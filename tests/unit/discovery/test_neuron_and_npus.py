"""AWS Neuron, Tenstorrent, FuriosaAI and Rebellions: JSON, and tables of a line a record."""

from __future__ import annotations

import pytest

from tests.outputs import output
from tests.unit.discovery.brands import Make, broken, card, nodes, says, told
from tests.unit.discovery.conftest import at, source


@pytest.mark.parametrize("name", ["neuron-ls.json", "neuron-ls.txt"])
def test_neuron_devices_from_json_or_table(recording: Make, name: str) -> None:
    """NUMA "1" is 1 and "-1" is unknown; a link is listed once."""
    inventory = says(recording(""), name).discover()
    second, first = inventory.devices

    assert told(first) == ("unnamed", "0000:cc:00.0", 0, ("/dev/neuron0",), 98304)
    assert (first.numa_node, second.numa_node) == (1, None)
    assert [(x.kind, x.direct) for x in inventory.links] == [("NeuronLink", True)]
    assert not broken(inventory)


def test_the_kernel_names_the_model_and_the_place(recording: Make) -> None:
    """A Neuron device is a "system peripheral"; sysfs is the authority for NUMA nodes."""
    host = card(recording(""), "0000:cc:00.0", "1d0f:7364", "0x088000", numa=0)
    card(host, "0000:00:03.0", "1d0f:1111", "0x030000")
    inventory = says(host, "neuron-ls.json").discover()

    assert len(inventory.devices) == 2
    assert at(inventory, "0000:cc:00.0").profile == "trainium2"
    assert at(inventory, "0000:cc:00.0").numa_node == 0


def test_processes_are_no_devices(recording: Make) -> None:
    """Several lines a device; the second has no number."""
    inventory = says(recording(""), "neuron-ls-procs.txt").discover()

    assert [device.index for device in inventory.devices] == [1, 0]


def test_the_first_generation_has_another_table(recording: Make) -> None:
    """Its number is called LOGICAL ID; the memory of its channels is not summed up."""
    device = says(recording(""), "neuron-ls-inf1.txt").discover().devices[0]

    assert told(device) == ("unnamed", "0000:00:1f.0", 0, ("/dev/neuron0",), None)


def test_json_that_is_cut_gives_its_whole_devices(recording: Make) -> None:
    """And is broken: the second device is missing, its processes are none."""
    text = output("neuron-ls.json")
    for end in (text.index('"numa_node": "-1"'), text.rindex("]")):
        inventory = recording("").answers(("neuron-ls", "--json-output"), text[:end]).discover()

        assert [device.index for device in inventory.devices][-1] == 0
        assert source(inventory, "neuron-ls").state == "broken"


def test_warnings_before_json_do_not_matter(recording: Make) -> None:
    """A note is passed over, a complaint makes it broken."""
    for words, state in (("[info] 2 devices {ok}", "present"), ("ERROR: nd2 failed", "broken")):
        text = f"{words}\n{output('neuron-ls.json')}"
        inventory = recording("").answers(("neuron-ls", "--json-output"), text).discover()

        assert len(inventory.devices) == 2
        assert source(inventory, "neuron-ls").state == state


def test_tenstorrent_nodes_are_found_by_address(recording: Make) -> None:
    """Chip 0 is /dev/tenstorrent/19; the second chip of its board is no device."""
    host = says(recording(""), "tt-smi.txt")
    nodes(host, "/dev/tenstorrent/19", "/dev/tenstorrent/0")
    for name, pci in (("tenstorrent!19", "c1"), ("tenstorrent!0", "41")):
        link = f"../../devices/pci0000:40/0000:{pci}:00.0/tenstorrent/{name}"
        host.file(f"/sys/class/tenstorrent/{name}", link)
    inventory = host.discover()
    n150, n300 = inventory.devices

    assert told(n300) == ("n300 L", "0000:c1:00.0", 19, ("/dev/tenstorrent/19",), None)
    assert told(n150)[:4] == ("n150 L", "0000:41:00.0", 0, ("/dev/tenstorrent/0",))
    assert (n300.serial, n300.driver, n300.firmware) == ("010001851170c0aa", "2.7.0", "18.5.0.0")
    assert (n300.health.state, n150.health.state) == ("ok", "degraded")
    assert "1 chips have no PCI function" in source(inventory, "tt-smi").detail


def test_a_chip_that_does_not_answer_is_not_well(recording: Make) -> None:
    """No telemetry: nothing is known of its health."""
    text = output("tt-smi.txt").replace('"34.8"', '"N/A"')
    inventory = recording("").answers(("tt-smi", "-s"), text).discover()

    assert at(inventory, "0000:c1:00.0").health.state == "unknown"


def test_tenstorrent_json_that_is_cut_is_broken(recording: Make) -> None:
    """No chip is made up from half of the text."""
    text = output("tt-smi.txt")
    inventory = recording("").answers(("tt-smi", "-s"), text[: len(text) // 2]).discover()

    assert inventory.devices == ()
    assert source(inventory, "tt-smi").state == "broken"


def test_furiosa_nodes_have_the_tools_name(recording: Make) -> None:
    """npu10's nodes are not npu1's; the management node comes first."""
    host = nodes(
        recording(""), "/dev/rngd/npu0pe0", "/dev/rngd/npu0mgmt", "/dev/rngd/npu0pe0-1",
        "/dev/rngd/npu10mgmt", "/dev/npu1",
    )  # fmt: skip
    inventory = says(host, "furiosa-smi-info.json", "furiosa-smi-status.json").discover()
    dead, alive = inventory.devices

    assert told(alive) == (
        "rngd", "0000:c4:00.0", 0,
        ("/dev/rngd/npu0mgmt", "/dev/rngd/npu0pe0", "/dev/rngd/npu0pe0-1"), 48640,
    )  # fmt: skip
    assert (dead.files, dead.index) == (("/dev/rngd/npu10mgmt",), 10)
    assert (alive.health.state, dead.health.state) == ("ok", "failed")
    assert (alive.serial, alive.firmware, alive.profile) == ("RNG26040100001Q", "2026.3.0", "rngd")


def test_furiosa_from_tables(recording: Make) -> None:
    """Of the new tool, and of Warboy's, where the first number is 1 and a uuid of zeros is none."""
    new = says(recording(""), "furiosa-smi-info.txt").discover()
    host = nodes(recording(""), "/dev/npu1", "/dev/npu1pe0", "/dev/npu10")
    old = says(host, "furiosactl-info.txt").discover().devices[0]

    assert [told(device)[:3] for device in new.devices] == [
        ("rngd", "0000:45:00.0", 1),
        ("rngd", "0000:c4:00.0", 0),
    ]
    assert told(old)[:4] == ("warboy", "0000:44:00.0", 1, ("/dev/npu1", "/dev/npu1pe0"))
    assert (old.uuid, old.serial) == (None, "WBYB0000000000001")


def test_rebellions_json_names_its_nodes(recording: Make) -> None:
    """The number is text or a number; NPU 0 is /dev/rbln4; two NPUs share a serial number."""
    inventory = says(recording(""), "rbln-smi.json").discover()
    second, first = inventory.devices

    assert told(first) == ("RBLN-CA25", "0000:d3:00.0", 0, ("/dev/rbln4",), 16096)
    assert (first.numa_node, second.numa_node) == (1, None)
    assert first.serial == second.serial == "0000000022500001"
    assert first.conflicts == ()
    assert (first.health.state, second.health.state) == ("ok", "degraded")


def test_rebellions_table_under_its_old_name(recording: Make) -> None:
    """rbln-stat without JSON; contexts are no NPUs."""
    inventory = says(recording(""), "rbln-stat.txt").discover()

    assert [told(device) for device in inventory.devices] == [
        ("RBLN-CA12", "0000:51:00.0", 0, ("/dev/rbln0",), 16076),
        ("RBLN-CA12", "0000:d8:00.0", 1, ("/dev/rbln1",), 16076),
    ]
    assert inventory.devices[0].driver == "2.0.1"
    assert not broken(inventory)


def test_npus_of_laptops_are_not_for_jobs(recording: Make) -> None:
    """intel_vpu and amdxdna have /dev/accel nodes and the class of an accelerator, or nearly so."""
    host = card(recording(""), "0000:00:0b.0", "8086:7d1d", "0x120000")
    card(host, "0000:c4:00.1", "1022:1502", "0x118000")
    nodes(host, "/dev/accel/accel0", "/dev/accel/accel1")
    host.file("/sys/class/accel/accel0/device/uevent", "DRIVER=intel_vpu\nPCI_ID=8086:7D1D\n")

    assert host.discover().devices == ()


def test_a_hanging_tool_is_asked_nothing_more(recording: Make) -> None:
    """The card that the kernel lists stays."""
    host = card(recording(""), "0000:d3:00.0", "1eff:1250").hangs("rbln-smi", "-j")
    inventory = says(host, "rbln-stat.txt").discover()

    assert [device.pci for device in inventory.devices] == ["0000:d3:00.0"]
    assert "no answer in time" in source(inventory, "rbln-smi").detail
