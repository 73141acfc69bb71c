"""Versions in order: ``470.82 < 550.54.14``, ``24.1.rc1 < 24.1``, ``v5.10 = 5.10.0``."""

from __future__ import annotations

import re
from itertools import zip_longest

_EARLY = re.compile(r"(?<![a-z])[._~-]?(dev|alpha|beta|pre|rc)[._-]?(?=[0-9]|$|[._-])")
_PART = re.compile(r"[0-9a-z]+")
_SPLIT = re.compile(r"([0-9]*)(.*)")

Key = tuple[int, int, str]
_END: Key = (1, 0, "")


def compare(a: str, b: str) -> int:
    """-1, 0 or 1. Parts are compared as numbers; a missing part is 0; alpha, beta and rc come
    before the release itself."""
    for mine, theirs in zip_longest(parts(a), parts(b), fillvalue=_END):
        if mine != theirs:
            return -1 if mine < theirs else 1
    return 0


def parts(text: str) -> tuple[Key, ...]:
    """What ``compare`` compares, part by part."""
    lowered = text.strip().lower()
    if re.match(r"v[0-9]", lowered):
        lowered = lowered[1:]
    lowered = _EARLY.sub(r".\1.", lowered)
    return tuple(_key(part) for part in _PART.findall(lowered))


def starts_with(version: str, start: str) -> bool:
    """Whether ``start`` names the first parts of ``version``: ``25.0`` those of ``25.0.rc1.1``."""
    wanted = parts(start)
    return bool(wanted) and parts(version)[: len(wanted)] == wanted


def _key(part: str) -> Key:
    if part in {"dev", "alpha", "beta", "pre", "rc"}:
        return (0, 0, "" if part == "dev" else part)
    found = _SPLIT.fullmatch(part)
    number, rest = (found[1], found[2]) if found else ("", part)
    # Numbers of any length: some are dates, some come from a broken tool.
    return (1, int(number[:30] or "0"), rest) if number else (2, 0, rest)
