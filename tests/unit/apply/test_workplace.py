"""Files go in place whole and come back whole; the marker survives; one apply at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcmgr.apply.workplace import HOLDING, Marker, Workplace
from hpcmgr.errors import ApplyError

OLD = {"gres.conf": "old gres\n", "hpcmgr.conf": "old nodes\n"}
NEW = {"gres.conf": "new gres\n", "hpcmgr.conf": "new nodes\n", "hpcmgr/submit.lua": "-- new\n"}


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Workplace:
    for name, text in OLD.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "gres.conf").chmod(0o640)
    return Workplace(tmp_path)


def contents(place: Workplace) -> dict[str, str]:
    return {
        str(p.relative_to(place.conf_dir)): p.read_text()
        for p in sorted(place.conf_dir.rglob("*"))
        if p.is_file() and place.folder not in p.parents
    }


def staged(place: Workplace, identity: str = "20260101T000000Z") -> Marker:
    return place.stage(Marker(identity, HOLDING), NEW)


def test_staging_touches_nothing_that_slurm_reads(place: Workplace) -> None:
    """Only the rename does."""
    staged(place)

    assert contents(place) == OLD


def test_files_go_in_place_and_come_back(place: Workplace) -> None:
    """With their mode; a file that was not there before is gone again."""
    marker = staged(place)
    place.put_in_place(marker)

    assert contents(place) == NEW
    assert place.in_place(marker)
    assert (place.conf_dir / "gres.conf").stat().st_mode & 0o777 == 0o640
    place.put_back(marker)
    assert contents(place) == OLD
    assert not place.in_place(marker)
    assert (place.conf_dir / "gres.conf").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("done", [0, 1, 2, 3])
def test_a_half_done_change_comes_back_whole(place: Workplace, done: int) -> None:
    """Killed after any number of renames."""
    marker = staged(place)
    for name in list(NEW)[:done]:
        (place.conf_dir / name).parent.mkdir(exist_ok=True)
        (place.folder / "staged" / marker.id / name).replace(place.conf_dir / name)

    place.put_back(marker)

    assert contents(place) == OLD
    place.put_back(marker)
    assert contents(place) == OLD


def test_the_marker_is_read_back(place: Workplace) -> None:
    """As it was written."""
    marker = Marker("x", HOLDING, held=("n1",), moved=("n1", "n2"), started={"n1": None})
    place.folder.mkdir()
    place.write_marker(marker)

    assert place.read_marker() == marker
    place.clear_marker()
    assert place.read_marker() is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": "x"}', "null",
                                  '{"schema": "hpcmgr.apply/1", "held": []}'])  # fmt: skip
def test_a_broken_marker_is_told_with_what_to_do(place: Workplace, text: str) -> None:
    """It is never taken for "nothing was interrupted"."""
    place.folder.mkdir()
    (place.folder / "apply.json").write_text(text)

    with pytest.raises(ApplyError, match=r"apply\.json is broken") as caught:
        place.read_marker()
    assert "compare" in caught.value.hint


def test_two_at_once(place: Workplace) -> None:
    """The second is refused while the first holds the lock, and not after."""
    again = Workplace(place.conf_dir)
    refused = pytest.raises(ApplyError, match="another apply is running")
    with place.locked(), refused, again.locked():
        raise AssertionError
    with place.locked():
        pass


def test_the_newest_backups_are_kept(place: Workplace) -> None:
    """By age, which their names tell."""
    for day in range(5):
        staged(place, f"2026010{day}T000000Z")

    place.prune(2)

    kept = sorted(p.name for p in (place.folder / "backups").iterdir())
    assert kept == ["20260103T000000Z", "20260104T000000Z"]


def test_a_symbolic_link_is_not_replaced(place: Workplace) -> None:
    """A rename would silently turn it into a file."""
    (place.conf_dir / "cgroup.conf").symlink_to("elsewhere")

    with pytest.raises(ApplyError, match="symbolic link to elsewhere"):
        place.read("cgroup.conf")


def test_no_room_leaves_nothing_behind(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files stay whole and the half-staged ones go."""

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        staged(place)

    assert contents(place) == OLD
    assert list((place.folder / "staged").iterdir()) == []
    assert not (place.folder / "backups").exists() or not list((place.folder / "backups").iterdir())
