"""``hpcmgr capacity``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hpcmgr.capacity.view import By

DEVICES = ("devices", "used", "out", "resv", "free", "usable")


@click.command()
@click.option(
    "--by",
    type=click.Choice(["type", "node", "partition"]),
    default="type",
    show_default=True,
    help="What one line stands for.",
)
@click.option("--all", "every_node", is_flag=True, help="Nodes without accelerators too.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_obj
def command(config: Path | None, by: By, every_node: bool, as_json: bool) -> int:
    """Show devices, units and device memory, free and total, as Slurm has them now.

    Usable are the free devices beside which CPUs and memory are free too. What is down, drained or
    reserved stands below, with its reason. Needs no service.
    """
    import time

    from hpcmgr.capacity import as_data, count
    from hpcmgr.configure import library_of
    from hpcmgr.settings import load_site
    from hpcmgr.slurm.reader import read_cluster

    site = load_site(config)
    library = library_of(site)
    taken, started = time.time(), time.monotonic()
    capacity = count(read_cluster(started), library, site.default_class)
    data: dict[str, Any] = as_data(
        capacity, by, taken=taken, age=time.monotonic() - started, every_node=every_node
    )
    if as_json:
        click.echo(json.dumps(data, indent=2))
    else:
        _present(data, by)
    if not capacity.nodes:
        click.echo(
            "hpcmgr: Slurm shows you no nodes (none defined, or PrivateData=nodes)", err=True
        )
    return 0


def _present(data: dict[str, Any], by: By) -> None:
    _told(data)
    {"type": _types, "node": _nodes, "partition": _partitions}[by](data)
    _lost(data["lost"])


def _told(data: dict[str, Any]) -> None:
    """How old the figures are, and what about them needs a word."""
    clock = data["taken"].replace("T", " ")[:19]
    lines = [f"Slurm {data['slurm']}, figures of {clock}, {data['age_s']:.1f} s old"]
    if data["total"]["units_unknown"]:
        lines.append(
            f"{data['total']['units_unknown']} devices are of types without known units "
            "(units -): give them a profile"
        )
    for line in [*lines, *data["notes"]]:
        click.echo(f"hpcmgr: {line}", err=True)


def _types(data: dict[str, Any]) -> None:
    from hpcmgr.cli.console import table

    rows = [
        [each["gres"], str(each["nodes"]), *_figures(each), *_largest(each)]
        for each in data["types"]
    ]
    if len(rows) > 1:
        rows.append(["total", "", *_figures(data["total"]), "", ""])
    table(["type", "nodes", *_headers(), "fits-now", "units"], rows)


def _nodes(data: dict[str, Any]) -> None:
    from hpcmgr.cli.console import table

    rows = []
    for node in data["nodes"]:
        cpus, memory = node["cpus"], node["memory_mib"]
        rest = [f"{cpus['free']}/{cpus['total']}", f"{memory['free']}/{memory['total']}"]
        rows += [
            [node["name"], node["state"].lower(), here["gres"], *_figures(here), *rest]
            for here in node["types"] or [{"gres": "-", **node}]
        ]
    table(["node", "state", "type", *_headers(), "CPUs-free/all", "MiB-free/all"], rows)


def _partitions(data: dict[str, Any]) -> None:
    from hpcmgr.cli.console import table

    rows = [
        [part["name"] + ("*" if part["default"] else ""), _up(part["up"]), here["gres"],
         *_figures(here)]
        for part in data["partitions"]
        for here in part["types"]
    ]  # fmt: skip
    table(["partition", "up", "type", *_headers()], rows)


def _lost(groups: list[dict[str, Any]]) -> None:
    from hpcmgr.cli.console import table

    if not groups:
        return
    click.echo()
    rows = [
        [g["nodes"], g["state"].lower(), str(g["devices"]), str(g["units"]), str(g["still_used"]),
         g["since"] or "-", g["by"] or "-", g["reason"]]
        for g in groups
    ]  # fmt: skip
    table(["lost", "state", "devices", "units", "in-use", "since", "by", "reason"], rows)


def _headers() -> list[str]:
    return [*DEVICES, "units-free/all", "GiB-free/all"]


def _figures(item: dict[str, Any]) -> list[str]:
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


def _largest(item: dict[str, Any]) -> tuple[str, str]:
    """The request in devices, and its units: in units alone it may become another type."""
    largest = item["largest"]
    if not largest:
        return "-", "-"
    units = largest["units"]
    return f"{item['gres']}:{largest['devices']}", "-" if units is None else str(units)


def _up(value: bool | None) -> str:
    return {True: "yes", False: "no", None: "?"}[value]
