"""Versions in order, as vendors write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.versions import Range, compare, parts, starts_with


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("470.82.01", "550.54.14"),
        ("550.9", "550.54"),
        ("24.1.rc1", "24.1"),
        ("24.1.rc1", "24.1.rc2"),
        ("24.1.RC3", "24.1.0.3"),
        ("8.5.0.alpha001", "8.5.0"),
        ("8.0.RC1", "8.1.RC1"),
        ("6.3.0~rc1", "6.3.0"),
        ("1.20.0rc2", "1.20.0"),
        ("v5.10.9", "5.10.13"),
    ],
)
def test_older_comes_before_newer(older: str, newer: str) -> None:
    """Both ways round."""
    assert compare(older, newer) == -1
    assert compare(newer, older) == 1


@pytest.mark.parametrize(
    ("a", "b"), [("12.4", "12.4.0"), ("v5.10", "5.10"), ("24.1.RC1", "24.1.rc1")]
)
def test_these_are_the_same(a: str, b: str) -> None:
    """A missing part is zero; capitals and a v in front do not matter."""
    assert compare(a, b) == 0


def test_the_first_parts_of_a_version() -> None:
    """25.0 begins 25.0.rc1.1, and not 25.01 or 25."""
    assert starts_with("25.0.rc1.1", "25.0")
    assert starts_with("25.0.RC1.1", "25.0.rc1")
    assert not starts_with("25.01", "25.0.0")
    assert not starts_with("250.0", "25")
    assert not starts_with("25", "25.0")
    assert not starts_with("25", "")


texts = st.text(max_size=20) | st.from_regex(
    r"[0-9]{1,3}(\.[0-9]{1,3}){0,4}(rc[0-9])?", fullmatch=True
)


@given(texts, texts, texts)
def test_it_is_an_order(a: str, b: str, c: str) -> None:
    """Every text has a place, whatever a tool prints."""
    assert compare(a, a) == 0
    assert compare(a, b) == -compare(b, a)
    if compare(a, b) <= 0 and compare(b, c) <= 0:
        assert compare(a, c) <= 0
    assert parts(a) == parts(a.strip())


@pytest.mark.parametrize(
    ("asked", "oldest", "newest", "meets"),
    [
        (">=12.4", None, "12.4", True),
        (">=12.4", None, "12.2", False),
        (">=12.4.1", None, "12.4", True),
        (">12.4", None, "12.4", False),
        (">12.4", None, "12.6", True),
        ("==11.8", None, "12.4", True),
        ("12.6", None, "12.4", False),
        (">=11,<12", None, "12.4", True),
        ("<5.0", "5.3", "6.3", False),
        ("<=5.3", "5.3", "6.3", True),
        ("==5.2", "5.3", "6.3", False),
        (">=8.0, <9", "8.0", "8.5", True),
    ],
)
def test_a_range_is_met_where_some_served_version_lies_in_it(
    asked: str, oldest: str | None, newest: str, meets: bool
) -> None:
    """A newer driver serves older programs; versions are first parts."""
    assert Range.parse(asked).meets(oldest, newest) is meets


@pytest.mark.parametrize("text", ["", ">=", "~12", ">= twelve", "12.4,,13", "12 4"])
def test_what_is_no_range_is_refused(text: str) -> None:
    """With an example of what is."""
    with pytest.raises(ValueError, match=r"such as '>=12\.4'"):
        Range.parse(text)
