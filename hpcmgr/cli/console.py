"""Tables: drawn on a terminal, plain columns when piped or where NO_COLOR is set."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence

import click


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print rows on stdout."""
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        _drawn(headers, rows, title)
        return
    if title:
        click.echo(title)
    lines = [list(headers), *[list(row) for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headers))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _drawn(headers: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    drawn = Table(title=title or None, title_justify="left")
    for header in headers:
        drawn.add_column(header, overflow="fold")
    for row in rows:
        drawn.add_row(*(escape(cell) for cell in row))
    Console().print(drawn)


def indented(text: str, further: str = "", width: int = 98) -> str:
    """``text`` wrapped below a heading, lines after the first ``further`` in. Names of nodes and
    files stay whole, so that they can be copied."""
    return textwrap.fill(
        text,
        width,
        initial_indent="    ",
        subsequent_indent="    " + further,
        break_long_words=False,
        break_on_hyphens=False,
    )
