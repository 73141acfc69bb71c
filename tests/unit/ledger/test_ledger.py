"""What the ledger makes of inventories, one after the other, and how it is asked."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.cli import run
from hpcmgr.errors import LedgerError
from hpcmgr.inventory import Device, Health
from hpcmgr.inventory.store import node_path, save
from hpcmgr.ledger import Event, Ledger, Record, Summary, read_inventories, take_in
from hpcmgr.settings import Site
from tests.unit.inventory.test_drift import card, node


class Hall:
    """A machine hall: nodes sync at times of their own, the controller takes in now and then."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inventory = folder / "inventory"
        self.inventory.mkdir()
        self.site = Site.model_validate({
            "inventory": self.inventory, "ledger": folder / "ledger.sqlite",
            "nodes": [{"nodes": "gpu01", "pool": "train", "project": "llm"}],
        })  # fmt: skip
        self.ledger = Ledger(self.site.ledger)

    def sync(self, name: str, at: float, *devices: Device) -> None:
        """A node publishes at that time."""
        os.utime(save(node(*devices, name=name), self.inventory), (at, at))

    def take_in(self, now: float) -> Summary:
        """The controller looks."""
        return take_in(self.ledger, read_inventories(self.inventory), self.site, now)

    def record(self, serial: str | None) -> Record:
        """The device of that serial number; there must be just one."""
        found = [r for r in self.ledger.records() if r.serial == serial]
        assert len(found) == 1, found
        return found[0]

    def story(self, serial: str | None) -> list[tuple[float, str]]:
        """What happened to it, in short."""
        return [(e.at, e.what) for e in self.ledger.events(self.record(serial).id or 0)]


@pytest.fixture(name="hall")
def _hall(tmp_path: Path) -> Hall:
    return Hall(tmp_path)


A, B = "1560922014700", "1560922014701"


def test_a_device_is_first_seen_with_all_that_is_known(hall: Hall) -> None:
    """Place, versions, owner, times."""
    hall.sync("gpu01", 100, card(0))
    summary = hall.take_in(150)
    one = hall.record(A)

    assert (one.node, one.pci, one.numa, one.driver) == ("gpu01", "0000:10:00.0", 0, "550.90.07")
    assert (one.pool, one.department, one.project) == ("train", None, "llm")
    assert (one.first, one.last, one.state, one.moves) == (100, 100, "present", 0)
    assert (summary.nodes, summary.present, dict(summary.counts)) == (1, 1, {"first": 1})
    assert hall.story(A) == [(100, "first")]


def test_nothing_new_is_only_seen_again(hall: Hall) -> None:
    """No event, a later time; a node that does not sync is not seen."""
    hall.sync("gpu01", 100, card(0))
    hall.take_in(150)
    hall.sync("gpu01", 200, card(0))

    assert not hall.take_in(250).counts
    assert not hall.take_in(999).counts
    assert hall.record(A).last == 200


def test_changes_have_their_date(hall: Hall) -> None:
    """That of the sync which told them."""
    hall.sync("gpu01", 100, card(0))
    hall.take_in(150)
    hall.sync("gpu01", 200, card(0, driver="570.1", health=Health(state="degraded")))
    hall.take_in(250)

    assert hall.story(A) == [(100, "first"), (200, "driver"), (200, "health")]
    assert hall.ledger.events(hall.record(A).id or 0)[1] == Event(
        200, "driver", "gpu01", "driver 550.90.07 is now 570.1"
    )
    assert (hall.record(A).first, hall.record(A).driver) == (100, "570.1")


def test_a_card_that_moved_keeps_its_history(hall: Hall) -> None:
    """The node that it left is switched off and still lists it: the later sync is right."""
    hall.sync("gpu01", 100, card(0))
    hall.take_in(150)
    hall.sync("gpu02", 200, card(0))
    summary = hall.take_in(250)
    one = hall.record(A)

    assert (one.node, one.first, one.since, one.moves) == ("gpu02", 100, 200, 1)
    assert hall.story(A) == [(100, "first"), (200, "moved"), (200, "owner"), (200, "owner")]
    assert "is in gpu02 now; gpu01, which has not synced since, still lists it" in summary.notes[0]
    assert not hall.take_in(260).counts
    hall.sync("gpu01", 300)
    assert not hall.take_in(350).counts


