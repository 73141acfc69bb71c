"""Texts of npu-smi: its table, its mapping, its ``key : value`` answers.

All are read by their headers: columns come and go between releases (``Chip``, ``Chip Device``,
``Chip Phy-ID``, ``NPU ID | Name``), rows are not sorted, and words may stand before the table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpcmgr.discovery.source import known, whole
from hpcmgr.inventory.pci_address import canonical

_PAIR = re.compile(r"(?<![0-9])([0-9]{1,12})\s*/\s*([0-9]{1,12})(?![0-9])")
_VERSION = re.compile(r"\|\s*npu-smi\s.*?Version:\s*(\S+)")


@dataclass(frozen=True, slots=True)
class TableRow:
    """One chip of ``npu-smi info``. ``phy`` only where the table has such a column."""

    npu: int
    chip: int
    name: str | None
    health: str | None
    pci: str | None
    phy: int | None
    memory_mib: int | None


@dataclass(frozen=True, slots=True)
class Table:
    """``npu-smi info``; ``cut`` names the NPUs whose second line is missing."""

    rows: tuple[TableRow, ...]
    version: str | None
    has_header: bool
    cut: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MappingRow:
    """One chip of ``npu-smi info -m``."""

    npu: int
    chip: int
    logic: int | None
    phy: int | None
    name: str | None


@dataclass(slots=True)
class _Header:
    """Where the columns are; the second line is None until it has been seen."""

    width: int
    health: int
    npu_alone: bool
    bus: int | None = None
    has_chip: bool = False
    has_phy: bool = False


def parse_table(text: str) -> Table:
    """The chips of ``npu-smi info``. The table of processes below is not read."""
    header: _Header | None = None
    seen, rows, cut = False, [], []
    first: list[str] | None = None
    version = _VERSION.search(text)
    for line in text.splitlines():
        cells = _cells(line)
        if cells is None:
            continue
        started = _first_header(cells)
        if started or any("Process id" in cell for cell in cells):
            header, first, seen = started, None, seen or started is not None
        elif header is None:
            continue
        elif header.bus is None:
            header = _second_header(cells, header)
        elif first is None:
            first = cells if _is_first(cells, header) else None
        else:
            row = _row(first, cells, header)
            if row is not None:
                rows.append(row)
                first = None
            else:
                cut.append(_ids(first[0])[0] or 0)
                first = cells if _is_first(cells, header) else None
    if first is not None:
        cut.append(_ids(first[0])[0] or 0)
    return Table(tuple(rows), known(version[1]) if version else None, seen, tuple(cut))


def _cells(line: str) -> list[str] | None:
    stripped = line.strip()
    if not (stripped.startswith("|") and stripped.endswith("|") and len(stripped) > 2):
        return None
    return [cell.strip() for cell in stripped[1:-1].split("|")]


def _first_header(cells: list[str]) -> _Header | None:
    if not cells[0].startswith("NPU") or "Health" not in cells:
        return None
    return _Header(len(cells), cells.index("Health"), npu_alone="Name" not in cells[0])


def _second_header(cells: list[str], header: _Header) -> _Header | None:
    if "Bus-Id" not in cells or len(cells) != header.width:
        return None
    header.bus = cells.index("Bus-Id")
    words = cells[0].split()
    header.has_chip = words[:1] == ["Chip"]
    header.has_phy = words[1:2] in (["Phy-ID"], ["Device"])
    return header


def _is_first(cells: list[str], header: _Header) -> bool:
    npu, _ = _ids(cells[0])
    return (
        len(cells) == header.width and npu is not None and canonical(cells[header.health]) is None
    )


def _row(first: list[str], second: list[str], header: _Header) -> TableRow | None:
    """Both lines of a chip; None if the second is not the second line of a chip."""
    if header.bus is None or len(second) != header.width:
        return None
    pci = canonical(second[header.bus])
    if pci is None and second[header.bus] != "NA":
        return None
    npu, name = _ids(first[0])
    chip, device = _ids(second[0])
    if npu is None or (header.has_chip and chip is None):
        return None
    pairs = [(int(used), int(total)) for used, total in _PAIR.findall(second[-1])]
    totals = [total for _, total in pairs if total > 0]
    return TableRow(
        npu=npu,
        chip=chip or 0,
        name=known(first[1]) if header.npu_alone else known(name),
        health=known(first[header.health]),
        pci=pci,
        phy=whole(device) if header.has_phy else None,
        # DDR comes before HBM; where both are there, HBM is what jobs use.
        memory_mib=totals[-1] if totals else None,
    )


def _ids(cell: str) -> tuple[int | None, str | None]:
    """``"0     910B3"`` → 0 and the rest."""
    words = cell.split(None, 1)
    return (whole(words[0]) if words else None, words[1].strip() if len(words) > 1 else None)


def parse_mapping(text: str) -> tuple[MappingRow, ...]:
    """The chips of ``npu-smi info -m``. The MCU of a card has a row there but is no NPU."""
    columns: dict[str, int] = {}
    rows = []
    for line in text.splitlines():
        cells = [cell for cell in re.split(r"\t+|\s{2,}", line.strip()) if cell]
        if "NPU ID" in cells and "Chip ID" in cells:
            named = {label: place for place, label in enumerate(cells)}
            # A header that names a column twice says nothing about either.
            columns = named if len(named) == len(cells) else {}
            continue
        if not columns or len(cells) != len(columns):
            continue
        row = {label: cells[place] for label, place in columns.items()}
        npu, chip = whole(row["NPU ID"]), whole(row["Chip ID"])
        if npu is None or chip is None or row.get("Chip Name", "").lower() == "mcu":
            continue
        rows.append(
            MappingRow(
                npu,
                chip,
                whole(row.get("Chip Logic ID")),
                whole(row.get("Chip Phy-ID")),
                known(row.get("Chip Name")),
            )
        )
    return tuple(rows)


def parse_list(pairs: list[tuple[str, str]]) -> dict[int, dict[str, str]]:
    """``npu-smi info -l``: blocks of pairs, each starting with its NPU ID."""
    blocks: dict[int, dict[str, str]] = {}
    current: dict[str, str] | None = None
    for key, value in pairs:
        if key == "NPU ID":
            npu = whole(value)
            current = None if npu is None else blocks.setdefault(npu, {})
        elif current is not None:
            current[key] = value
    return blocks
