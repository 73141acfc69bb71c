"""Versions in order: ``470.82 < 550.54.14``, ``24.1.rc1 < 24.1``, ``v5.10 = 5.10.0``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest

_EARLY = re.compile(r"(?<![a-z])[._~-]?(dev|alpha|beta|pre|rc)[._-]?(?=[0-9]|$|[._-])")
_PART = re.compile(r"[0-9a-z]+")
_BOUND = re.compile(r"(>=|<=|==|=|>|<)?\s*(v?[0-9][0-9A-Za-z._~+-]*)")
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


@dataclass(frozen=True, slots=True)
class Range:
    """Versions that are asked for: ``>=12.4,<13`` as pairs of sign and version."""

    bounds: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> Range:
        """``">=12.4"``, ``">=12.4,<13"``, ``"==8.0"``, ``"12.4"`` (the same as ``==``).

        Raises:
            ValueError: not of that form.
        """
        bounds = []
        for part in text.split(","):
            found = _BOUND.fullmatch(part.strip())
            if not found:
                raise ValueError(f"{text!r} is no range of versions such as '>=12.4' or '>=8.0,<9'")
            sign = "==" if found[1] in (None, "=") else found[1]
            bounds.append((sign, found[2]))
        return cls(tuple(bounds))

    def meets(self, oldest: str | None, newest: str) -> bool:
        """Whether some version from ``oldest`` (None: however old) to ``newest`` is in the range.
        Versions are first parts: a newest of ``12.4`` holds every 12.4.x."""
        for sign, version in self.bounds:
            too_new = compare(version, newest) > 0 and not starts_with(version, newest)
            below = -1 if oldest is None else compare(oldest, version)
            too_old = below > 0 and not starts_with(oldest or "", version)
            if sign == ">" and (too_new or version == newest):
                return False
            if sign in {">=", "=="} and too_new:
                return False
            if sign in {"<=", "=="} and too_old:
                return False
            if sign == "<" and below >= 0:
                return False
        return True
