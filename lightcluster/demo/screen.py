"""What the person sees: Rich on a terminal; plain lines when piped or where NO_COLOR is set."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

_PICTURE_WIDTH = 104
_INDENT = 2


class Screen:
    """Prints; on request keeps a picture of some parts (``with pictured():``)."""

    def __init__(self, *, picture: bool = False) -> None:
        self.drawn = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self._out = Console(
            force_terminal=self.drawn, no_color=not self.drawn, highlight=False, emoji=False
        )
        self._camera = (
            Console(
                file=io.StringIO(), record=True, width=_PICTURE_WIDTH, force_terminal=True,
                color_system="truecolor", highlight=False, emoji=False,
            )
            if picture
            else None
        )  # fmt: skip
        self._pictured = False

    @contextmanager
    def pictured(self, wanted: bool = True) -> Iterator[None]:
        """What is printed meanwhile is in the picture."""
        before, self._pictured = self._pictured, wanted
        try:
            yield
        finally:
            self._pictured = before

    def heading(self, text: str) -> None:
        """The title of a part."""
        self._text("")
        if self.drawn:
            self._out.print(Rule(Text(text, "bold"), align="left", style="blue"))
        else:
            self._plain(f"== {text}")
        self._shoot(Rule(Text(text, "bold"), align="left", style="blue"))

    def text(self, text: str, style: str = "") -> None:
        """A line, or several."""
        self._text(text, style)

    def prompt(self, line: str) -> None:
        """A command line as alice types it."""
        self._text(f"alice@ctl:~$ {line}", "bold green")

    def said(self, text: str) -> None:
        """What a program answered, as it stands."""
        for line in text.rstrip().splitlines():
            self._text(line, "yellow" if "error" not in line else "red")

    def fact(self, label: str, text: str) -> None:
        """A label and what is to be said about it."""
        if self.drawn:
            self._out.print(_fact(label, text))
        else:
            self._plain(f"{'':{_INDENT}}{label:<8} {text}")
        self._shoot(_fact(label, text))

    def code(self, text: str) -> None:
        """Lines of a configuration file."""
        if self.drawn:
            self._out.print(Syntax(text.rstrip(), "ini", background_color="default"))
        else:
            self._plain(text.rstrip())

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Rows below headers."""
        if self.drawn:
            self._out.print(Padding(_grid(headers, rows), (0, 0, 0, _INDENT)))
        else:
            self._plain(columns(headers, rows, _INDENT))
        self._shoot(Padding(_grid(headers, rows), (0, 0, 0, _INDENT)))

    def problem(self, text: str) -> None:
        """Something that failed."""
        self._text(text, "bold red")

    def save_picture(self, path: Path, title: str) -> None:
        """Write the kept parts as SVG, which loads nothing from elsewhere."""
        assert self._camera is not None
        svg = self._camera.export_svg(title=title, unique_id="demo")
        svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(svg.replace("Fira Code,", "") + "\n")

    def _text(self, text: str, style: str = "") -> None:
        if self.drawn:
            self._out.print(Text(text, style))
        else:
            self._plain(text)
        self._shoot(Text(text, style))

    def _plain(self, text: str) -> None:
        self._out.file.write(text + "\n")
        self._out.file.flush()

    def _shoot(self, what: object) -> None:
        if self._camera is not None and self._pictured:
            self._camera.print(what)


def _fact(label: str, text: str) -> Table:
    """Two columns, so that a long text wraps beside its label."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=8)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, "cyan"), Text(text))
    shifted = Table.grid()
    shifted.add_column(width=_INDENT)
    shifted.add_column()
    shifted.add_row("", grid)
    return shifted


def _grid(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="cyan")
    for header in headers:
        grid.add_column(header, overflow="fold")
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    return grid


def columns(headers: Sequence[str], rows: Sequence[Sequence[str]], indent: int = 0) -> str:
    """Plain columns."""
    lines = [list(headers), *[list(row) for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headers))]
    return "\n".join(
        (" " * indent + "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True))).rstrip()
        for line in lines
    )
