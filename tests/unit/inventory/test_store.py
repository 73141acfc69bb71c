"""Inventory files: whole, checked, and never empty by mistake."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcmgr.errors import InventoryError
from hpcmgr.inventory import CpuTopology, Device, NodeInventory
from hpcmgr.inventory.store import load, load_all, save


def node(name: str) -> NodeInventory:
    """A node with one device."""
    cpu = CpuTopology(sockets=1, cores_per_socket=1, threads_per_core=1)
    device = Device(vendor="nvidia", model="Tesla T4", kind="gpu", pci="0000:3b:00.0")
    return NodeInventory(
        schema_="hpcmgr.node/1", node=name, cpu=cpu, memory_mib=1, devices=(device,)
    )


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    """The file is named after the node and holds what discover --json prints."""
    path = save(node("n1").with_digest(), tmp_path / "new")

    assert path == tmp_path / "new/n1.json"
    assert load(path) == node("n1").with_digest()
    assert path.read_text() == node("n1").with_digest().to_json()


def test_nothing_is_left_beside_the_files(tmp_path: Path) -> None:
    """No temporary file stays, and a second save replaces the first."""
    save(node("n1"), tmp_path)
    save(node("n1").with_digest(), tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["n1.json"]


def test_all_broken_files_are_told_at_once(tmp_path: Path) -> None:
    """A broken file is an error with its name and reason, never a node without devices."""
    save(node("good"), tmp_path)
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "half.json").write_text(node("half").to_json()[:200])
    (tmp_path / "other.json").write_text(node("n1").to_json())
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "newer.json").write_text(node("newer").to_json().replace("node/1", "node/9"))
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "dir.json").mkdir()
    with pytest.raises(InventoryError) as caught:
        load_all(tmp_path)

    broken = ("empty", "half", "other", "list", "newer", "binary", "dir")
    assert all(f"{name}.json" in caught.value.message for name in broken)
    assert "good.json" not in caught.value.message


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    """Notes and half-written files of a crashed writer are no inventories."""
    save(node("n2"), tmp_path)
    save(node("n1"), tmp_path)
    (tmp_path / "README").write_text("notes")
    (tmp_path / ".n1.json.abcd").write_text("half")

    assert list(load_all(tmp_path)) == ["n1", "n2"]


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    """Nobody takes it for a cluster without nodes."""
    with pytest.raises(InventoryError, match="cannot be read"):
        load_all(tmp_path / "missing")


@pytest.mark.parametrize("name", ["../n1", "a/b", "", ".hidden", "-n"])
def test_a_name_that_is_no_node_names_no_file(tmp_path: Path, name: str) -> None:
    """A node cannot write beside its directory."""
    with pytest.raises(InventoryError):
        save(node(name), tmp_path)

    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    """Its reason is named."""
    path = save(node("n1"), tmp_path)
    path.chmod(0)
    with pytest.raises(InventoryError, match="Permission denied"):
        load(path)
