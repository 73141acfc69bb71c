"""Cambricon: two layouts of one tool, and a key/value text that knows some cards only."""

from __future__ import annotations

import pytest

from tests.outputs import output
from tests.unit.discovery.brands import Make, broken, card, nodes, says, told
from tests.unit.discovery.conftest import at, source


def test_table_and_info_make_one_card(recording: Make) -> None:
    """Place and firmware from the table, uuid, serial and health from info."""
    host = nodes(recording(""), "/dev/cambricon_dev0", "/dev/cambricon_dev1", "/dev/cambricon_ctl")
    inventory = says(host, "cnmon.txt", "cnmon-info.txt").discover()
    good, bad = at(inventory, "0000:c3:00.0"), at(inventory, "0000:41:00.0")

    assert told(good) == ("MLU370-X8", "0000:c3:00.0", 0, ("/dev/cambricon_dev0",), 23374)
    assert (good.serial, good.firmware, good.driver) == ("512000003311", "v1.1.9", "v5.10.31")
    assert (good.health.state, bad.health.state) == ("ok", "failed")
    assert bad.health.reasons == ("cnmon: device Bad",)
    assert (bad.uuid, bad.serial, good.profile) == (None, None, "mlu370-x8")


def test_the_kernel_knows_better_than_numbers(recording: Make) -> None:
    """Where the nodes hang below their functions, card 0 may be /dev/cambricon_dev1."""
    host = nodes(
        recording(""), "/dev/cambricon_dev0", "/dev/cambricon_dev1",
        n0="0000:41:00.0", n1="0000:c3:00.0",
    )  # fmt: skip
    inventory = says(host, "cnmon.txt").discover()

    assert at(inventory, "0000:c3:00.0").files == ("/dev/cambricon_dev1",)


def test_a_gap_in_the_numbers_names_no_node(recording: Make) -> None:
    """Two cards and nodes 0 and 2: which is card 1 is not sure."""
    host = nodes(recording(""), "/dev/cambricon_dev0", "/dev/cambricon_dev2")
    inventory = says(host, "cnmon.txt").discover()

    assert [device.files for device in inventory.devices] == [(), ()]


def test_release_4_tells_no_place(recording: Make) -> None:
    """What is the same for both cards is said of each, at the places that the kernel lists."""
    host = card(recording(""), "0000:3b:00.0", "cabc:0370", numa=0)
    card(host, "0000:af:00.0", "cabc:0370", numa=1)
    inventory = says(host, "cnmon-release4.txt").discover()

    assert [told(device) for device in inventory.devices] == [
        ("MLU370-S4", "0000:3b:00.0", None, (), 23308),
        ("MLU370-S4", "0000:af:00.0", None, (), 23308),
    ]
    assert [device.numa_node for device in inventory.devices] == [0, 1]
    assert not broken(inventory)


def test_the_only_card_without_a_place_has_the_only_place(recording: Make) -> None:
    """And its number, too."""
    text = output("cnmon-release4.txt").partition("| 1     /")[0]
    host = card(recording(""), "0000:3b:00.0", "cabc:0370").answers(("cnmon",), text)
    device = host.discover().devices[0]

    assert (device.pci, device.index, device.driver) == ("0000:3b:00.0", 0, "v4.20.9")


def test_more_cards_than_places_are_not_invented(recording: Make) -> None:
    """Two cards without a place and three in sysfs: the three stay, and the source is broken."""
    host = recording("")
    for bus in ("3b", "af", "d8"):
        card(host, f"0000:{bus}:00.0", "cabc:0370")
    inventory = says(host, "cnmon-release4.txt").discover()

    assert len(inventory.devices) == 3
    assert "no PCI address of 2 cards, 3 are there" in source(inventory, "cnmon").detail


def test_two_answers_that_contradict_each_other_are_broken(recording: Make) -> None:
    """Table and info put card 0 at different places."""
    host = says(recording(""), "cnmon.txt")
    host.answers(("cnmon", "info"), output("cnmon-info.txt").replace(": C3", ": C4"))
    inventory = host.discover()

    assert "0000:c3:00.0 and at 0000:c4:00.0" in source(inventory, "cnmon").detail


def test_a_card_that_only_info_knows_is_listed(recording: Make) -> None:
    """The table lost it."""
    host = says(recording(""), "cnmon-info.txt")
    host.answers(("cnmon",), output("cnmon.txt").partition("| 0     /")[0])
    inventory = host.discover()

    assert [device.index for device in inventory.devices] == [0, 1]
    assert source(inventory, "cnmon").state == "present"
    host.answers(("cnmon",), output("cnmon.txt").partition("| 1     /")[0])
    assert "card 1 with info alone" in source(host.discover(), "cnmon").detail


@pytest.mark.parametrize("number", ["0", "3"])
def test_virtual_functions_are_no_cards(recording: Make, number: str) -> None:
    """They have a number in the column VF."""
    text = output("cnmon.txt").replace("| 1     /  ", f"| 1     {number}  ")
    inventory = recording("").answers(("cnmon",), text).discover()

    assert [device.index for device in inventory.devices] == [0]


_TOPO = """
        MLU0    MLU1    CPU Affinity
MLU0     X      {word}     0-31
MLU1    {word}     X       0-31

Legend:
  X    = Self
"""
_FRAMED = """
+--------------------------------------+
|        | MLU0   | MLU1   | CPU Affinity |
|--------+--------+--------+----------|
| MLU0   | X      | {word}    | 0-31     |
| MLU1   | {word}    | X      | 0-31     |
+--------------------------------------+
"""


@pytest.mark.parametrize("layout", [_TOPO, _FRAMED])
@pytest.mark.parametrize(("word", "direct"), [("MLK", True), ("MUL", False), ("CPU", False)])
def test_links_of_a_matrix(recording: Make, layout: str, word: str, direct: bool) -> None:
    """MLK is MLU-Link; what stands in a cell is kept as it is."""
    host = says(recording(""), "cnmon.txt").answers(
        ("cnmon", "topo", "-m"), layout.format(word=word)
    )
    inventory = host.discover()

    assert [(link.a, link.b, link.kind, link.direct) for link in inventory.links] == [
        ("0000:41:00.0", "0000:c3:00.0", word, direct)
    ]
    assert not broken(inventory)


@pytest.mark.parametrize(
    "text",
    [
        "MLU0 MLU1 CPU Affinity\nMLU0 MLK X 0-31\nMLU1 X MLK 0-31\n",
        "MLU0 MLU1 CPU Affinity\nMLU0 X MLK/MUL 0-31\nMLU1 MLK/MUL X 0-31\n",
        "MLU0 MLU2\nMLU0 X MLK\nMLU2 MLK X\n",
        "Topology is not supported\n",
    ],
)
def test_a_matrix_that_nobody_has_shown_gives_no_links(recording: Make, text: str) -> None:
    """Rather none than wrong ones; the cards are as good as without it."""
    host = says(recording(""), "cnmon.txt").answers(("cnmon", "topo", "-m"), text)
    inventory = host.discover()

    assert (len(inventory.devices), inventory.links) == (2, ())
    assert not broken(inventory)
