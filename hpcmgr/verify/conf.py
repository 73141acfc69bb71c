"""A reader of Slurm's ``Key=Value`` files, good enough for linting: it never raises.

As Slurm's own parser does: ``#`` starts a comment even inside quotes unless a backslash stands
before it, a backslash at the end joins lines, keys are case-insensitive, blanks may stand around
``=``, ``Include`` is relative to the configuration directory. What Slurm would refuse becomes a
problem with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hpcmgr.verify.finding import Finding, Place, error, warning

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 16

_PAIR = re.compile(r'\s*([A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:"([^"]*)"|(\S+))(?=\s|$)')
_INCLUDE = re.compile(r"\s*include\s+(?:\"([^\"]*)\"|(\S+))\s*$", re.IGNORECASE)
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)#.*", re.DOTALL)
_TEMPLATE = re.compile(r"^[^#\n]*?(<%|\{\{|\{%)", re.MULTILINE)
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\s*$")


@dataclass(frozen=True, slots=True)
class Pair:
    """One ``Key=Value`` as written; ``start`` and ``end`` are its place in the entry's text."""

    key: str
    value: str
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One logical line: its pairs, its text without comment, where it begins."""

    pairs: tuple[Pair, ...]
    text: str
    place: Place

    @property
    def head(self) -> str:
        """The first key, in lower case."""
        return self.pairs[0].key.lower() if self.pairs else ""

    def get(self, *keys: str) -> str | None:
        """The value of the last pair with one of these keys (lower case), as Slurm takes it."""
        for pair in reversed(self.pairs):
            if pair.key.lower() in keys:
                return pair.value
        return None


@dataclass(frozen=True, slots=True)
class Home:
    """The configuration directory; ``stands_for`` is the one that its files name by full path."""

    directory: Path
    stands_for: Path | None = None

    def find(self, name: str) -> Path:
        """Where an included file is."""
        path = self.directory / name
        if self.stands_for and path.is_relative_to(self.stands_for):
            return self.directory / path.relative_to(self.stands_for)
        return path


@dataclass(slots=True)
class Conf:
    """A file with everything it includes, in order, and what is wrong with its form."""

    path: Path
    exists: bool = True
    entries: list[Entry] = field(default_factory=list)
    problems: list[Finding] = field(default_factory=list)

    def settings(self, *heads: str) -> Iterator[Entry]:
        """Entries that begin with one of these keys (lower case)."""
        return (entry for entry in self.entries if entry.head in heads)


def read_conf(path: Path, stands_for: Path | None = None) -> Conf:
    """Read ``path`` and what it includes; a file that is not there has ``exists`` False."""
    conf = Conf(path)
    text = _read(path, conf, Place(path))
    if text is None:
        conf.exists = path.exists() or path.is_symlink()
        return conf
    _parse(text, path, Home(path.parent, stands_for), conf, (path,))
    return conf


def _parse(text: str, path: Path, home: Home, conf: Conf, stack: tuple[Path, ...]) -> None:
    template = _TEMPLATE.search(text)
    if template:
        conf.problems.append(
            error(
                "template",
                Place(path, text.count("\n", 0, template.start(1)) + 1),
                f"{path.name} is a template ({template[1]}), not a file for Slurm",
                "Slurm's daemons refuse it.",
                "verify what your configuration tool makes of it",
            )
        )
        return
    for number, line in logical_lines(text):
        place = Place(path, number)
        include = _INCLUDE.match(line)
        if include:
            _include(include[1] or include[2] or "", place, home, conf, stack)
        else:
            _entry(line, place, conf)


def _entry(line: str, place: Place, conf: Conf) -> None:
    pairs: list[Pair] = []
    position = 0
    while found := _PAIR.match(line, position):
        value = found[2] if found[2] is not None else found[3]
        pairs.append(Pair(found[1], value, found.start(1), found.end()))
        position = found.end()
    rest = line[position:].strip()
    if pairs:
        conf.entries.append(Entry(tuple(pairs), line, place))
    if rest:
        conf.problems.append(_unreadable(rest, line, place))


def _unreadable(rest: str, line: str, place: Place) -> Finding:
    colon = re.match(r"([A-Za-z]+)\s*:", rest)
    empty = re.match(r"([A-Za-z0-9_.]+)\s*=(\s|$)", rest)
    if empty:
        fix = f"give {empty[1]} a value, or remove it"
    elif colon:
        fix = f"write {colon[1]}= instead of {colon[1]}:"
    elif line.count('"') % 2:
        fix = "close the quotation mark"
    else:
        fix = "write Key=Value pairs with a blank between them, or put # before a comment"
    return error(
        "syntax",
        place,
        f"this is no Key=Value: {rest[:80]!r}",
        "Slurm's daemons refuse the whole file.",
        fix,
    )


def _include(name: str, place: Place, home: Home, conf: Conf, stack: tuple[Path, ...]) -> None:
    # NUL would raise ValueError in every path function.
    path = home.find(name.replace("\0", ""))
    if path in stack or len(stack) >= MAX_DEPTH:
        conf.problems.append(
            error(
                "include-loop",
                place,
                f"{name} includes itself, or is nested more than {MAX_DEPTH} deep",
                "Slurm would never finish reading.",
                "remove the Include",
            )
        )
        return
    text = _read(path, conf, place)
    if text is not None:
        _parse(text, path, home, conf, (*stack, path))
        return
    conf.problems.append(
        error(
            "include-missing",
            place,
            f"the included file {name} cannot be read",
            "Slurm waits for it for a minute, then refuses the whole configuration.",
            f"put it at {path}, or remove the Include",
        )
    )


def _read(path: Path, conf: Conf, place: Place) -> str | None:
    """The text, None if there is none; what is odd about it becomes a problem."""
    try:
        if path.is_dir():
            conf.problems.append(
                error(
                    "not-a-file",
                    place,
                    f"{path.name} is a directory",
                    "Slurm needs a file of this name.",
                    "remove the directory; some installers make it by mistake",
                )
            )
            return None
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError):
        return None
    if len(data) > MAX_BYTES:
        data = data[:MAX_BYTES]
        conf.problems.append(
            warning(
                "too-long",
                place,
                f"{path.name} is larger than {MAX_BYTES} bytes; the rest was not looked at",
                "No configuration of Slurm is that long.",
                "look at the file",
            )
        )
    return data.decode("utf-8", errors="replace")


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of the first line, text without comments), empty ones left out."""
    waiting: list[str] = []
    first = 0
    # Only \n ends a line for Slurm; splitlines() would also split at form feeds and the like.
    for number, raw in enumerate(text.split("\n"), start=1):
        line = _COMMENT.sub(r"\1", raw.rstrip("\r"))
        continued = _CONTINUED.search(line)
        if not waiting:
            first = number
        waiting.append(line[: continued.start()] + continued[1] if continued else line)
        if continued:
            continue
        whole = "".join(waiting)
        waiting = []
        if whole.strip():
            yield first, whole
    if waiting and "".join(waiting).strip():
        yield first, "".join(waiting)
