"""The capacity figures as tables: plain columns when piped, drawn with bars on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

Data = dict[str, Any]
Row = list[str]
DEVICES = ("devices", "used", "out", "resv", "free", "usable")
PARTS = (
    ("used", "used", "blue"),
    ("usable", "free, usable", "green"),
    ("idle", "free, not usable", "yellow"),
    ("reserved", "reserved", "magenta"),
    ("out", "out of service", "red"),
)
"""Parts of a bar: key, word, colour. ``idle`` is free less usable."""
_BAR = 24
_DISPENSABLE = (
    "GiB-free/all", "MiB-free/all", "", "resv", "nodes", "out", "of-type", "becomes",
    "CPUs-free/all", "used", "units-free/all", "units", "running", "waiting", "lacks", "devices",
    "state",
)  # fmt: skip
"""Columns that a narrow terminal does without, first things first; "" are the bars."""


@dataclass(frozen=True)
class Section:
    """One table; ``bars``: a tally of devices for each row, or none."""

    headers: Sequence[str]
    rows: Sequence[Row]
    bars: Sequence[dict[str, int] | None] = ()

    def within(self, width: int) -> Section:
        """The same without what can be missed, as far as so many characters are too few."""
        section = self
        for header in _DISPENSABLE:
            if section._width() <= width:
                break
            section = replace(section, bars=()) if header == "" else section._without(header)
        return section

    def _without(self, header: str) -> Section:
        kept = [place for place, name in enumerate(self.headers) if name != header]
        rows = [[row[place] for place in kept] for row in self.rows]
        return replace(self, headers=[self.headers[place] for place in kept], rows=rows)

    def _width(self) -> int:
        lines = [self.headers, *self.rows]
        columns = [max(len(line[i]) for line in lines) for i in range(len(self.headers))]
        return sum(columns) + 2 * len(columns) + (_BAR + 2 if self.bars else 0)


def sections(data: Data, by: str) -> list[Section]:
    """The tables for what was asked, without those that would be empty."""
    main: dict[str, Callable[[Data], list[Section]]] = {
        "type": _types,
        "node": _nodes,
        "partition": _partitions,
        "class": _classes,
        "user": lambda d: _names("user", d["users"]),
        "account": lambda d: _names("account", d["accounts"]),
    }
    first, *more = [*main[by](data), _lost(data["lost"])]
    return [first, *(section for section in more if section.rows)]


def _types(data: Data) -> list[Section]:
    waiting = {each["gres"]: each["waiting"]["devices"] for each in data["waiting"]}
    rows = [
        [each["gres"], str(each["nodes"]), *_figures(each), *_largest(each["largest"]),
         str(waiting.get(each["gres"], 0))]
        for each in data["types"]
    ]  # fmt: skip
    bars: list[dict[str, int] | None] = [each["devices"] for each in data["types"]]
    if len(rows) > 1:
        total = data["total"]
        rows.append(["total", "", *_figures(total), "", "", str(total["waiting"]["devices"])])
        bars.append(total["devices"])
    headers = ["type", "nodes", *_headers(), "fits-now", "units", "waiting"]
    return [
        Section(headers, rows, bars), _fragments(data), _preemption(data), _waiting(data),
    ]  # fmt: skip


def _fragments(data: Data) -> Section:
    """Where the free devices lie, and why some cannot be had."""
    rows = []
    for each in data["types"]:
        unit = each["units_each"]
        for spread in each["spread"]:
            units = "-" if unit is None else str(unit * spread["devices"])
            rows.append(
                [each["gres"], str(spread["count"]), str(spread["devices"]), units, "",
                 spread["nodes"]]
            )  # fmt: skip
        rows += [
            [each["gres"], "", str(lost["devices"]), "-", f"no {lost['lacks']} beside them",
             lost["nodes"]]
            for lost in each["unusable"]
        ]  # fmt: skip
    return Section(["free devices", "nodes", "on-each", "units", "not usable", "where"], rows)


def _preemption(data: Data) -> Section:
    rows = []
    for each in data["types"]:
        stoppable = each["preemptable"]
        for who, devices in stoppable["by"].items():
            unit = each["units_each"]
            rows.append(
                [each["gres"], who, f"~{devices}", f"~{each['devices']['free'] + devices}",
                 "-" if unit is None else f"~{unit * (each['devices']['free'] + devices)}"]
            )  # fmt: skip
    headers = ["after preemption", "by jobs of", "devices", "then-free", "units"]
    return Section(headers, rows)


def _waiting(data: Data) -> Section:
    rows = [
        [each["gres"], *_of_load(each["waiting"]), *_of_load(each["queued"])]
        for each in data["waiting"]
    ]
    headers = ["waiting for", "jobs", "devices", "units", "own-turn", "devices", "units"]
    return Section(headers, rows)


def _nodes(data: Data) -> list[Section]:
    rows: list[Row] = []
    bars: list[dict[str, int] | None] = []
    for node in data["nodes"]:
        cpus, memory = node["cpus"], node["memory_mib"]
        rest = [f"{cpus['free']}/{cpus['total']}", f"{memory['free']}/{memory['total']}"]
        for here in node["types"] or [{"gres": "-", "lacks": None, **node}]:
            lacks = here["lacks"] or ""
            rows.append(
                [node["name"], node["state"].lower(), here["gres"], *_figures(here), *rest, lacks]
            )
            bars.append(here["devices"])
    headers = ["node", "state", "type", *_headers(), "CPUs-free/all", "MiB-free/all", "lacks"]
    return [Section(headers, rows, bars)]


def _partitions(data: Data) -> list[Section]:
    rows = [
        [part["name"] + ("*" if part["default"] else ""), _up(part["up"]), here["gres"],
         *_figures(here), str(part["waiting"]["types"].get(here["gres"], 0))]
        for part in data["partitions"]
        for here in part["types"]
    ]  # fmt: skip
    bars = [here["devices"] for part in data["partitions"] for here in part["types"]]
    return [Section(["partition", "up", "type", *_headers(), "waiting"], rows, bars)]


def _classes(data: Data) -> list[Section]:
    rows, bars = [], []
    for each in data["classes"]:
        figures = _figures(each) if "devices" in each else [""] * (len(DEVICES) + 2)
        largest = each.get("largest") or {}
        fits = [largest.get("request", "-"), largest.get("becomes", "-")]
        rows.append([each["name"], *figures, *fits, *_of_load(each["held"]),
                     *_of_load(each["waiting"])])  # fmt: skip
        bars.append(each.get("devices"))
    headers = ["class", *_headers(), "fits-now", "becomes", "running", "devices", "units",
               "waiting", "devices", "units"]  # fmt: skip
    return [Section(headers, rows, bars)]


def _names(what: str, items: Iterable[Data]) -> list[Section]:
    rows = [
        [each["name"], *_of_load(each["held"]), _types_of(each["held"]),
         *_of_load(each["waiting"]), _types_of(each["waiting"]), str(each["queued"]["devices"])]
        for each in items
    ]  # fmt: skip
    headers = [what, "running", "devices", "units", "of-type", "waiting", "devices", "units",
               "of-type", "own-turn"]  # fmt: skip
    return [Section(headers, rows)]


def _types_of(load: Data) -> str:
    return " ".join(f"{gres}:{n}" for gres, n in load["types"].items()) or "-"


def _of_load(load: Data) -> Row:
    return [str(load["jobs"]), str(load["devices"]), str(load["units"])]


def _lost(groups: Iterable[Data]) -> Section:
    rows = [
        [g["nodes"], g["state"].lower(), str(g["devices"]), str(g["units"]), str(g["still_used"]),
         g["since"] or "-", g["by"] or "-", g["reason"]]
        for g in groups
    ]  # fmt: skip
    headers = ["lost", "state", "devices", "units", "in-use", "since", "by", "reason"]
    return Section(headers, rows)


def _headers() -> Row:
    return [*DEVICES, "units-free/all", "GiB-free/all"]


def _figures(item: Data) -> Row:
    return [
        *(str(value) for value in item["devices"].values()),
        _of(item["units"], item["units_unknown"]),
        _of(item["memory_gib"], item["memory_unknown"]),
    ]


def _of(tally: dict[str, int], unknown: int) -> str:
    """``32/128``; ``-`` where nothing is known, ``32/128+?`` where not all is."""
    if unknown and not tally["total"]:
        return "-"
    return f"{tally['free']}/{tally['total']}" + ("+?" if unknown else "")


def _largest(largest: Data | None) -> tuple[str, str]:
    """The request in devices, and its units: in units alone it may become another type."""
    if not largest:
        return "-", "-"
    units = largest["units"]
    return f"{largest['gres']}:{largest['devices']}", "-" if units is None else str(units)


def _up(value: bool | None) -> str:
    return {True: "yes", False: "no", None: "?"}[value]


def plain(parts: Iterable[Section]) -> None:
    """Columns on stdout, an empty line between two tables."""
    import click

    from hpcmgr.cli.console import table

    for place, section in enumerate(parts):
        if place:
            click.echo()
        table(section.headers, section.rows)


def drawn(parts: Iterable[Section], head: str, width: int) -> RenderableType:
    """For a terminal of that width: the head, then the tables, with bars where there are
    devices."""
    from rich.console import Group
    from rich.text import Text

    legend = Text()
    for _, word, colour in PARTS:
        legend.append("\u2588 ", colour).append(f"{word}   ", "dim")
    pieces: list[RenderableType] = [Text(head, "bold"), legend, Text()]
    for section in parts:
        pieces += [_grid(section.within(width)), Text()]
    return Group(*pieces)


def _grid(section: Section) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold cyan")
    numbers = {place for place, _ in enumerate(section.headers) if _is_numeric(section, place)}
    for place, header in enumerate(section.headers):
        last = place == len(section.headers) - 1
        grid.add_column(
            header,
            justify="right" if place in numbers else "left",
            no_wrap=not last,
            overflow="fold" if last else "ellipsis",
        )
        if place == 0 and section.bars:
            grid.add_column("", no_wrap=True)
    bars = section.bars or [None] * len(section.rows)
    for row, tally in zip(section.rows, bars, strict=True):
        cells: list[Text] = [Text(cell) for cell in row]
        if section.bars:
            cells.insert(1, _bar(tally))
        grid.add_row(*cells)
    return grid


def _is_numeric(section: Section, place: int) -> bool:
    cells = [row[place] for row in section.rows if row[place] not in {"", "-"}]
    return bool(cells) and all(cell[:1].isdigit() or cell[:1] == "~" for cell in cells)


def _bar(tally: dict[str, int] | None) -> Text:
    """The parts of all devices, each at least one cell wide where it is not nothing."""
    from rich.text import Text

    bar = Text()
    if not tally or not tally["total"]:
        return bar
    for (_, _, colour), width in zip(PARTS, widths(tally, _BAR), strict=True):
        bar.append("\u2588" * width, colour)
    return bar


def widths(tally: dict[str, int], cells: int) -> list[int]:
    """``cells`` shared out among the parts by their size (largest remainders); no part that is
    there vanishes."""
    values = [tally["used"], tally["usable"], tally["free"] - tally["usable"],
              tally["reserved"], tally["out"]]  # fmt: skip
    total = tally["total"]
    found = [max(value * cells // total, 1 if value else 0) for value in values]
    while sum(found) != cells:
        # The part that is farthest from its true width gives a cell or gets one.
        step = 1 if sum(found) < cells else -1
        off = [
            step * (value * cells / total - width)
            for value, width in zip(values, found, strict=True)
        ]
        able = [place for place, value in enumerate(values) if value and found[place] + step > 0]
        found[max(able, key=lambda place: off[place])] += step
    return found
