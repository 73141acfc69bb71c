"""What changed on a node: by what a device is, never by a number; links that come and go."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.cli import run, sync
from hpcmgr.inventory import CpuTopology, Device, DeviceLink, Health, Nic, NodeInventory, NumaNode
from hpcmgr.inventory.drift import Drift, Placed, Position, compare
from hpcmgr.inventory.elsewhere import find
from hpcmgr.inventory.flaps import WAIT, settle
from hpcmgr.inventory.identity import pair_up
from hpcmgr.inventory.store import load, save

CARD = "NVIDIA A100-SXM4-80GB at 0000:10:00.0"


def card(number: int, **changes: object) -> Device:
    """An A100 with everything known; ``number`` makes it another one."""
    values: dict[str, object] = {
        "vendor": "nvidia", "kind": "gpu", "model": "NVIDIA A100-SXM4-80GB",
        "profile": "a100-80g", "pci": f"0000:{0x10 + number:02x}:00.0", "index": number,
        "numa_node": 0, "files": (f"/dev/nvidia{number}",), "uuid": f"GPU-{number}",
        "serial": f"156092201470{number}", "memory_mib": 81920, "driver": "550.90.07",
        "firmware": "92.00.45", "health": Health(state="ok"), **changes,
    }  # fmt: skip
    return Device.model_validate(values)


def node(*devices: Device, name: str = "gpu01", **changes: object) -> NodeInventory:
    """A machine of two sockets with these devices."""
    values: dict[str, object] = {
        "schema": "hpcmgr.node/1", "node": name, "memory_mib": 515653, "devices": devices,
        "cpu": CpuTopology(sockets=2, cores_per_socket=16, threads_per_core=2), **changes,
    }  # fmt: skip
    return NodeInventory.model_validate(values).with_digest()


def said(before: NodeInventory | None, after: NodeInventory) -> list[tuple[str, str]]:
    """What changed, in short."""
    return [(change.what, str(change)) for change in compare(before, after).changes]


def test_an_equal_inventory_changes_nothing() -> None:
    """Nor does the first one of a node."""
    assert compare(node(card(0)), node(card(0))) == Drift("gpu01")
    assert compare(None, node(card(0))) == Drift("gpu01", first=True)


def test_a_card_that_is_gone_and_one_that_is_new_are_named() -> None:
    """With model, place and serial number."""
    changes = said(node(card(0), card(1)), node(card(0), card(2)))

    assert changes == [
        ("gone", "NVIDIA A100-SXM4-80GB at 0000:11:00.0 (serial 1560922014701): is gone"),
        ("new", "NVIDIA A100-SXM4-80GB at 0000:12:00.0 (serial 1560922014702): is new"),
    ]


def test_a_card_in_the_place_of_another_has_replaced_it() -> None:
    """Same address and model, other serial number: two cards, not one that changed."""
    other = card(0, uuid="GPU-9", serial="9")

    assert said(node(card(0)), node(other)) == [
        ("gone", f"{CARD} (serial 1560922014700): is gone; in its place is {CARD} (serial 9)"),
        ("new", "NVIDIA A100-SXM4-80GB at 0000:10:00.0 (serial 9): is new"),
    ]  # fmt: skip


def test_two_cards_that_swapped_their_slots_have_moved() -> None:
    """Neither is gone or new; the driver's numbers went with the slots."""
    here, there = card(0), card(1)
    place = ("pci", "index", "files")
    swapped = node(
        here.model_copy(update={name: getattr(there, name) for name in place}),
        there.model_copy(update={name: getattr(here, name) for name in place}),
    )

    assert [what for what, _ in said(node(here, there), swapped)] == [
        "moved", "files", "index", "moved", "files", "index",
    ]  # fmt: skip
    assert "moved from 0000:10:00.0 to 0000:11:00.0" in said(node(here, there), swapped)[0][1]


def test_a_renumbered_card_is_the_same_card() -> None:
    """Another device node, another number in the runtime."""
    after = card(0, files=("/dev/nvidia3",), index=2)

    assert [text.partition("): ")[2] for _, text in said(node(card(0)), node(after))] == [
        "renumbered: device node /dev/nvidia0 is now /dev/nvidia3",
        "renumbered: number 0 in the runtime is now 2",
    ]


