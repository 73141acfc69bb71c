"""The ledger's filters: ``driver<550 vendor=nvidia node=gpu[01-04]``.

Conditions stand side by side and must all hold. ``-`` as value means unknown. ``!=`` is the exact
contrary of ``=``; an unknown value is neither smaller nor larger than any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from hpcmgr.errors import UsageProblem, did_you_mean
from hpcmgr.ledger.record import Record
from hpcmgr.slurm.hostlist import expand
from hpcmgr.versions import compare

Kind = Literal["text", "number", "version", "time", "nodes"]

FIELDS: dict[str, tuple[Kind, str]] = {
    "id": ("number", "number in the ledger"),
    "serial": ("text", "serial number"),
    "uuid": ("text", "uuid, or what its vendor has for one"),
    "vendor": ("text", "brand: nvidia, huawei, amd"),
    "model": ("text", "model as the tool says it"),
    "kind": ("text", "gpu or npu"),
    "profile": ("text", "name of its device profile"),
    "node": ("nodes", "node; the value is a hostlist"),
    "pci": ("text", "PCI address"),
    "chip": ("number", "which of several chips at one address"),
    "numa": ("number", "NUMA node"),
    "files": ("text", "device nodes"),
    "number": ("number", "its number in the vendor's runtime"),
    "memory": ("number", "memory in MiB as the tool says it"),
    "driver": ("version", "driver"),
    "firmware": ("version", "firmware"),
    "runtime": ("version", "newest runtime that the driver serves"),
    "health": ("text", "ok, degraded, failed or unknown"),
    "pool": ("text", "owner in site.yaml"),
    "department": ("text", "owner in site.yaml"),
    "project": ("text", "owner in site.yaml"),
    "state": ("text", "present or gone"),
    "first": ("time", "when first seen"),
    "last": ("time", "when last seen"),
    "since": ("time", "since when in this place"),
    "gone": ("time", "when it was missed"),
    "moves": ("number", "how often it moved"),
    "note": ("text", "why it may not be what it seems"),
}
"""Name → kind and meaning. ``hpcmgr ledger --csv`` prints them in this order."""

UNKNOWN = "-"

_OPERATORS: dict[Kind, tuple[str, ...]] = {
    "text": ("=", "!=", "~"),
    "nodes": ("=", "!=", "~"),
    "number": ("=", "!=", "<", "<=", ">", ">="),
    "version": ("=", "!=", "<", "<=", ">", ">=", "~"),
    "time": ("=", "!=", "<", "<=", ">", ">="),
}
_CONDITION = re.compile(
    r"""\s*(?P<field>[A-Za-z_]+)\s*(?P<op>!=|<=|>=|=|<|>|~)\s*"""
    r"""(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>[^\s"'][^\s]*))(?=\s|$)"""
)
_TIME = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d)?)?)?)?)?")
_SMALL = 15
"""Digits that a number may have."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; ``value`` as it was written, without quotes."""

    field: str
    op: str
    value: str

    def __str__(self) -> str:
        quote = "'" if '"' in self.value else '"'
        plain = re.fullmatch(r"[^\s\"'][^\s]*", self.value)
        return f"{self.field}{self.op}{self.value if plain else quote + self.value + quote}"


def parse(text: str) -> tuple[Condition, ...]:
    """The conditions of ``text``; none of an empty one.

    Raises:
        UsageProblem: an unknown field, an operator that its kind does not know, or no condition.
    """
    found: list[Condition] = []
    at = 0
    while text[at:].strip():
        match = _CONDITION.match(text, at)
        if match is None:
            raise _unreadable(text[at:].strip())
        value = next(v for v in match.group("double", "single", "plain") if v is not None)
        found.append(Condition(match["field"].lower(), match["op"], value))
        at = match.end()
    for condition in found:
        _check(condition)
    return tuple(found)


def matches(conditions: Iterable[Condition]) -> Callable[[Record], bool]:
    """Whether a record fulfils all of them."""
    tests = [_test(condition) for condition in conditions]
    return lambda record: all(test(record) for test in tests)


