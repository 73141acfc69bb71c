"""Values inside Slurm's keys: device files, core lists, machines."""

from __future__ import annotations

import re
from dataclasses import dataclass

FILES_LIMIT = 1024
"""Slurm's MAX_GRES_BITMAP: so many devices of one record at most."""

_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_NUMBERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


@dataclass(frozen=True, slots=True)
class Machine:
    """Sockets, cores and threads, as Slurm counts them."""

    sockets: int
    cores_per_socket: int
    threads_per_core: int

    @property
    def cores(self) -> int:
        """Cores of the whole node."""
        return self.sockets * self.cores_per_socket

    def socket_cores(self, socket: int) -> range:
        """Slurm's core numbers of one socket."""
        first = socket * self.cores_per_socket
        return range(first, first + self.cores_per_socket)

    @property
    def synthetic(self) -> str:
        """The machine in hwloc's words."""
        return f"pack:{self.sockets} core:{self.cores_per_socket} pu:{self.threads_per_core}"


def expand_files(text: str) -> list[str]:
    """``/dev/nvidia[0-1],/dev/x`` → paths in order.

    Raises:
        ValueError: not a list of files, or too long; says why.
    """
    names: list[str] = []
    for part in _split(text):
        names += _expand_part(part)
        if len(names) > FILES_LIMIT:
            raise ValueError(f"{text[:60]!r} names more than {FILES_LIMIT} files")
    return names


def _split(text: str) -> list[str]:
    parts = re.split(r",(?![^\[]*\])", text)
    if any(not part for part in parts):
        raise ValueError(f"{text[:60]!r} has an empty item")
    return parts


def _expand_part(part: str) -> list[str]:
    found = _BRACKET.search(part)
    if not found:
        if "[" in part or "]" in part:
            raise ValueError(f"{part[:60]!r} has brackets that do not match")
        return [part]
    before, after = part[: found.start()], part[found.end() :]
    names = [f"{before}{number}" for number in _bracket_numbers(found[1])]
    tails = _expand_part(after) if after else [""]
    if len(names) * len(tails) > FILES_LIMIT:
        raise ValueError(f"{part[:60]!r} names more than {FILES_LIMIT} files")
    return [name + tail for name in names for tail in tails]


def _bracket_numbers(text: str) -> list[str]:
    numbers: list[str] = []
    for piece in text.split(","):
        found = _NUMBERS.fullmatch(piece)
        if not found:
            raise ValueError(f"[{text[:40]}] is no range of numbers")
        low, high = int(found[1]), int(found[2] or found[1])
        if high < low:
            raise ValueError(f"[{text[:40]}] counts down")
        if high - low >= FILES_LIMIT or len(numbers) > FILES_LIMIT:
            raise ValueError(f"[{text[:40]}] names more than {FILES_LIMIT} files")
        width = len(found[1]) if found[1].startswith("0") else 0
        numbers += [f"{n:0{width}}" for n in range(low, high + 1)]
    return numbers


def parse_cores(text: str) -> set[int]:
    """``0-7``, ``[0-3]``, ``0-7,16-23`` → core numbers.

    Raises:
        ValueError: not a list of numbers.
    """
    cores: set[int] = set()
    for piece in text.strip().removeprefix("[").removesuffix("]").split(","):
        found = _NUMBERS.fullmatch(piece.strip())
        if not found:
            raise ValueError(f"{text[:60]!r} is no list of core numbers")
        low, high = int(found[1]), int(found[2] or found[1])
        if high < low or high > 1 << 20:
            raise ValueError(f"{text[:60]!r} is no list of core numbers")
        cores |= set(range(low, high + 1))
    return cores


def format_cores(cores: set[int] | range) -> str:
    """Core numbers as Slurm writes them: ``0-7,16``."""
    pieces: list[str] = []
    numbers = sorted(cores)
    start = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] != numbers[i - 1] + 1:
            low, high = numbers[start], numbers[i - 1]
            pieces.append(str(low) if low == high else f"{low}-{high}")
            start = i
    return ",".join(pieces)


def positive(text: str | None, default: int) -> int:
    """A whole number from 1 on; ``default`` for anything else."""
    return int(text) if text and text.isdecimal() and 0 < int(text[:9]) == int(text) else default
