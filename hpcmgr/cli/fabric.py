"""``hpcmgr fabric``: scans of the network between the nodes, and what they make."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hpcmgr.fabric.model import Domains, Scan, Seen
    from hpcmgr.fabric.plan import FabricPlan
    from hpcmgr.fabric.rails import Choice
    from hpcmgr.fabric.survey import Survey
    from hpcmgr.inventory import NodeInventory
    from hpcmgr.settings import Site

_MAX_BYTES = 64 << 20


@click.group()
def command() -> None:
    """Scan the network between the nodes; show the tree, the rails and what is missing."""


@command.command()
@click.option(
    "--ibnetdiscover",
    "infiniband",
    multiple=True,
    type=click.Path(path_type=Path, allow_dash=True),
    help="Output of ibnetdiscover, plain or -p (- is stdin); once for each subnet.",
)
@click.option(
    "--lldp",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder with NODE.json of every node (and switch): 'lldpcli show neighbors -f json'.",
)
@click.option("--nvlink", is_flag=True, help="NVLink domains, from the inventories of the nodes.")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
    help="Where to write it (- is stdout); default: topology.scan of site.yaml.",
)
@click.option(
    "--accept",
    is_flag=True,
    help="Take it although nodes are missing, or fewer than in the last scan.",
)
@click.pass_context
def scan(
    ctx: click.Context,
    infiniband: tuple[Path, ...],
    lldp: Path | None,
    nvlink: bool,
    out: Path | None,
    accept: bool,
) -> int:
    """Read what the network's own tools say, and write it down for 'hpcmgr render'.

    A scan in which something cannot be read, in which a switch has lost its uplinks, or which
    lacks nodes of the inventory is refused, and the last one stays.

    Exit codes: 0 written, 1 a source cannot be read, 4 the scan is incomplete.
    """
    from hpcmgr.errors import UsageProblem
    from hpcmgr.fabric.survey import survey
    from hpcmgr.files import write_atomically

    site = _site(ctx)
    if not infiniband and lldp is None and not nvlink:
        raise UsageProblem("no source is named", "give --ibnetdiscover, --lldp or --nvlink")
    place = out or site.topology.scan or Path("-")
    inventories = _inventories(site)
    sources = _sources(infiniband, lldp, inventories)
    domains = _domains(inventories, sources) if nvlink else {}
    last = _last(place, accept=accept)
    found = survey(sources, domains, inventories, site.topology.rails, last)
    _say(found)
    _insist(found, accept=accept)
    text = found.scan.to_json()
    if place == Path("-"):
        click.echo(text, nl=False)
        return 0
    changed = write_atomically(place, text)
    _tell(f"{place}: {'written' if changed else 'unchanged'}")
    return 0


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON (hpcmgr.fabric-tree/1).")
@click.pass_context
def show(ctx: click.Context, as_json: bool) -> int:
    """The tree and the blocks that Slurm gets, the rails and why, and what the scan lacks.

    Exit codes: 0 complete, 4 nodes are missing in the scan.
    """
    from hpcmgr.errors import ConfigError, Problem
    from hpcmgr.fabric import load_scan, plan_fabric
    from hpcmgr.fabric.rails import Choice
    from hpcmgr.fabric.survey import judge

    site = _site(ctx)
    if not site.fabric and not site.topology.scan and not site.topology.blocks:
        raise ConfigError(
            [Problem(None, None, "site.yaml says nothing about the network")],
            "run 'hpcmgr fabric scan' and set topology.scan, or write 'fabric' by hand",
        )
    inventories = _inventories(site)
    scanned = load_scan(site.topology.scan) if site.topology.scan else None
    plan = plan_fabric(site, scanned, inventories)
    found = judge(scanned, inventories, site.topology.rails) if scanned else None
    choice = found.choice if found else Choice((), ())
    if as_json:
        document = _document(plan, choice, found)
        click.echo(json.dumps(document, indent=2))
    else:
        _show(plan, choice)
    if found:
        _say(found, rails=False)
        for text in (*found.faults, *found.gaps):
            _tell(f"incomplete: {text}")
    return 4 if found and (found.gaps or found.faults) else 0


def _site(ctx: click.Context) -> Site:
    from hpcmgr.settings import load_site

    return load_site(ctx.find_object(Path))


def _tell(text: str) -> None:
    click.echo(f"hpcmgr: {text}", err=True)


def _inventories(site: Site) -> dict[str, NodeInventory]:
    from hpcmgr.configure import inventories_of

    return inventories_of(site)


def _sources(infiniband: Sequence[Path], lldp: Path | None, nodes: Collection[str]) -> list[Seen]:
    from hpcmgr.errors import FabricError
    from hpcmgr.fabric import ibnetdiscover
    from hpcmgr.fabric import lldp as neighbours

    found = []
    for path in infiniband:
        seen = ibnetdiscover.parse(_text(path))
        seen.problems[:] = [f"{path}: {problem}" for problem in seen.problems]
        found.append(seen)
    if lldp is not None:
        files = sorted(path for path in lldp.iterdir() if path.suffix == ".json")
        if not files:
            raise FabricError(
                f"{lldp}: holds no file NODE.json",
                "on every node: lldpcli show neighbors -f json > DIR/$(hostname -s).json",
            )
        found.append(neighbours.scan({path.stem: _text(path) for path in files}, nodes))
    return found


def _text(path: Path) -> str:
    from hpcmgr.errors import FabricError

    if path == Path("-"):
        data = sys.stdin.buffer.read(_MAX_BYTES + 1)
    else:
        try:
            with path.open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
        except OSError as error:
            raise FabricError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > _MAX_BYTES:
        raise FabricError(f"{path}: is larger than {_MAX_BYTES >> 20} MiB")
    return data.decode("utf-8", errors="replace")


def _domains(inventories: Mapping[str, NodeInventory], sources: list[Seen]) -> Domains:
    from hpcmgr.errors import IncompleteScan
    from hpcmgr.fabric.nvlink import domains

    found, problems = domains(inventories.values())
    if problems or (not found and not sources):
        raise IncompleteScan(
            "\n".join(problems) or "no node has told an NVLink domain; nothing was written",
            "look at 'nvidia-smi -q' (Fabric) and the fabric manager, then 'hpcmgr sync' there",
        )
    return found


def _last(place: Path, *, accept: bool) -> Scan | None:
    """The scan that will be replaced."""
    from hpcmgr.errors import ConfigError, FabricError
    from hpcmgr.fabric import load_scan

    if place == Path("-") or not place.exists():
        return None
    try:
        return load_scan(place)
    except ConfigError as error:
        if accept:
            return None
        raise FabricError(
            f"the last scan cannot be read, so nobody knows which nodes it had\n{error.message}",
            "put it right, or replace it: --accept",
        ) from error


def _insist(found: Survey, *, accept: bool) -> None:
    from hpcmgr.errors import FabricError, IncompleteScan

    if found.faults:
        raise FabricError(
            "\n".join([*found.faults, "nothing was written"]),
            "scan again, with all switches up, and give the whole output",
        )
    if found.gaps and not accept:
        raise IncompleteScan(
            "\n".join([*found.gaps, "nothing was written"]),
            "bring the nodes up and scan again; if it is true: --accept",
        )


def _say(found: Survey, *, rails: bool = True) -> None:
    from hpcmgr.fabric.complete import counted

    if rails:
        for rail in found.choice.rails:
            verb = "chosen" if rail.chosen else "left out"
            _tell(f"{rail.nic} {verb} on {counted(rail.nodes)}: {rail.why}")
    for remark in found.remarks:
        _tell(remark)
    if found.strangers:
        names = ", ".join(found.strangers[:5])
        more = f" and {len(found.strangers) - 5} more" if len(found.strangers) > 5 else ""
        _tell(f"hosts that are no nodes, left out: {names}{more}")


def _document(plan: FabricPlan, choice: Choice, found: Survey | None) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "schema": "hpcmgr.fabric-tree/1",
        "switches": {
            name: {**switch.model_dump(), "members": list(plan.members.get(name, ()))}
            for name, switch in plan.switches.items()
        },
        "blocks": {name: list(nodes) for name, nodes in plan.blocks.items()},
        "rails": [asdict(rail) for rail in choice.rails],
        "missing": [*found.faults, *found.gaps] if found else [],
        "remarks": list(found.remarks) if found else [],
    }


def _show(plan: FabricPlan, choice: Choice) -> None:
    from hpcmgr.cli.console import table
    from hpcmgr.slurm.hostlist import fold

    tree = [
        (
            name,
            "switches" if switch.switches else "nodes",
            switch.switches or switch.nodes or "",
            ", ".join(plan.members.get(name, ())),
        )
        for name, switch in plan.switches.items()
    ]
    blocks = [(name, str(len(nodes)), fold(nodes)) for name, nodes in plan.blocks.items()]
    rails = [
        (r.nic, r.network, "yes" if r.chosen else "no", str(len(r.nodes)), r.why)
        for r in choice.rails
    ]
    if tree:
        table(("SWITCH", "ABOVE", "", "STANDS FOR"), tree, "The tree")
    if blocks:
        table(("BLOCK", "SIZE", "NODES"), blocks, "\nBlocks")
    if rails:
        table(("NIC", "NETWORK", "CHOSEN", "NODES", "WHY"), rails, "\nRails")
