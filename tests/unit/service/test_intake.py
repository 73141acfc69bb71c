"""Inventories that nodes send: what is taken in and what is not."""

from __future__ import annotations

import base64
import contextlib
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.errors import InventoryError, WireError
from hpcmgr.inventory import CpuTopology, Device, NodeInventory, SourceReport
from hpcmgr.inventory.packed import MOST_BYTES, pack, unpack
from hpcmgr.inventory.store import load
from hpcmgr.ledger.update import read_inventories
from hpcmgr.service.intake import Intake, Refused

CPU = CpuTopology(sockets=1, cores_per_socket=8, threads_per_core=1)


def card(number: int, serial: str | None = "") -> Device:
    """A GPU; ``serial`` None: nothing tells it from others."""
    return Device(
        vendor="nvidia", kind="gpu", model="A100", pci=f"0000:{number:02x}:00.0",
        serial=f"15600{number:05}" if serial == "" else serial, files=(f"/dev/nvidia{number}",),
    )  # fmt: skip


def inventory(name: str, *devices: Device, broken: str = "") -> NodeInventory:
    sources = (SourceReport(name=broken, state="broken"),) if broken else ()
    made = NodeInventory(node=name, cpu=CPU, memory_mib=1, devices=devices, sources=sources)
    return made.with_digest()


@pytest.fixture(name="intake")
def _intake(tmp_path: Path) -> Intake:
    return Intake(tmp_path)


def send(intake: Intake, sent: NodeInventory, *, accept: bool = False) -> None:
    intake.take(sent.node, pack(sent), accept=accept)


def test_what_is_sent_is_what_lies_in_the_folder(intake: Intake, tmp_path: Path) -> None:
    """Byte for byte as a node would have written it; the ledger reads it like any other."""
    sent = inventory("gpu01", card(1), card(2))
    assert intake.last("gpu01") == {"inventory": None}
    send(intake, sent)

    assert (tmp_path / "gpu01.json").read_text() == sent.to_json()
    word = intake.last("gpu01")["inventory"]
    assert unpack(str(word)) == sent
    assert list(read_inventories(tmp_path).inventories) == ["gpu01"]


def test_an_unchanged_inventory_only_gets_a_new_time(intake: Intake, tmp_path: Path) -> None:
    """Which is when the node last told it."""
    sent = inventory("gpu01", card(1))
    send(intake, sent)
    path = tmp_path / "gpu01.json"
    import os

    os.utime(path, (1, 1))
    inode = path.stat().st_ino
    send(intake, sent)

    assert path.stat().st_ino == inode
    assert path.stat().st_mtime > 1


def test_a_sudden_loss_of_all_devices_needs_a_person(intake: Intake, tmp_path: Path) -> None:
    """As on the node itself; a node that never had any is taken in."""
    send(intake, inventory("gpu01", card(1), card(2)))
    with pytest.raises(Refused, match="all 2 devices of gpu01 are gone"):
        send(intake, inventory("gpu01"))
    assert len(load(tmp_path / "gpu01.json").devices) == 2

    send(intake, inventory("gpu01"), accept=True)
    assert load(tmp_path / "gpu01.json").devices == ()
    send(intake, inventory("cpu01"))


def test_a_file_that_cannot_be_read_counts_as_devices(intake: Intake, tmp_path: Path) -> None:
    """Nobody knows what would be lost. Devices in its place are welcome."""
    (tmp_path / "gpu01.json").write_text("{")
    with pytest.raises(Refused, match="cannot be read"):
        send(intake, inventory("gpu01"))
    send(intake, inventory("gpu01", card(1)))


def test_a_broken_source_is_not_taken_in(intake: Intake) -> None:
    """Not even by a person's word: what is missing is not known."""
    with pytest.raises(Refused, match="nvidia-smi is broken"):
        send(intake, inventory("gpu01", card(1), broken="nvidia-smi"), accept=True)


def test_another_nodes_devices_under_a_wrong_name(intake: Intake, tmp_path: Path) -> None:
    """gpu02 that says to be gpu01, new or known: the file of gpu01 stays as it was."""
    send(intake, inventory("gpu01", card(1), card(2)))
    send(intake, inventory("gpu02", card(3), card(4)))
    fresh = Intake(tmp_path)
    for there in (intake, fresh):
        for name in ("gpu01", "gpu09"):
            with pytest.raises(Refused, match=f"{name} has the devices of gpu02"):
                send(there, inventory(name, card(3), card(4)))

    assert load(tmp_path / "gpu01.json").devices == (card(1), card(2))
    assert not (tmp_path / "gpu09.json").exists()
    send(fresh, inventory("gpu09", card(3), card(4)), accept=True)


def test_cards_may_move_and_be_replaced(intake: Intake) -> None:
    """One card from another node, all cards new, or cards that nothing tells apart."""
    send(intake, inventory("gpu01", card(1), card(2)))
    send(intake, inventory("gpu02", card(3)))

    send(intake, inventory("gpu02", card(3), card(2)))
    send(intake, inventory("gpu02", card(7), card(8)))
    send(intake, inventory("gpu03", card(1, None)))
    send(intake, inventory("gpu04", card(1, None)))
    send(intake, inventory("gpu05", card(2), card(9)))


@pytest.mark.parametrize("name", ["../gpu01", "", "a/b", ".hidden", "x\0"])
def test_a_name_cannot_lead_elsewhere(intake: Intake, name: str) -> None:
    """Neither to read nor to write."""
    with pytest.raises(InventoryError):
        intake.last(name)
    with pytest.raises(InventoryError):
        intake.take(name, pack(inventory(name, card(1))), accept=True)


def test_what_is_no_inventory_is_a_bad_request(intake: Intake) -> None:
    """The sender's fault, not the service's."""
    with pytest.raises(WireError, match="no packed inventory"):
        intake.take("gpu01", "rubbish", accept=True)


def test_the_body_must_be_the_nodes(intake: Intake) -> None:
    """Another name inside than in the credential."""
    with pytest.raises(WireError, match="the credential for 'gpu01'"):
        intake.take("gpu01", pack(inventory("gpu02", card(1))), accept=True)


def test_a_flood_in_a_small_word_is_not_unpacked() -> None:
    """A megabyte of zeros is a kilobyte of base64."""
    bomb = base64.b64encode(zlib.compress(b" " * (MOST_BYTES + 1), 9)).decode()

    assert len(bomb) < 10_000
    with pytest.raises(InventoryError, match="at most 1 MiB"):
        unpack(bomb)


@pytest.mark.parametrize("word", ["", "x", "eJw=", "é", "eJyrrgUAAXUA+Q=="])
def test_what_is_no_inventory_is_told_so(word: str) -> None:
    """Never a traceback."""
    with pytest.raises(InventoryError):
        unpack(word)


@given(st.data())
def test_a_mutated_word_is_an_inventory_or_an_error(data: st.DataObject) -> None:
    """Cut, turned and filled with anything."""
    word = pack(inventory("gpu01", card(1)))
    place = data.draw(st.integers(0, len(word)))
    mutated = word[:place] + data.draw(st.text(max_size=8)) + word[place + 4 :]
    with contextlib.suppress(InventoryError):
        assert unpack(mutated).node