@pytest.mark.parametrize(
    ("change", "what", "level", "part"),
    [
        ({"driver": "570.10"}, "driver", "note", "driver 550.90.07 is now 570.10"),
        ({"firmware": None}, "firmware", "note", "firmware 92.00.45 is now unknown"),
        ({"memory_mib": 73728}, "memory", "warning", "memory 81920 MiB is now 73728 MiB"),
        ({"memory_mib": 90000}, "memory", "note", "memory 81920 MiB is now 90000 MiB"),
        ({"numa_node": None}, "numa", "warning", "NUMA node 0 is now unknown"),
        ({"profile": None}, "profile", "warning", "profile a100-80g is now unknown"),
        ({"files": ()}, "files", "warning", "has no device node any more (was /dev/nvidia0)"),
        ({"serial": None}, "serial", "note", "serial number 1560922014700 is now unknown"),
        ({"uuid": "GPU-other"}, "uuid", "note", "uuid GPU-0 is now GPU-other"),
        ({"health": Health(state="failed", reasons=("gpu is lost",))}, "health", "warning",
         "health ok is now failed: gpu is lost"),
        ({"slices": ({"name": "1g.10gb"}, {"name": "1g.10gb"})}, "slices", "warning",
         "slices none are now 2 x 1g.10gb"),
    ],
)  # fmt: skip
def test_what_changed_about_a_card_is_one_line(
    change: dict[str, object], what: str, level: str, part: str
) -> None:
    """In words, and a warning where it takes something away."""
    found = compare(node(card(0)), node(card(0, **change))).changes

    assert [(one.what, one.level) for one in found] == [(what, level)]
    assert part in found[0].text


def test_a_card_that_nobody_can_name_is_known_by_its_place() -> None:
    """Without uuid and serial number; another model there is another card."""
    bare = {"uuid": None, "serial": None}

    assert said(node(card(0, **bare)), node(card(0, **bare, driver="1"))) == [
        ("driver", f"{CARD} (no serial number known): driver 550.90.07 is now 1"),
    ]  # fmt: skip
    assert [w for w, _ in said(node(card(0, **bare)), node(card(0, **bare, model="T4")))] == [
        "gone", "new",
    ]  # fmt: skip


def test_a_serial_number_on_two_cards_is_told_and_not_believed() -> None:
    """The cards are told apart by their places."""
    two = node(card(0, serial="1", uuid=None), card(1, serial="1", uuid=None))
    changes = said(two, two)

    places = "0000:10:00.0, 0000:11:00.0"
    text = f"serial 1 stands on {places}: these are told apart by their place only"
    assert changes == [("double", text)]


def test_the_chips_of_one_card_share_its_serial_number() -> None:
    """Two GPUs of a K80, two chips of a Duo card: no double, and each is found again."""
    board = node(card(0, serial="1"), card(1, serial="1"))
    duo = node(card(0, serial="1", chip=0, uuid=None), card(1, serial="1", chip=1, uuid=None))

    assert said(board, board) == []
    assert said(duo, duo) == []


def test_the_node_itself_is_compared() -> None:
    """CPUs, memory, NUMA nodes."""
    after = node(
        memory_mib=500000,
        cpu=CpuTopology(
            sockets=1, cores_per_socket=16, threads_per_core=2, numa=(NumaNode(id=0, cpus="0-31"),)
        ),
    )

    assert said(node(), after) == [
        ("cpu", "CPUs: 2 sockets x 16 cores x 2 threads are now 1 sockets x 16 cores x 2 threads"),
        ("node_memory", "memory of the node: 515653 MiB is now 500000 MiB"),
        ("node_numa", "NUMA nodes: 0 are now 1, or their CPUs changed"),
    ]


def port(name: str = "ib0", **changes: object) -> Nic:
    """An RDMA port that is active."""
    values: dict[str, object] = {
        "name": name, "pci": "0000:18:00.0", "vendor": "mellanox", "rdma": "mlx5_0",
        "link_layer": "InfiniBand", "state": "active", "speed_mbps": 200000, **changes,
    }  # fmt: skip
    return Nic.model_validate(values)


def test_interfaces_are_compared_by_their_address() -> None:
    """A new name is a change of the same interface; two ports may share an address."""
    assert said(node(nics=(port(),)), node(nics=(port("ibp24s0", state="down"),))) == [
        ("nic_name", "ibp24s0: name ib0 is now ibp24s0"),
        ("nic_state", "ibp24s0: state active is now down"),
    ]
    pair = (port("ib0"), port("ib1", rdma="mlx5_1"))
    assert said(node(nics=pair), node(nics=pair[:1])) == [("nic_gone", "ib1: interface is gone")]


