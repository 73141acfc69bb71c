"""The ledger's filters: what they mean, and what a wrong one is told."""

from __future__ import annotations

import string

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hpcmgr.errors import UsageProblem
from hpcmgr.ledger import FIELDS, Condition, Record, matches, parse
from hpcmgr.ledger.record import record_of
from hpcmgr.versions import compare
from tests.unit.inventory.test_drift import card

SPRING = 1772366400.0  # 2026-03-01 12:00 UTC


def record(node: str = "gpu01", seen: float = SPRING, **changes: object) -> Record:
    """An A100 that belongs to pool train."""
    return record_of(card(0, **changes), node, seen, ("train", None, None))


def hits(query: str, *records: Record) -> list[bool]:
    """Which records match."""
    test = matches(parse(query))
    return [test(one) for one in records]


@pytest.mark.parametrize(
    ("query", "hit"),
    [
        ("driver<550", False),
        ("driver<550.90.8", True),
        ("driver=550.90.07", True),
        ("driver=550.90.7.0", True),
        ("driver>=550.90.07 driver<=550.90.07", True),
        ("driver~^550", True),
        ("vendor=NVIDIA", True),
        ("vendor!=nvidia", False),
        ("node=gpu[01-04]", True),
        ("node=gpu[02-04]", False),
        ("node!=gpu[02-04]", True),
        ("node~^gpu", True),
        ("memory>=81920", True),
        ("memory<81920", False),
        ("numa=0 number=0 moves=0", True),
        ("model~a100", True),
        ('model="NVIDIA A100-SXM4-80GB"', True),
        ("model='nvidia a100-sxm4-80gb'", True),
        ("pool=train", True),
        ("project=-", True),
        ("project!=-", False),
        ("project!=x", True),
        ("serial=-", False),
        ("chip<5", False),
        ("chip>=0", False),
        ("first=2026-03", True),
        ("first=2026", True),
        ("first<2026-03", False),
        ("first<2026-04 first>2026-02-01", True),
        ("first='2026-03-01 1'", False),
        ("state=present", True),
        ("driver < 550", False),
        ("  ", True),
    ],
)
def test_what_a_filter_means(query: str, hit: bool) -> None:
    """One A100 in gpu01."""
    if query == "first='2026-03-01 1'":
        with pytest.raises(UsageProblem, match="is no time"):
            parse(query)
        return
    assert hits(query, record()) == [hit]


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("drivr<550", "no field 'drivr', did you mean 'driver'?"),
        ("1560922014700", "'1560922014700' is no condition"),
        ("driver", "'driver' is no condition"),
        ("driver<", "'driver<' is no condition"),
        ("vendor<nvidia", "vendor cannot be compared with <"),
        ("memory~80", "memory cannot be compared with ~"),
        ("memory<80G", "'80G' is no whole number"),
        ("numa=-1", "'-1' is no whole number"),
        ("first<yesterday", "'yesterday' is no time"),
        ("model~(", "'(' is no regular expression"),
        ("node=gpu[01-", "'gpu[01-' is no hostlist"),
        ("node=n[1-99999999]", "stands for more than 65536 nodes"),
        ("driver=..", "'..' is no version"),
        ("model='a", "is no condition"),
        ("vendor=nvidia driver", "'driver' is no condition"),
        ("pool==train", "is no condition"),
    ],
)  # fmt: skip
def test_a_wrong_filter_is_told(query: str, part: str) -> None:
    """What is wrong, and what there is instead."""
    if query == "pool==train":
        assert parse(query) == (Condition("pool", "=", "=train"),)
        return
    with pytest.raises(UsageProblem) as told:
        parse(query)
    assert part in told.value.message
    assert told.value.exit_code == 2


values = st.text(string.ascii_letters + string.digits + " .-_~<>=!'", max_size=12)
operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "~"])
conditions = st.builds(Condition, st.sampled_from(sorted(FIELDS)), operators, values)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(st.lists(conditions, max_size=4))
def test_what_was_read_reads_the_same_again(wanted: list[Condition]) -> None:
    """Conditions, printed with their quotes, are the same conditions."""
    text = " ".join(map(str, wanted))
    try:
        found = parse(text)
    except UsageProblem:
        assume(False)
        return
    assert list(found) == wanted


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_a_told_error(text: str) -> None:
    """And every filter that was read can be applied."""
    try:
        found = parse(text)
    except UsageProblem as problem:
        told = problem.message
        assert told.strip()
        return
    matches(found)(record(uuid=None, driver=None))


@given(st.sampled_from(sorted(FIELDS)), values, st.booleans())
def test_unequal_is_the_contrary_of_equal(name: str, value: str, known: bool) -> None:
    """For every field, known or not."""
    one = record() if known else record(uuid=None, serial=None, driver=None, numa_node=None)
    try:
        equal = hits(str(Condition(name, "=", value)), one)
    except UsageProblem:
        assume(False)
        return
    assert hits(str(Condition(name, "!=", value)), one) == [not equal[0]]


versions = st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,3}", fullmatch=True)


@given(versions, versions)
def test_a_known_version_is_smaller_equal_or_larger(mine: str, value: str) -> None:
    """Just one of the three, and as versions compare."""
    one = record(driver=mine)
    found = [hits(f"driver{op}{value}", one)[0] for op in ("<", "=", ">")]

    assert found == [compare(mine, value) == sign for sign in (-1, 0, 1)]
    assert hits(f"driver<={value}", one) == [found[0] or found[1]]
    assert hits(f"driver>={value}", one) == [found[2] or found[1]]


@given(versions)
def test_an_unknown_version_is_neither(value: str) -> None:
    """It cannot be said to be old."""
    one = record(driver=None)

    assert not any(hits(f"driver{op}{value}", one)[0] for op in ("<", "<=", "=", ">", ">="))
    assert hits("driver=-", one) == [True]
