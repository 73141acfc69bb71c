"""Tables in the manner of nvidia-smi, which a dozen vendors print: a card is some lines of cells.

    | GPU     NAME         Persistence-M | Bus-id              | GPU-Util      sGPU-M |
    | Temp    Pwr:Usage/Cap         Perf | Memory-Usage        | GPU-State            |
    |====================================+=====================+======================|
    | 0       MetaX N260             Off | 0000:01:00.0        | 0%            Native |
    | 37C     29W / 225W              P0 | 666/65536 MiB       | Available            |

What stands where is read from the header, since columns and whole lines come and go between
releases. Which vendor it is the labels do not tell: each source looks for its own name first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hpcmgr.discovery.source import whole

Labels = list[list[list[str]]]
"""By line and cell: the labels of one cell."""


@dataclass(frozen=True, slots=True)
class SmiTable:
    """``records``: of each card, what stands under each label (in lower case).

    ``banner`` is the text before the header, ``cut`` names the cards whose lines do not fit the
    header.
    """

    records: tuple[dict[str, str], ...]
    banner: str
    has_header: bool
    cut: tuple[int, ...]


def parse(text: str, number: str, name: str = "name") -> SmiTable:
    """The cards of a table that has the labels ``number`` and ``name``.

    The table of processes below it is not read.
    """
    header: Labels | None = None
    banner: str | None = None
    before: list[str] = []
    records: list[dict[str, str]] = []
    cut: list[int] = []
    for block in _blocks(text):
        labels = [[_labels(cell) for cell in cells] for cells in block]
        flat = [label for line in labels for cell in line for label in cell]
        if number in flat and name in flat:
            header, banner = labels, banner if banner is not None else "\n".join(before)
        elif any(label == "pid" or label.startswith("process") for label in flat):
            header = None
        elif header is None:
            before += [" ".join(cells) for cells in block]
        else:
            for lines in _chunks(block, len(header)):
                _add(lines, header, number, records, cut)
    return SmiTable(tuple(records), banner or "", banner is not None, tuple(cut))


def _blocks(text: str) -> Iterator[list[list[str]]]:
    """Runs of lines between rules and empty lines, as cells."""
    block: list[list[str]] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and not is_rule(stripped):
            block.append(_cells(stripped))
        elif block:
            yield block
            block = []
    if block:
        yield block


def is_rule(stripped: str) -> bool:
    """Whether a line is drawn; a date may stand in it (``+2024-12-06, 11:33:56 CST---+``)."""
    drawn = not stripped.strip("+-=|* ") and ("--" in stripped or "==" in stripped)
    return drawn or (stripped[0] == "+" and stripped[-1] == "+" and "--" in stripped)


def _cells(stripped: str) -> list[str]:
    inner = stripped[1:] if stripped[0] in "|*" else stripped
    inner = inner[:-1] if inner.endswith(("|", "*")) else inner
    return [cell.strip() for cell in inner.split("|")]


def _labels(cell: str) -> list[str]:
    return [label.lower() for label in re.split(r"\s{2,}", cell) if label]


def _chunks(block: list[list[str]], size: int) -> Iterator[list[list[str]]]:
    for start in range(0, len(block), size):
        yield block[start : start + size]


def _add(
    lines: list[list[str]],
    header: Labels,
    number: str,
    records: list[dict[str, str]],
    cut: list[int],
) -> None:
    """One card, if its lines have the cells that the header has."""
    fits = [len(cells) for cells in lines] == [len(cells) for cells in header]
    if fits:
        record = _record(lines, header)
        if whole(record.get(number)) is not None:
            records.append(record)
            return
    first = whole((lines[0][0].split() or [""])[0])
    if first is not None and len(lines[0]) == len(header[0]):
        cut.append(first)


def _record(lines: list[list[str]], header: Labels) -> dict[str, str]:
    twice = Counter(label for line in header for cell in line for label in cell)
    found: dict[str, str] = {}
    for labels, cells in zip(header, lines, strict=True):
        for names, cell in zip(labels, cells, strict=True):
            found.update(fields(names, cell))
    # A header that names two columns alike says nothing about either.
    return {label: value for label, value in found.items() if twice[label] == 1}


def fields(labels: Sequence[str], cell: str) -> dict[str, str]:
    """What stands under each label of one cell; empty if that is not sure.

    Values are divided by two spaces, or by one; a name may have more words than one.
    """
    if len(labels) == 1:
        return {labels[0]: cell}
    words = cell.split()
    for values in (re.split(r"\s{2,}", cell), words):
        if len(values) == len(labels):
            return dict(zip(labels, values, strict=True))
    if "name" not in labels or len(words) < len(labels):
        return {}
    left = labels.index("name")
    right = len(labels) - left - 1
    values = [
        *words[:left],
        " ".join(words[left : len(words) - right]),
        *words[len(words) - right :],
    ]
    return dict(zip(labels, values, strict=True))