def test_links_that_changed_alike_are_one_line() -> None:
    """A fabric that is gone is not 28 lines."""
    links = [DeviceLink(a="0000:10:00.0", b=f"0000:{b}:00.0", kind="NV12") for b in ("11", "12")]
    cards = (card(0), card(1), card(2))

    assert said(node(*cards, links=links), node(*cards)) == [
        ("links", "2 links between devices: NV12 is now unknown")
    ]


def gpus(*files: str, type_: str = "a100") -> list[Position]:
    """Devices of the name gpu in Slurm's order."""
    return [Position("gpu", n, type_, (f"/dev/nvidia{file}",)) for n, file in enumerate(files)]


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        (gpus("0", "1"), gpus("1", "0"), "(0 was /dev/nvidia0, is now /dev/nvidia1; 1 was"),
        (gpus("0", "1"), gpus("1"), "0 was /dev/nvidia0, is now /dev/nvidia1; of 2 1 are left"),
        (gpus("0", "1"), gpus("0"), "(of 2 1 are left)"),
        (gpus("0"), gpus("0", type_="h100"), "(0 was /dev/nvidia0, is now /dev/nvidia0)"),
        (gpus("0"), gpus("0", "1"), ""),
        (gpus("0"), [*gpus("0"), Position("npu", 0, "ascend910b3", ("/dev/davinci0",))], ""),
    ],
)
def test_positions_that_move_are_said(old: list[Position], new: list[Position], part: str) -> None:
    """Slurm numbers devices by place in the list: a device behind the others moves none."""
    found = compare(node(), node(), old_positions=old, new_positions=new).changes

    assert [change.what for change in found] == (["positions"] if part else [])
    assert not part or part in found[0].text


def test_a_card_from_another_node_has_moved(tmp_path: Path) -> None:
    """Its serial number stands in the inventory of the node that it was in."""
    save(node(card(3), name="gpu02"), tmp_path)
    (tmp_path / "gpu03.json").write_text(f"{{ broken {card(3).uuid}")
    drift = compare(node(), node(card(3)), elsewhere=lambda device: find(device, tmp_path, "gpu01"))

    assert [(c.what, c.before) for c in drift.changes] == [("moved", "gpu02 at 0000:13:00.0")]
    assert find(card(4), tmp_path, "gpu01") is None
    assert find(card(3, uuid=None, serial=None), tmp_path, "gpu01") is None


def test_a_link_that_is_down_for_a_moment_stays_active() -> None:
    """RDMA is a feature in Slurm's files: it goes only when the link stays down."""
    up, down = node(nics=(port(),)), node(nics=(port(state="down", speed_mbps=None),))

    first, waiting = settle(up, down, {}, 1000.0)
    later, still = settle(up, down, waiting, 1000.0 + WAIT - 1)
    settled, done = settle(up, down, waiting, 1000.0 + WAIT)

    assert first == up == later
    assert waiting == still == {"ib0": 1000.0}
    assert (settled, done) == (down, {})


def test_a_link_that_comes_up_is_published_at_once() -> None:
    """And so is a port that is gone, or one that never was RDMA."""
    up, down = node(nics=(port(),)), node(nics=(port(state="down"),))

    assert settle(down, up, {}, 0.0) == (up, {})
    assert settle(None, down, {}, 0.0) == (down, {})
    assert settle(up, node(), {}, 0.0) == (node(), {})
    plain = node(nics=(port(rdma=None, state="down"),))
    assert settle(node(nics=(port(rdma=None),)), plain, {}, 0.0) == (plain, {})


def test_a_clock_that_was_set_back_keeps_no_link_up_for_longer() -> None:
    """The time of the first sight is never in the future."""
    up, down = node(nics=(port(),)), node(nics=(port(state="down"),))

    assert settle(up, down, {"ib0": 9e9}, 1000.0)[1] == {"ib0": 1000.0}


known = st.sampled_from([None, "a", "b", "c"])
devices = st.lists(
    st.builds(lambda u, s, n: card(n, uuid=u, serial=s), known, known, st.integers(0, 3)),
    max_size=5,
)


@given(devices, devices)
def test_every_device_is_paired_gone_or_new(before: list[Device], after: list[Device]) -> None:
    """None is lost, none is counted twice, whatever identities are missing or double."""
    old = [Placed(d, "n") for d in before]
    new = [Placed(d, "n") for d in after]
    pairs, gone, fresh = pair_up(old, new)

    assert sorted(id(d) for d in old) == sorted(id(d) for d in [*(a for a, _ in pairs), *gone])
    assert sorted(id(d) for d in new) == sorted(id(d) for d in [*(b for _, b in pairs), *fresh])