def test_two_cards_that_swap_their_nodes(hall: Hall) -> None:
    """Whether both nodes have synced before the controller looks, or only one."""
    hall.sync("gpu01", 100, card(0))
    hall.sync("gpu02", 100, card(1))
    hall.take_in(150)
    hall.sync("gpu01", 200, card(1))
    hall.take_in(250)
    assert (hall.record(B).node, hall.record(A).state) == ("gpu01", "gone")
    hall.sync("gpu02", 300, card(0))
    hall.take_in(350)

    assert [(r.serial, r.node, r.moves, r.state) for r in hall.ledger.records()] == [
        (B, "gpu01", 1, "present"), (A, "gpu02", 1, "present"),
    ]  # fmt: skip
    assert [what for _, what in hall.story(A)][:4] == ["first", "gone", "back", "moved"]

    hall.sync("gpu01", 400, card(0))
    hall.sync("gpu02", 400, card(1))
    assert hall.take_in(450).counts["moved"] == 2
    assert len(hall.ledger.records()) == 2


def test_a_card_that_is_gone_may_come_back(hall: Hall) -> None:
    """Its time of going is that of the sync that missed it."""
    hall.sync("gpu01", 100, card(0), card(1))
    hall.take_in(150)
    hall.sync("gpu01", 200, card(0))
    hall.take_in(250)
    assert (hall.record(B).state, hall.record(B).gone) == ("gone", 200)
    hall.sync("gpu01", 300, card(0), card(1))
    hall.take_in(350)

    assert hall.record(B).state == "present"
    assert hall.story(B) == [(100, "first"), (200, "gone"), (300, "back")]


def test_a_node_without_inventory_has_lost_its_devices(hall: Hall) -> None:
    """Its file was removed; a broken file says nothing."""
    hall.sync("gpu01", 100, card(0))
    hall.sync("gpu02", 100, card(1))
    hall.take_in(150)
    node_path(hall.inventory, "gpu01").unlink()
    node_path(hall.inventory, "gpu02").write_text("{")
    reading = read_inventories(hall.inventory)
    take_in(hall.ledger, reading, hall.site, 250)

    assert list(reading.broken) == ["gpu02"]
    assert (hall.record(A).gone, hall.record(B).gone) == (250, None)


def test_cards_without_numbers_are_known_by_their_place(hall: Hall) -> None:
    """A swap for an equal one cannot be noticed; another model is another card."""
    bare = {"uuid": None, "serial": None}
    hall.sync("gpu01", 100, card(0, **bare))
    hall.take_in(150)
    hall.sync("gpu01", 200, card(0, **bare))
    hall.take_in(250)
    hall.sync("gpu01", 300, card(0, **bare, model="T4"))
    hall.take_in(350)
    hall.sync("gpu01", 400, card(0, **bare))
    hall.take_in(450)

    assert [(r.model, r.state, r.first) for r in hall.ledger.records()] == [
        ("NVIDIA A100-SXM4-80GB", "present", 100), ("T4", "gone", 300),
    ]  # fmt: skip


def test_a_card_whose_number_becomes_known_is_the_same_card(hall: Hall) -> None:
    """The driver was loaded later."""
    hall.sync("gpu01", 100, card(0, uuid=None, serial=None))
    hall.take_in(150)
    hall.sync("gpu01", 200, card(0))
    hall.take_in(250)

    assert hall.story(A) == [(100, "first"), (200, "uuid"), (200, "serial")]


