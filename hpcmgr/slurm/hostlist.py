"""Hostlists: ``gpu[01-04,07]`` ↔ names.

ClusterShell does the work; what it would misread or expand without end is refused first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

LIMIT = 65_536
"""Names that one expression may stand for (Slurm's own MAX_NODE_COUNT is of this order)."""

_ALLOWED = re.compile(r"^[A-Za-z0-9_.,\[\]-]*$")
_RANGE = re.compile(r"\[([^\[\]]*)\]")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,15})")
_ONE_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def expand(text: str, limit: int = LIMIT) -> list[str]:
    """Names in the order of the set.

    Raises:
        ValueError: not a hostlist, or more than ``limit`` names.
    """
    if _ONE_NAME.fullmatch(text):
        return [text]
    if not _ALLOWED.match(text):
        raise ValueError(f"{text!r} is no hostlist: it may hold letters, digits, . _ - , and [ ]")
    if _count_at_most(text) > limit:
        raise ValueError(f"{text[:60]!r} stands for more than {limit} nodes")
    try:
        return [str(name) for name in NodeSet(text, resolver=RESOLVER_NOGROUP)]
    except NodeSetException as error:
        raise ValueError(f"{text!r} is no hostlist: {error}") from error


@lru_cache(maxsize=32)
def members(text: str, limit: int = LIMIT) -> frozenset[str]:
    """Names of a list, in no order; of the last few lists they are kept.

    Raises:
        ValueError: not a hostlist, or more than ``limit`` names.
    """
    return frozenset(expand(text, limit))


def fold(names: Iterable[str]) -> str:
    """The shortest hostlist of ``names``; equal sets give equal text."""
    nodes = NodeSet(resolver=RESOLVER_NOGROUP)
    nodes.updaten(_ranges(sorted(set(names))))
    return str(nodes)


def _ranges(names: Iterable[str]) -> Iterator[str]:
    """``n01``, ``n02``, … as ``n[01-…]``: NodeSet takes a range in fifty times as fast as its names
    one by one."""
    numbers: dict[tuple[str, int], list[int]] = {}
    for name in names:
        found = _NUMBERED.fullmatch(name)
        if found:
            numbers.setdefault((found[1], len(found[2])), []).append(int(found[2]))
        else:
            yield name
    for (prefix, width), found_numbers in numbers.items():
        runs: list[list[int]] = []
        for number in found_numbers:
            if runs and number == runs[-1][1] + 1:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        inner = ",".join(f"{low:0{width}}-{high:0{width}}" for low, high in runs)
        yield f"{prefix}[{inner}]"


def _count_at_most(text: str) -> int:
    """An upper bound of the number of names, from the ranges alone."""
    total = 0
    for part in re.split(r",(?![^\[]*\])", text):
        size = 1
        for inner in _RANGE.findall(part):
            here = 0
            for piece in inner.split(","):
                low, dash, high = piece.partition("-")
                if dash and low.isdigit() and high.isdigit():
                    here += max(0, int(high) - int(low)) + 1
                else:
                    here += 1
            size *= max(here, 1)
        total += size
    return total
