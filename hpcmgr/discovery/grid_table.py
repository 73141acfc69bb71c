"""Tables with one line a record, as neuron-ls, furiosa-smi, rbln-smi and old Kunlun tools print
them. Labels may stand in two lines, one above the other."""

from __future__ import annotations

from collections.abc import Iterator

from hpcmgr.discovery.smi_table import is_rule


def parse(text: str, required: frozenset[str]) -> list[dict[str, str]] | None:
    """The rows of every table that has the ``required`` labels; None if there is no such table.

    Labels are in lower case. A line with another number of cells is no row.
    """
    header: list[str] | None = None
    rows: list[dict[str, str]] | None = None
    for block in _blocks(text):
        labels = _header(block)
        if labels is not None and required <= set(labels):
            header, rows = labels, rows if rows is not None else []
            continue
        for cells in block:
            if header is None or rows is None or len(cells) != len(header):
                header = None
            elif any(cells):
                rows.append(_row(header, cells))
    return rows


def _blocks(text: str) -> Iterator[list[list[str]]]:
    """Runs of lines with cells, between rules and whatever is no line of a table."""
    block: list[list[str]] = []
    for line in text.splitlines():
        stripped = line.strip()
        if len(stripped) > 2 and stripped[0] == stripped[-1] == "|" and not is_rule(stripped):
            block.append([cell.strip() for cell in stripped[1:-1].split("|")])
        elif block:
            yield block
            block = []
    if block:
        yield block


def _header(block: list[list[str]]) -> list[str] | None:
    if len({len(cells) for cells in block}) != 1:
        return None
    return [" ".join(words).strip().lower() for words in zip(*block, strict=True)]


def _row(header: list[str], cells: list[str]) -> dict[str, str]:
    return {
        label: cell for label, cell in zip(header, cells, strict=True) if header.count(label) == 1
    }