def test_a_serial_number_that_stands_twice_is_no_identity(hall: Hall) -> None:
    """Both places have a record, with a note, and no card moves to and fro."""
    same = {"uuid": None, "serial": "0815"}
    for at in (100, 200, 300, 400):
        hall.sync("gpu01", at, card(0, **same))
        hall.sync("gpu02", at + 1, card(0, **same))
        summary = hall.take_in(at + 50)
    records = hall.ledger.records()

    assert [(r.node, r.state, r.moves) for r in records] == [
        ("gpu01", "present", 0), ("gpu02", "present", 0),
    ]  # fmt: skip
    assert {r.note for r in records} == {
        "serial 0815 stands on several devices: gpu01 0000:10:00.0, gpu02 0000:10:00.0"
    }
    assert len(summary.notes) == 1


def test_a_serial_number_that_stands_twice_in_one_node(hall: Hall) -> None:
    """From the first update on."""
    hall.sync("gpu01", 100, *(card(n, uuid=None, serial="0") for n in range(2)))
    hall.take_in(150)

    assert [bool(r.note) for r in hall.ledger.records()] == [True, True]
    assert not hall.take_in(160).counts


def test_the_gpus_of_one_board_share_its_serial_number(hall: Hall) -> None:
    """That is no double: each has its own uuid."""
    hall.sync("gpu01", 100, card(0, serial="7"), card(1, serial="7"))
    hall.take_in(150)

    assert [r.note for r in hall.ledger.records()] == ["", ""]
    assert not hall.take_in(160).counts


def test_a_clock_that_is_ahead_makes_nothing_newer_than_now(hall: Hall) -> None:
    """The file's time comes from the file server."""
    hall.sync("gpu01", 9e9, card(0))
    hall.take_in(150)

    assert hall.record(A).last == 150


states = st.lists(
    st.tuples(
        st.sampled_from(["gpu01", "gpu02", "gpu03"]),
        st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["both", "uuid", "none", "double"])),
                 max_size=3, unique_by=lambda pair: pair[0]),
    ),
    max_size=6,
)  # fmt: skip


@given(states)
def test_every_listed_device_is_present_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, list[tuple[int, str]]]]
) -> None:
    """Whatever moves, vanishes, or has no or a double number: one present record a place, and an
    update without news changes nothing."""
    hall = Hall(tmp_path_factory.mktemp("hall"))
    for at, (name, cards) in enumerate(steps, start=1):
        hall.sync(name, at * 100, *(_faulty(number, fault) for number, fault in cards))
        hall.take_in(at * 100 + 50)
        places = [(r.node, r.key) for r in hall.ledger.records() if r.state == "present"]
        assert len(places) == len(set(places))
        assert {key for node_, key in places if node_ == name} == {
            _faulty(*one).key for one in cards
        }
        again = hall.take_in(at * 100 + 60)
        assert not again.counts


def _faulty(number: int, fault: str) -> Device:
    changes = {
        "both": {}, "uuid": {"serial": None}, "none": {"serial": None, "uuid": None},
        "double": {"serial": "1", "uuid": None},
    }[fault]  # fmt: skip
    return card(number, **changes)


