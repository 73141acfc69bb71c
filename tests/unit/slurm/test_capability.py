"""The table of releases."""

from __future__ import annotations

import pytest

from hpcmgr.slurm.capability import CAPABILITIES, Release, has, why_unsupported


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("24.11.5", (24, 11, 5)),
        ("slurm-wlm 26.05.5", (26, 5, 5)),
        ("slurm 25.11", (25, 11, None)),
        ("slurm 24.05.0-0rc1", (24, 5, 0)),
    ],
)
def test_a_release_is_found_in_what_slurm_says(
    text: str, want: tuple[int, int, int | None]
) -> None:
    """Programs print their version with a name in front."""
    release = Release.parse(text)

    assert (release.year, release.month, release.micro) == want


def test_what_is_no_release_is_refused() -> None:
    """With the word that was read."""
    with pytest.raises(ValueError, match="none"):
        Release.parse("none")


def test_releases_are_ordered_and_a_line_stands_for_its_newest() -> None:
    """24.11 is at least 24.11.2, whatever maintenance release it is now."""
    ordered = ["23.11.9", "24.05", "24.11.1", "24.11.2", "24.11", "25.05.0"]

    assert sorted(ordered, key=Release.parse) == ordered


@pytest.mark.parametrize(
    ("name", "no", "yes"),
    [
        ("CORES_BY_SOCKET", "24.11.1", "24.11.2"),
        ("NPU_ENFORCE_BINDING_ALL_SOCKETS", "26.05.5", "24.11.5"),
        ("NPU_BINDING_PER_SOCKET", "24.11.5", "26.05.5"),
        ("TOPOLOGY_3D_TORUS", "25.05.0", "24.11.7"),
        ("UPDATE_TYPE_OF_PENDING", "23.02.5", "23.02.6"),
    ],
)
def test_bounds(name: str, no: str, yes: str) -> None:
    """An entry holds from its first release on, and before its last."""
    assert not has(Release.parse(no), name)
    assert has(Release.parse(yes), name)


def test_every_entry_holds_where_it_was_seen() -> None:
    """The table does not contradict what was seen running."""
    for name, entry in CAPABILITIES.items():
        assert all(entry.holds(Release.parse(text)) for text in entry.seen), name


def test_old_releases_are_refused_with_the_reason() -> None:
    """22.05 leaves NPUs open to every job; 23.11 is the oldest that is supported."""
    assert "device cgroup" in (why_unsupported(Release.parse("22.05.8")) or "")
    assert why_unsupported(Release.parse("23.02.7"))
    assert why_unsupported(Release.parse("23.11.0")) is None
