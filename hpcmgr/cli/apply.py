"""``hpcmgr apply``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from hpcmgr.apply import Applier, Change, Result, Workplace
    from hpcmgr.settings import Site
    from hpcmgr.slurm.capability import Release
    from hpcmgr.verify import Machine


@click.command()
@click.option("--dry-run", is_flag=True, help="Show the difference and prove it; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--drain-first",
    is_flag=True,
    help="Drain nodes that would have to wait, wait for their jobs, resume them afterwards.",
)
@click.pass_obj
def command(config: Path | None, dry_run: bool, yes: bool, drain_first: bool) -> int:
    """Bring the rendered files into force on the controller.

    Shows the difference, proves it, writes, reconfigures, checks every node, and takes everything
    back where a node does not come back as it should. A node with jobs on its devices keeps its
    lines until it is free of them.

    Exit codes: 0 done or nothing to do, 1 refused or taken back, 3 there is a difference
    (--dry-run), 4 some nodes wait or do not answer.
    """
    from hpcmgr.apply import Workplace
    from hpcmgr.settings import load_site

    site = load_site(config)
    place = Workplace(site.slurm.conf_dir)
    applier, notes = _applier(site, place)
    for note in notes:
        _tell(note)
    with _ended_cleanly():
        if dry_run:
            return _dry_run(applier, drain_first=drain_first)
        with place.locked():
            return _apply(applier, yes=yes, drain_first=drain_first)


def _tell(text: str) -> None:
    click.echo(f"hpcmgr: {text}", err=True)


def _applier(site: Site, place: Workplace) -> tuple[Applier, list[str]]:
    """All that an apply needs, and what its administrator should know or do by hand."""
    from hpcmgr.apply import Applier
    from hpcmgr.apply.beside import beside, insist_on_includes
    from hpcmgr.apply.shim import shim_files, wanted_files
    from hpcmgr.configure import cluster_plan
    from hpcmgr.errors import ApplyError
    from hpcmgr.slurm.capability import why_unsupported
    from hpcmgr.verify import Machine

    if not place.conf_dir.is_dir():
        raise ApplyError(f"{place.conf_dir} is no directory", "set slurm.conf_dir in site.yaml")
    release = _release(site)
    refusal = why_unsupported(release)
    if refusal:
        raise ApplyError(refusal, "upgrade Slurm")
    plan = cluster_plan(site)
    rendered = beside(place.conf_dir, plan, release)
    insist_on_includes(place.conf_dir, rendered.files)
    shim, note = wanted_files(place.conf_dir, place.installed(), shim_files())
    machines = {
        node.name: Machine(node.sockets, node.cores_per_socket, node.threads_per_core)
        for node in plan.nodes
    }
    return Applier(
        place=place,
        wanted={**rendered.files, **shim},
        release=release,
        limits=site.apply,
        prove=_prover(place.conf_dir, release, machines),
        tell=_tell,
    ), [*rendered.notes, *([note] if note else [])]


def _release(site: Site) -> Release:
    from hpcmgr.slurm.capability import Release
    from hpcmgr.slurm.reader import read_release

    return Release.parse(site.slurm.version or read_release())


def _prover(
    conf_dir: Path, release: Release, machines: Mapping[str, Machine]
) -> Callable[[Mapping[str, str]], None]:
    """Proves a set of files; the same set once only."""
    from hpcmgr.apply.proof import prove
    from hpcmgr.errors import ApplyError

    proven: list[dict[str, str]] = []

    def check(files: Mapping[str, str]) -> None:
        if dict(files) in proven:
            return
        proof = prove(conf_dir, files, release, machines)
        for finding in proof.others:
            _tell(f"{finding.severity.value}: {finding.place}: {finding.text}")
        for remark in proof.remarks:
            _tell(remark)
        if proof.errors:
            lines = [f"{f.place}: {f.text}" for f in proof.errors]
            fixes = dict.fromkeys(f.fix for f in proof.errors if f.fix)
            raise ApplyError(
                "the new files do not stand the proof; nothing was changed\n" + "\n".join(lines),
                "; ".join(fixes),
            )
        _tell("proven" if proof.full else "checked, but not everything could be proven")
        proven.append(dict(files))

    return check


def _dry_run(applier: Applier, *, drain_first: bool) -> int:
    from hpcmgr.errors import ApplyError

    if applier.place.read_marker() is not None:
        _tell("an earlier apply was killed, or one is running: 'hpcmgr apply' sees to it")
    try:
        live = applier.live()
        stale = applier.stale(live)
    except ApplyError as problem:
        _tell(f"{problem.message}\nhpcmgr: which nodes would have to wait is not known")
        live, stale = None, {}
    change = applier.plan(live)
    if drain_first and change.waiting:
        _show_waiting(change)
        _tell("--drain-first would drain these nodes; what would then be written:")
        change = applier.plan(None)
    _show(applier, change, stale)
    if not change.files and not stale:
        for waiting in change.waiting:
            click.echo(str(waiting))
        return 4 if change.waiting else 0
    applier.prove(change.texts)
    return 3


def _apply(applier: Applier, *, yes: bool, drain_first: bool) -> int:
    recovered = applier.recover()
    if recovered:
        _tell(recovered)
    live = applier.live()
    stale = applier.stale(live)
    change = applier.plan(live)
    _show(applier, change, stale)
    waits = bool(change.waiting)
    if not change.files and not stale and not (waits and drain_first):
        applier.remember(live)
        for waiting in change.waiting:
            click.echo(str(waiting))
        return 4 if waits else 0
    applier.prove(change.texts)
    _confirm(yes=yes)
    result = applier.apply(change, drain_first=drain_first)
    _report(result)
    return result.exit_code


def _show(applier: Applier, change: Change, stale: Mapping[str, str]) -> None:
    for file in change.files:
        click.echo(file.diff(applier.place.conf_dir), nl=False)
    for name, why in sorted(stale.items()):
        _tell(f"{name} does not run with the files that lie there: {why}")
    if change.files or stale:
        _show_waiting(change)
    else:
        _tell("nothing to change" + (" now" if change.waiting else ": the files are in force"))


def _show_waiting(change: Change) -> None:
    for waiting in change.waiting:
        _tell(str(waiting))


def _confirm(*, yes: bool) -> None:
    from hpcmgr.errors import UsageProblem

    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageProblem("there is no terminal to ask on; nothing was changed", "give --yes")
    click.confirm("Bring this into force?", abort=True, err=True)


def _report(result: Result) -> None:
    from hpcmgr.apply.settle import State

    others = 0
    for outcome in sorted(result.outcomes.values(), key=lambda o: o.node):
        if outcome.state is State.GOOD and outcome.node not in result.touched:
            others += 1
        else:
            click.echo(f"{outcome.node}: {outcome.text}")
    if others:
        click.echo(f"{others} other nodes came back as they were")
    for waiting in result.waiting:
        click.echo(str(waiting))
    if not result.done:
        _tell(f"error: taken back: {result.why}")
        if result.hint:
            _tell(f"hint: {result.hint}")
        return
    if result.written:
        _tell(f"in force: {', '.join(result.written)}; as they were before: {result.backup}")


@contextmanager
def _ended_cleanly() -> Iterator[None]:
    """SIGTERM and a lost terminal take things back, as Ctrl-C does."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        del frame
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