def test_an_update_that_fails_changes_nothing(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it or nothing."""
    hall.sync("gpu01", 100, card(0))
    hall.take_in(150)
    hall.sync("gpu01", 200, card(0, driver="1"), card(1))

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk full")

    monkeypatch.setattr("hpcmgr.ledger.store.Writer.done", fail)
    with pytest.raises(LedgerError, match="disk full"):
        hall.take_in(250)
    assert [(r.serial, r.driver) for r in hall.ledger.records()] == [(A, "550.90.07")]
    assert hall.ledger.updated() == 150


@pytest.mark.parametrize("data", [b"no database", b"\0" * 4096, "newer"])
def test_a_file_that_is_no_ledger_is_told(hall: Hall, data: bytes | str) -> None:
    """Neither read nor written over."""
    path = hall.site.ledger
    if isinstance(data, bytes):
        path.write_bytes(data)
    else:
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    hall.sync("gpu01", 100, card(0))

    with pytest.raises(LedgerError, match=f"ledger {path}: "):
        hall.take_in(150)
    with pytest.raises(LedgerError, match=f"ledger {path}: "):
        hall.ledger.records()
    assert path.read_bytes() == before


class Asked:
    """``hpcmgr ledger`` with that hall's site.yaml."""

    def __init__(self, hall: Hall, capsys: pytest.CaptureFixture[str]) -> None:
        self.hall, self.capsys = hall, capsys
        self.file = hall.folder / "site.yaml"
        self.file.write_text(
            f"inventory: {hall.inventory}\nledger: {hall.site.ledger}\n"
            "nodes: [{nodes: gpu01, pool: train}]\n"
        )

    def __call__(self, *args: str) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        with pytest.raises(SystemExit) as ended:
            run(["--config", str(self.file), "ledger", *args])
        said = self.capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err


@pytest.fixture(name="asked")
def _asked(hall: Hall, capsys: pytest.CaptureFixture[str]) -> Asked:
    hall.sync("gpu01", 1772366400, card(0))
    hall.sync("gpu02", 1772366400, card(1, driver="470.82.01"))
    return Asked(hall, capsys)


def test_before_the_first_update_there_is_a_hint(asked: Asked) -> None:
    """Where it is filled, and how."""
    code, out, err = asked()

    assert (code, out) == (1, "")
    assert "no ledger at" in err
    assert "on the controller run 'hpcmgr ledger --update'" in err


def test_the_ledger_is_filled_filtered_and_printed(asked: Asked) -> None:
    """Table, JSON and CSV have the same devices."""
    assert asked("--update")[0] == 0
    code, table, _ = asked("driver<550", "vendor=nvidia")
    document = json.loads(asked("driver<550", "--json")[1])
    rows = list(csv.DictReader(io.StringIO(asked("driver<550", "--csv")[1])))

    assert code == 0
    assert [line.split()[0] for line in table.splitlines()] == ["serial", B]
    assert (document["schema"], document["query"]) == ("hpcmgr.ledger/1", ["driver<550"])
    assert [device["serial"] for device in document["devices"]] == [B]
    assert [(row["serial"], row["pool"], row["node"]) for row in rows] == [(B, "", "gpu02")]
    assert set(rows[0]) == set(document["devices"][0])


def test_the_history_of_a_device(asked: Asked) -> None:
    """By serial number, uuid or id; as text, JSON and CSV."""
    asked("--update")
    asked.hall.sync("gpu01", 1772452800, card(0, driver="570.1"))
    asked("--update")

    text = asked("--history", A)[1]
    events = json.loads(asked("--history", "gpu-0", "--json")[1])["devices"][0]["events"]
    rows = asked("--history", "1", "--csv")[1].splitlines()
    assert "gpu01: driver 550.90.07 is now 570.1" in text
    assert [event["what"] for event in events] == ["first", "driver"]
    assert len(rows) == 3
    code, _, err = asked("--history", A[:-1])
    assert code == 1
    assert f"did you mean {B} or {A}?" in err


def test_what_a_reader_must_know_stands_beside_the_table(asked: Asked) -> None:
    """Nothing found, doubles, cards without a number, inventories that are newer."""
    asked("--update")
    assert "no device matches" in asked("vendor=amd")[2]
    asked.hall.sync("gpu03", 1772366400, card(2, uuid=None, serial=None))
    asked.hall.sync("gpu04", 1772366400, *(card(n, uuid=None, serial="1") for n in (0, 1)))
    asked("--update")
    err = asked()[2]
    assert "2 of these have a serial number or uuid that others have" in err
    assert "1 of these have neither serial number nor uuid" in err
    asked.hall.sync("gpu02", 4e9, card(1))
    assert "1 nodes have synced since the last update" in asked()[2]


def test_a_broken_inventory_makes_the_update_partial(asked: Asked) -> None:
    """The others are taken in; exit code 4."""
    (asked.hall.inventory / "gpu09.json").write_text("{")
    code, _, err = asked("--update")

    assert code == 4
    assert "left out" in err
    assert "2 devices of 2 nodes taken into" in err


@pytest.mark.parametrize(
    "args", [("drivr<5",), ("--json", "--csv"), ("--history", "1", "driver<5")]
)
def test_wrong_usage(asked: Asked, args: tuple[str, ...]) -> None:
    """Exit code 2, before anything is opened."""
    assert asked(*args)[0] == 2