def shown(record: Record, name: str) -> str | int | None:
    """A field as it is printed and compared; times in local time, to the second."""
    value = getattr(record, name)
    if FIELDS[name][0] == "time" and value is not None:
        return datetime.fromtimestamp(value).isoformat(timespec="seconds")
    if value == "":
        return None
    return value if isinstance(value, int) else None if value is None else str(value)


def _unreadable(rest: str) -> UsageProblem:
    first = rest.split()[0]
    return UsageProblem(
        f"{rest[:60]!r} is no condition",
        "a condition is FIELD OPERATOR VALUE, as in driver<550; quote a value with blanks"
        + (f"; to look for a serial number: serial={first}" if first.isalnum() else ""),
    )


def _check(condition: Condition) -> None:
    name, op, value = condition.field, condition.op, condition.value
    if name not in FIELDS:
        maybe = did_you_mean(name, FIELDS)
        raise UsageProblem(f"no field {name!r}{maybe}", f"fields: {', '.join(FIELDS)}")
    kind = FIELDS[name][0]
    if op not in _OPERATORS[kind]:
        known = " ".join(_OPERATORS[kind])
        raise UsageProblem(f"{condition}: {name} cannot be compared with {op}", f"it knows {known}")
    if value == UNKNOWN and op in ("=", "!="):
        return
    wrong = _wrong_value(kind, op, value)
    if wrong:
        raise UsageProblem(f"{condition}: {wrong}")


def _wrong_value(kind: Kind, op: str, value: str) -> str:
    """Why a field of that kind cannot be compared with ``value``; empty if it can."""
    if op == "~":
        try:
            re.compile(value)
        except (re.error, OverflowError, RecursionError) as error:
            return f"{value!r} is no regular expression: {error}"
    elif kind == "number" and not re.fullmatch(rf"[0-9]{{1,{_SMALL}}}", value):
        return f"{value!r} is no whole number"
    elif kind == "time" and not _TIME.fullmatch(value):
        return f"{value!r} is no time; write 2026-03-01 or 2026-03-01T12:30"
    elif kind == "version" and not re.search(r"[0-9A-Za-z]", value):
        return f"{value!r} is no version"
    elif kind == "nodes":
        try:
            expand(value)
        except ValueError as error:
            return str(error)
    return ""


def _test(condition: Condition) -> Callable[[Record], bool]:
    name, op, value = condition.field, condition.op, condition.value
    if op == "!=":
        equal = _test(Condition(name, "=", value))
        return lambda record: not equal(record)
    if op == "=" and value == UNKNOWN:
        return lambda record: shown(record, name) is None
    if op == "~":
        pattern = re.compile(value, re.IGNORECASE)
        return lambda record: pattern.search(str(shown(record, name) or "")) is not None
    order = _order(FIELDS[name][0], value)

    def test(record: Record) -> bool:
        known = shown(record, name)
        return known is not None and _holds(order(known), op)

    return test


def _order(kind: Kind, value: str) -> Callable[[str | int], int]:
    """Compares a known value with ``value``: below zero, zero or above."""
    if kind == "number":
        number = int(value)
        return lambda known: _sign(int(known), number)
    if kind == "version":
        return lambda known: compare(str(known), value)
    if kind == "time":
        wanted = value.replace(" ", "T")
        # As exact as it was written: 2026-03 is the whole month.
        return lambda known: _sign(str(known)[: len(wanted)], wanted)
    if kind == "nodes":
        nodes = frozenset(expand(value))
        return lambda known: 0 if known in nodes else 1
    return lambda known: 0 if str(known).casefold() == value.casefold() else 1


def _sign(a: int | str, b: int | str) -> int:
    return 0 if a == b else -1 if a < b else 1  # type: ignore[operator]


def _holds(order: int, op: str) -> bool:
    return {
        "=": order == 0,
        "<": order < 0,
        "<=": order <= 0,
        ">": order > 0,
        ">=": order >= 0,
    }[op]
