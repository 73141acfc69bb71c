"""The performance table: how fast a device model is at a workload, relative to another.

A CSV file with the columns ``workload,profile,speed,source``; lines with ``#`` are comments. Within
one workload only the ratio of two speeds means something (in the packaged table a V100 is 1). Peak
figures rank devices wrongly for many workloads; what was measured does not.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcmgr.errors import ConfigError, Problem
from hpcmgr.profile.library import ProfileLibrary

PACKAGED = Path(__file__).parent / "performance.csv"
COLUMNS = ("workload", "profile", "speed", "source")

_WORD = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_MAX_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Speed:
    """One row. ``speed`` is relative to the workload's other devices; higher is faster."""

    workload: str
    profile: str
    speed: float
    source: str
    file: Path
    line: int


@dataclass(frozen=True)
class PerformanceTable:
    """Speeds by workload and profile."""

    speeds: Mapping[tuple[str, str], Speed]

    def speed(self, workload: str, profile: str) -> float | None:
        """Relative speed, None where nobody has measured it."""
        found = self.speeds.get((workload, profile))
        return found.speed if found else None

    @property
    def workloads(self) -> tuple[str, ...]:
        """Every workload, sorted."""
        return tuple(sorted({workload for workload, _ in self.speeds}))

    def profiles(self, workload: str) -> tuple[str, ...]:
        """Profiles with a speed for ``workload``, fastest first, then by name."""
        here = [row for row in self.speeds.values() if row.workload == workload]
        return tuple(row.profile for row in sorted(here, key=lambda r: (-r.speed, r.profile)))

    def unknown_profiles(self, library: ProfileLibrary) -> tuple[Problem, ...]:
        """Rows whose profile the library does not have: most likely misspelt."""
        return tuple(
            Problem(row.file, row.line, f"there is no device profile {row.profile!r}")
            for row in self.speeds.values()
            if library.get(row.profile) is None
        )


def load(files: Iterable[Path] = ()) -> PerformanceTable:
    """The packaged table, then ``files``: of two rows for one workload and profile the later holds.

    Raises:
        ConfigError: with every problem of every file.
    """
    speeds: dict[tuple[str, str], Speed] = {}
    problems: list[Problem] = []
    for path in (PACKAGED, *files):
        try:
            speeds.update({(row.workload, row.profile): row for row in _read(path)})
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems, f"a row is {','.join(COLUMNS)}: resnet-50-b64,a100-80g,2.4,own")
    return PerformanceTable(speeds)


def _read(path: Path) -> list[Speed]:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES + 1).decode("utf-8")
    except OSError as error:
        raise ConfigError([Problem(path, None, f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([Problem(path, None, "is no UTF-8 text")]) from error
    if len(text) > _MAX_BYTES:
        raise ConfigError([Problem(path, None, f"is larger than {_MAX_BYTES >> 20} MiB")])
    rows = list(_cells(text))
    if not rows or tuple(rows[0][1]) != COLUMNS:
        line = rows[0][0] if rows else 1
        raise ConfigError([Problem(path, line, f"the first row must be {','.join(COLUMNS)}")])
    return _checked(path, rows[1:])


def _cells(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells; comments and empty lines left out."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, [cell.strip() for cell in next(csv.reader([line.replace("\0", "?")]), [])]


def _checked(path: Path, rows: list[tuple[int, list[str]]]) -> list[Speed]:
    problems: list[Problem] = []
    good: list[Speed] = []
    first: dict[tuple[str, str], int] = {}
    for line, cells in rows:
        wrong = _wrong(cells)
        if not wrong and (cells[0], cells[1]) in first:
            wrong = f"{cells[0]} on {cells[1]} stands already in line {first[cells[0], cells[1]]}"
        if wrong:
            problems.append(Problem(path, line, wrong))
            continue
        first[cells[0], cells[1]] = line
        good.append(Speed(cells[0], cells[1], float(cells[2]), cells[3], path, line))
    if problems:
        raise ConfigError(problems)
    return good


def _wrong(cells: list[str]) -> str:
    """What is wrong with a row; empty if nothing."""
    if len(cells) != len(COLUMNS):
        return f"has {len(cells)} cells, not {len(COLUMNS)}"
    for name, value in zip(COLUMNS[:2], cells[:2], strict=True):
        if not _WORD.fullmatch(value):
            return f"{name} {value!r} is no word of small letters, digits, _ . and -"
    try:
        speed = float(cells[2])
    except ValueError:
        return f"speed {cells[2]!r} is no number"
    if not math.isfinite(speed) or speed <= 0:
        return f"speed {cells[2]} is not above zero"
    return "" if cells[3] else "source is empty: say where the figure comes from"
