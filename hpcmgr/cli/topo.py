"""``hpcmgr topo``: the device graph of this host (or a recorded one)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hpcmgr.discovery.node_graph import End, NodeGraph


@click.command(epilog="Exit code 4: a source was broken, the graph may be incomplete.")
@click.option(
    "--host",
    "place",
    type=click.Path(path_type=Path),
    help="A recorded host: folder or .tar.gz. Default: this machine.",
)
@click.option(
    "--svg", type=click.Path(path_type=Path), help="Draw it into this file (- is stdout)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the graph (hpcmgr.topology/1).")
@click.pass_obj
def command(config: Path | None, place: Path | None, svg: Path | None, as_json: bool) -> int:
    """Show what lies between any two devices and NICs, and where they are."""
    from hpcmgr.cli.discover import say_how_to_bind
    from hpcmgr.discovery import discover, open_host
    from hpcmgr.discovery.node_graph import NodeGraph
    from hpcmgr.errors import UsageProblem
    from hpcmgr.profile.site import library_of
    from hpcmgr.settings import load_site

    if as_json and svg == Path("-"):
        raise UsageProblem("--json and --svg - both want stdout", "give --svg a file")
    site = load_site(config)
    inventory = discover(open_host(place), library_of(site))
    graph = NodeGraph(inventory)
    if svg is not None:
        _draw(graph, svg)
    if as_json:
        _print_json(graph)
    elif svg is None:
        _present(graph)
        say_how_to_bind(inventory, site)
    for source in inventory.broken_sources:
        click.echo(f"hpcmgr: warning: {source.name} is broken: {source.detail}", err=True)
    return 4 if inventory.broken_sources else 0


def _draw(graph: NodeGraph, place: Path) -> None:
    from hpcmgr.cli.topo_svg import picture
    from hpcmgr.files import write_atomically

    text = picture(graph)
    if place == Path("-"):
        click.echo(text, nl=False)
        return
    write_atomically(place, text)
    click.echo(f"hpcmgr: drawn into {place}", err=True)


def _print_json(graph: NodeGraph) -> None:
    import json

    numa = [node.model_dump(mode="json") for node in graph.inventory.cpu.numa]
    ways = [
        {"a": a.name, "b": b.name, "kind": way.kind.upper(), "direct": way.direct, "said": way.said}
        for number, a in enumerate(graph.ends)
        for b in graph.ends[number + 1 :]
        if (way := graph.way(a, b)) is not None
    ]
    plain = {
        "schema": "hpcmgr.topology/1",
        "node": graph.inventory.node,
        "sockets": graph.inventory.cpu.sockets,
        "numa": numa,
        "ends": [_plain(end) for end in graph.ends],
        "links": ways,
    }
    click.echo(json.dumps(plain, indent=2))


def _plain(end: End) -> dict[str, object]:
    return {
        "name": end.name,
        "type": end.device.kind if end.device else "nic",
        "model": end.device.model if end.device else None,
        "interface": end.nic.name if end.nic else None,
        "pci": end.pci,
        "numa_node": end.numa,
        "socket": end.socket,
        "files": list(end.device.files) if end.device else [],
    }


def _present(graph: NodeGraph) -> None:
    from hpcmgr.cli.console import table

    if not graph.ends:
        click.echo(f"{graph.inventory.node}: no devices and no NICs on the PCI bus")
        return
    words = {(a.name, b.name): _word(graph, a, b) for a in graph.ends for b in graph.ends}
    rows = [
        (a.name, *(words[a.name, b.name] for b in graph.ends), _number(a.numa), _number(a.socket))
        for a in graph.ends
    ]
    names = [end.name for end in graph.ends]
    table(("", *names, "NUMA", "SOCKET"), rows, f"{graph.inventory.node}: what lies between")
    click.echo()
    table(("NAME", "IS", "PCI", "FILES"), [_what(end) for end in graph.ends])
    click.echo()
    for word in sorted(set(words.values()) - {"X"}):
        click.echo(f"{word.ljust(5)} {_meaning(word)}".rstrip())


def _word(graph: NodeGraph, a: End, b: End) -> str:
    if a is b:
        return "X"
    way = graph.way(a, b)
    return way.kind if way is not None else "?"


def _what(end: End) -> tuple[str, ...]:
    from hpcmgr.inventory import Nic

    if isinstance(end.what, Nic):
        layer = end.what.link_layer or "network"
        return end.name, f"{layer} {end.what.name}", end.pci or "-", "-"
    return end.name, end.what.model, end.pci or "-", " ".join(end.what.files) or "-"


def _meaning(word: str) -> str:
    from hpcmgr.discovery.node_graph import MEANINGS

    if word.startswith("NV") and word[2:].isdigit():
        return f"{word[2:]} NVLinks"
    return "nobody knows" if word == "?" else MEANINGS.get(word, "")


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)