@given(devices)
def test_with_sure_identities_no_order_and_no_place_matters(some: list[Device]) -> None:
    """Devices with uuids of their own are found again after any shuffle of places."""
    mine = [card(n, uuid=f"GPU-{n}", serial=None) for n in range(len(some))]
    moved = [d.model_copy(update={"pci": f"0000:{0x80 + n:02x}:00.0"})
             for n, d in enumerate(reversed(mine))]  # fmt: skip
    pairs, gone, fresh = pair_up([Placed(d, "n") for d in mine], [Placed(d, "n") for d in moved])

    assert not gone
    assert not fresh
    assert all(a.uuid == b.uuid for a, b in pairs)


class Desk:
    """``hpcmgr sync`` of one node, with places of its own."""

    def __init__(self, folder: Path, hosts: Path) -> None:
        self.folder, self.host = folder, hosts / "mixed"
        (folder / "site.yaml").write_text(f"inventory: {folder}/inventory\n")
        self.file = folder / "inventory" / "mix01.json"

    def sync(self, *args: str) -> int:
        """Run it and give its exit code."""
        with pytest.raises(SystemExit) as ended:
            run(["--config", str(self.folder / "site.yaml"), "sync", "--host", str(self.host),
                 *args])  # fmt: skip
        return int(ended.value.code or 0)


@pytest.fixture(name="desk")
def _desk(tmp_path: Path, hosts: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(sync, "NODE_DIR", tmp_path / "etc")
    monkeypatch.setattr(sync, "STATE_DIR", tmp_path / "var")
    return Desk(tmp_path, hosts)


def test_sync_says_what_changed_and_prints_it(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines on stderr, the document on stdout; the second time there is nothing to say."""
    assert desk.sync() == 0
    first = load(desk.file)
    save(
        first.model_copy(update={"devices": tuple(
            d.model_copy(update={"driver": "1.0"}) for d in first.devices[:2]
        )}), desk.file.parent,
    )  # fmt: skip
    capsys.readouterr()

    assert desk.sync("--json") == 0
    told = capsys.readouterr()
    assert desk.sync() == 0
    quiet = capsys.readouterr()

    document = json.loads(told.out)
    assert document["schema"] == "hpcmgr.drift/1"
    assert document["published"] is True
    assert [c["what"] for c in document["changes"]] == ["new", "driver", "driver", "positions"]
    assert "hpcmgr: note: mix01: 910B3 at 0000:c1:00.0" in told.err
    assert quiet.err == f"mix01: 3 devices, {desk.file}\n"


def test_sync_waits_with_a_link_that_is_down(
    desk: Desk, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It is told, the published files keep it for a while; --accept publishes it at once."""
    desk.sync()
    before = load(desk.file)
    desk.host = Path(shutil.copytree(desk.host, tmp_path / "host"))
    (desk.host / "sys/class/infiniband/mlx5_0/ports/1/state").write_text("1: DOWN\n")
    capsys.readouterr()

    desk.sync()
    assert load(desk.file) == before
    assert "ibp24s0 is down; it is published as active for 10 more min" in capsys.readouterr().err
    notes = tmp_path / "var" / "sync-mix01.json"
    notes.write_text(json.dumps({"down_since": {"ibp24s0": 1.0}}))
    desk.sync()
    assert "warning: mix01: ibp24s0: state active is now down" in capsys.readouterr().err
    assert load(desk.file) != before
    assert json.loads(notes.read_text()) == {"down_since": {}}

    save(before, desk.file.parent)
    desk.sync("--accept")
    assert load(desk.file) != before


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"down_since": {"ib0": "x"}}', "\0"])
def test_a_broken_note_of_links_is_none(desk: Desk, tmp_path: Path, text: str) -> None:
    """The links wait anew."""
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "sync-mix01.json").write_text(text)

    assert desk.sync() == 0


def test_a_broken_last_inventory_does_not_stop_the_node(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is replaced, and said."""
    desk.file.parent.mkdir()
    desk.file.write_text("{")

    assert desk.sync() == 0
    assert "the last inventory cannot be compared with" in capsys.readouterr().err
    assert len(load(desk.file).devices) == 3


def test_an_unchanged_inventory_tells_by_its_time_that_the_node_is_there(desk: Desk) -> None:
    """The bytes stay, the time is that of the last sync."""
    desk.sync()
    data = desk.file.read_bytes()
    os.utime(desk.file, (1000, 1000))
    desk.sync()

    assert desk.file.read_bytes() == data
    assert desk.file.stat().st_mtime > 1e9
