"""``hpcmgr adopt``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpcmgr.cli.console import indented

if TYPE_CHECKING:
    from hpcmgr.adopt import AdoptReport, NodeReport
    from hpcmgr.adopt.meaning import Meaning
    from hpcmgr.inventory import NodeInventory
    from hpcmgr.plan import ClusterPlan
    from hpcmgr.settings import Site
    from hpcmgr.slurm.capability import Release
    from hpcmgr.verify import Place

_MOVES = {
    "any-time": "can move with jobs running: no device or core changes its place",
    "devices-free": "moves when no job has its devices (they change place or count)",
    "jobs-gone": "moves when no job is on it (its cores or its address change)",
    "unknown": "has no inventory: explained from the files alone; run 'hpcmgr sync' on it",
}


@click.command()
@click.argument(
    "directory", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@click.option("--nodes", metavar="HOSTLIST", help="Only these nodes, with the lines they leave.")
@click.option(
    "--begin",
    is_flag=True,
    help="Begin to move over: write down what every node runs with (hpcmgr.d beside slurm.conf), "
    "and lay out the empty files that the site's own will include.",
)
@click.option(
    "--slurm-version",
    metavar="V",
    help="The release that the files are for; without it the installed one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def command(
    config: Path | None,
    directory: Path | None,
    nodes: str | None,
    begin: bool,
    slurm_version: str | None,
    as_json: bool,
) -> int:
    """What the site's own gres.conf, slurm.conf and topology.conf mean, node by node.

    Beside it: where the discovered machines differ, what would be rendered, when that can be
    brought into force, and which lines to remove so that a node moves over. DIRECTORY: where
    slurm.conf lies, without it the one of site.yaml. No file of the site is changed.

    Exit codes: 0 no difference, 1 the files cannot be read, 3 files and machines differ.
    """
    from hpcmgr.adopt import adopt
    from hpcmgr.errors import ConfigError, Problem
    from hpcmgr.settings import load_site

    site = load_site(config)
    place = directory or site.slurm.conf_dir
    if not (place / "slurm.conf").exists():
        raise ConfigError([Problem(place / "slurm.conf", None, "is missing")])
    if begin:
        return _begin(place, site)
    plan, inventories = _plan(site)
    release = _release(slurm_version or site.slurm.version)
    report = adopt(place, release, plan, inventories, _expand(nodes))
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2, ensure_ascii=False))
    else:
        _print(report)
    return report.exit_code


def _tell(text: str) -> None:
    click.echo(f"hpcmgr: {text}", err=True)


def _expand(nodes: str | None) -> list[str] | None:
    from hpcmgr.errors import UsageProblem
    from hpcmgr.slurm.hostlist import expand

    if nodes is None:
        return None
    try:
        return expand(nodes)
    except ValueError as problem:
        raise UsageProblem(f"--nodes: {problem}") from problem


def _release(text: str | None) -> Release:
    from hpcmgr.errors import UsageProblem
    from hpcmgr.slurm.capability import NEWEST, Release
    from hpcmgr.verify.oracle import find_programs, installed_release

    if text is None:
        return installed_release(find_programs()) or NEWEST
    try:
        return Release.parse(text)
    except ValueError as problem:
        raise UsageProblem(f"--slurm-version: {problem}") from problem


def _plan(site: Site) -> tuple[ClusterPlan | None, dict[str, NodeInventory]]:
    """The plan of all nodes that have published; None where none has."""
    from hpcmgr.configure import plan_of
    from hpcmgr.inventory.store import load_all

    if not site.inventory.is_dir():
        _tell(f"there is no {site.inventory}: nodes are explained from the files alone")
        return None, {}
    inventories = load_all(site.inventory)
    return (plan_of(inventories.values(), site) if inventories else None), inventories


def _begin(place: Path, site: Site) -> int:
    """Write down what nodes run with; 4 where that is not known of all."""
    from hpcmgr.apply import Workplace, read_live
    from hpcmgr.apply.beside import make_fragments
    from hpcmgr.apply.force import not_in_force
    from hpcmgr.apply.memory import NAME, remember
    from hpcmgr.slurm.hostlist import fold
    from hpcmgr.verify.configuration import read_configuration

    release = _release(site.slurm.version)
    workplace = Workplace(place)
    live = read_live()
    stale = not_in_force(place, live, workplace.installed(), release)
    current = read_configuration(place, release)
    unknown = remember(workplace.folder, current, live, stale)
    click.echo(f"{len(current.nodes) - len(unknown)} nodes written down in "
               f"{workplace.folder / NAME}")  # fmt: skip
    for path in make_fragments(place):
        click.echo(f"{path} made: include it")
    if unknown:
        _tell(
            f"not known of {fold(unknown)}: their slurmd does not answer, or started before a file "
            "was changed ('scontrol reconfigure' first, or move them when they are free of jobs)"
        )
    return 4 if unknown else 0


def _print(report: AdoptReport) -> None:
    for node in report.nodes:
        click.echo("\n".join(_paragraph(report, node)) + "\n")
    if report.new:
        from hpcmgr.slurm.hostlist import fold

        click.echo(f"{fold(report.new)}: in the inventory and in no file; would be new\n")
    if report.first:
        click.echo("Before the first node moves, in the site's own files:")
        for step in report.first:
            click.echo(_wrapped(f"{_place(report, step.place)}: {step.text}"))
    if report.errors:
        word = "error" if report.errors == 1 else "errors"
        _tell(f"{report.errors} {word} in these files: see 'hpcmgr verify {report.directory}'")
    _tell(_summary(report))


def _place(report: AdoptReport, place: Place) -> str:
    from hpcmgr.adopt.steps import relative

    return relative(place, report.directory)


def _paragraph(report: AdoptReport, node: NodeReport) -> Iterator[str]:
    from hpcmgr.slurm.hostlist import fold

    places = ", ".join(_place(report, p) for p in (node.meaning.place, *node.meaning.records))
    owner = "" if node.own else " (hpcmgr's already)"
    yield f"{node.nodes}{owner}: {places}"
    yield from (_wrapped(line) for line in _meaning(node.meaning, node.leaf))
    yield _wrapped(_MOVES[node.move.value])
    for difference in node.differs:
        mark = "differs, dangerous under jobs" if difference.danger else "differs"
        yield _wrapped(f"{mark}: {difference.text}")
    if node.after and (*node.before,) != node.after:
        yield "    would become:"
        yield from (f"      {line}" for line in node.diff())
    if node.steps:
        yield f"    to hand over {fold(node.names)}:"
        yield from (f"      {_place(report, s.place)}: {s.text}" for s in node.steps)
    if node.site_yaml:
        yield "      site.yaml, under nodes:"
        yield from (f"        {line}" for line in node.site_yaml)


def _meaning(meaning: Meaning, leaf: str) -> Iterator[str]:
    if meaning.gres:
        yield "Gres: " + ", ".join(f"{key} {count}" for key, count in meaning.gres.items())
    for key in dict.fromkeys(device.key for device in meaning.devices):
        mine = [device for device in meaning.devices if device.key == key]
        files = [",".join(d.files) + (f" (cores {d.cores})" if d.cores else "") for d in mine]
        yield f"{key} in Slurm's order: {'; '.join(files)}"
    if meaning.autodetect:
        yield f"AutoDetect={meaning.autodetect}: what it finds is known on the node only"
    machine, words = meaning.machine, []
    if machine:
        words.append(f"{machine.sockets} sockets x {machine.cores_per_socket} cores x "
                     f"{machine.threads_per_core} threads")  # fmt: skip
    words += [f"{meaning.keys['realmemory']} MiB"] if "realmemory" in meaning.keys else []
    words += [f"features {','.join(meaning.features)}"] if meaning.features else []
    words += [leaf] if leaf else []
    if words:
        yield "; ".join(words)


def _wrapped(text: str) -> str:
    return indented(text, further="  ")


def _summary(report: AdoptReport) -> str:
    nodes = sum(len(node.names) for node in report.nodes)
    kinds = len(report.nodes)
    differ = sum(len(node.names) for node in report.nodes if node.differs)
    ready = sum(len(node.names) for node in report.nodes if node.move.value == "any-time")
    return (
        f"{nodes} nodes of {kinds} kinds; {differ} differ from their machine; "
        f"{ready} can move with jobs running"
    )
