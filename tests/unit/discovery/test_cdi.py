"""CDI specifications: a second witness of device nodes, never of devices."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.unit.discovery.conftest import Recording, at, source

Make = Callable[[str], Recording]
GPU = "0000:23:00.0"


def spec(devices: Mapping[str, Sequence[str]], kind: str = "intel.com/gpu") -> str:
    """A specification with these nodes by name."""
    return json.dumps(
        {
            "cdiVersion": "0.6.0",
            "kind": kind,
            "devices": [
                {"name": name, "containerEdits": {"deviceNodes": [{"path": p} for p in paths]}}
                for name, paths in devices.items()
            ],
        }
    )


def test_json_and_yaml_of_both_folders_agree_with_the_kernel(recording: Make) -> None:
    """No conflict, and the report says how many of the named devices are here."""
    for name in ("mi300x8", "arc4"):
        inventory = recording(name).discover()

        assert source(inventory, "cdi").state == "present"
        assert not any(d.conflicts for d in inventory.devices)
    assert "5 devices, 4 of them here" in source(inventory, "cdi").detail


def test_a_node_of_another_card_is_a_conflict_with_both_values(recording: Make) -> None:
    """The kernel is believed; the specification is out of date."""
    host = recording("arc4").removed("/etc/cdi")
    nodes = ["/dev/dri/card9", "/dev/dri/renderD130"]
    inventory = host.file("/var/run/cdi/x.json", spec({GPU: nodes})).discover()

    assert at(inventory, GPU).files == ("/dev/dri/card3", "/dev/dri/renderD130")
    (conflict,) = at(inventory, GPU).conflicts
    assert "drm says /dev/dri/card3 /dev/dri/renderD130" in conflict
    assert "cdi says /dev/dri/card9 /dev/dri/renderD130" in conflict


def test_a_device_that_only_a_specification_knows_is_none(recording: Make) -> None:
    """Whatever it names: an address without a card, a node without a card, no node at all."""
    host = recording("arc4").removed("/etc/cdi")
    devices = {
        "0000:99:00.0": ["/dev/dri/card7"],
        "0": ["/dev/dri/card8"],
        "1": ["/dev/x"],
        "2": [],
    }
    inventory = host.file("/etc/cdi/x.json", spec(devices)).discover()

    assert len(inventory.devices) == 4
    assert "4 devices, 0 of them here" in source(inventory, "cdi").detail


def test_its_nodes_are_taken_where_nobody_else_knows_them(recording: Make) -> None:
    """A driver that hangs its node nowhere: the name is the address."""
    host = recording("gaudi8").removed("/sys/class/accel")
    host.file("/etc/cdi/h.json", spec({"0000:19:00.0": ["/dev/accel/accel2"]}, "habana.ai/gaudi"))
    inventory = host.discover()

    assert at(inventory, "0000:19:00.0").files == ("/dev/accel/accel2",)
    assert at(inventory, "0000:1a:00.0").files == ()


def test_shared_nodes_and_all_count_for_nobody(recording: Make) -> None:
    """/dev/kfd stands under each name; "all" has every node; a second name is the same device."""
    host = recording("arc4").removed("/etc/cdi")
    one, two = ["/dev/dri/card3", "/dev/dri/renderD130"], ["/dev/dri/card4", "/dev/dri/renderD131"]
    devices = {"0": ["/dev/kfd", *one], GPU: ["/dev/kfd", *one], "1": ["/dev/kfd", *two],
               "all": ["/dev/kfd", *one, *two]}  # fmt: skip
    inventory = host.file("/etc/cdi/x.json", spec(devices)).discover()

    assert not any(d.conflicts for d in inventory.devices)


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nkind: k/d\ndevices: [*b, *b]\n"


@pytest.mark.parametrize("text", ["", "{", "kind: 3\ndevices: []", "[1]", "kind: a/b", BOMB, "\0"])
def test_what_is_no_specification_breaks_the_source_alone(recording: Make, text: str) -> None:
    """It is named, and nothing else changes."""
    host = recording("arc4")
    before = host.discover()
    inventory = host.file("/etc/cdi/other.yaml", text).discover()

    assert source(inventory, "cdi").state == "broken"
    assert "/etc/cdi/other.yaml" in source(inventory, "cdi").detail
    assert inventory.devices == before.devices


def test_odd_contents_are_passed_over(recording: Make) -> None:
    """Devices without a name, edits that are no edits, nodes that are no paths."""
    edits = [3, {}, {"deviceNodes": 3}, {"deviceNodes": [1, {"path": 7}, {"path": "/etc/x"}]}]
    named = [{"name": f"n{n}", "containerEdits": edit} for n, edit in enumerate(edits)]
    odd = {"kind": "a/b", "devices": [1, None, {}, {"name": "x"}, *named]}
    inventory = recording("arc4").file("/etc/cdi/o.json", json.dumps(odd)).discover()

    assert not inventory.broken_sources
    assert len(inventory.devices) == 4


def test_partitions_are_not_compared(recording: Make) -> None:
    """They share the address of their card, and its nodes are only the first one's."""
    host = recording("")
    pci = "/sys/bus/pci/devices/0000:05:00.0"
    for name, text in (("vendor", "1002"), ("device", "74a1"), ("class", "120000")):
        host.file(f"{pci}/{name}", f"0x{text}\n")
    for part in range(2):
        tree = f"/sys/class/kfd/kfd/topology/nodes/{part + 1}"
        host.file(f"{tree}/gpu_id", "7\n").file(
            f"{tree}/properties",
            f"simd_count 4\nvendor_id 4098\ndevice_id 29857\nlocation_id {0x500 + part}\n"
            f"domain 0\ndrm_render_minor {128 + part}\n",
        )
    host.file("/sys/class/drm/renderD128/device", "../../../0000:05:00.0\n")
    host.file("/etc/cdi/a.json", spec({"0": ["/dev/dri/renderD128"]}, "amd.com/gpu"))
    first, second = host.discover().devices

    assert (first.files, second.files) == (("/dev/dri/renderD128",), ("/dev/dri/renderD129",))
    assert not first.conflicts
    assert not second.conflicts
