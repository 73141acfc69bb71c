"""The cache of root file systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightcluster import recipe, rootfs
from lightcluster.errors import RootfsError


@pytest.fixture(name="cache")
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPCMGR_CACHE", str(tmp_path))
    return tmp_path / "rootfs"


def _fake_build(monkeypatch: pytest.MonkeyPatch, version: str) -> list[str]:
    """Stands in for mmdebstrap; the list collects what was built."""
    built: list[str] = []

    def mmdebstrap(release: str, target: Path) -> None:
        target.mkdir()
        built.append(release)

    monkeypatch.setattr(rootfs, "_mmdebstrap", mmdebstrap)
    monkeypatch.setattr(rootfs, "_slurm_version", lambda _: version)
    return built


def test_the_key_names_suite_and_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more package is another tree."""
    before = recipe.key("24.11")
    monkeypatch.setattr(recipe, "PACKAGES", (*recipe.PACKAGES, "vim"))

    assert before.startswith("trixie-")
    assert recipe.key("24.11") != before
    assert recipe.key("26.05").startswith("forky-")


def test_an_unknown_release_is_told_which_there_are() -> None:
    """The message lists the releases."""
    with pytest.raises(RootfsError, match=r"no root file system for Slurm 22\.05; there is 24\.11"):
        recipe.key("22.05")


def test_a_tree_is_built_once(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second call finds it, and what was found in it is said."""
    built = _fake_build(monkeypatch, "24.11.5")

    first, second = rootfs.ensure("24.11"), rootfs.ensure("24.11")

    assert first == second == cache / recipe.key("24.11")
    assert built == ["24.11"]
    assert "Slurm 24.11.5 is in" in capsys.readouterr().err


def test_a_suite_that_moved_on_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What bears a release's name has that release."""
    _fake_build(monkeypatch, "26.11.0")

    with pytest.raises(RootfsError, match=r"forky now has Slurm 26\.11\.0, not 26\.05"):
        rootfs.ensure("26.05")

    assert [place.name for place in cache.iterdir() if place.is_dir()] == []


def test_an_interrupted_build_leaves_nothing_that_looks_finished(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next call starts anew."""

    def interrupted(_: str, target: Path) -> None:
        target.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(rootfs, "_mmdebstrap", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rootfs.ensure("24.11")

    assert [place.name for place in cache.iterdir() if place.is_dir()] == []


def test_remains_of_a_killed_builder_are_discarded(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process could not clean up itself."""
    partial = cache / f"{recipe.key('24.11')}.partial"
    (partial / "usr").mkdir(parents=True)
    built = _fake_build(monkeypatch, "24.11.5")

    tree = rootfs.ensure("24.11")

    assert built == ["24.11"]
    assert not (tree / "usr").exists()
    assert not partial.exists()


def test_a_mirror_is_named_only_where_the_user_names_one() -> None:
    """Without one mmdebstrap takes Debian's own."""
    target = Path("/tmp/x")

    assert recipe.mmdebstrap_argv("24.11", target)[-2:] == ["trixie", "/tmp/x"]
    assert recipe.mmdebstrap_argv("24.11", target, "http://mirror/debian")[-1].endswith("/debian")
