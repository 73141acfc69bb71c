"""``hpcmgr verify``."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

from hpcmgr.cli.console import indented

if TYPE_CHECKING:
    from hpcmgr.plan import ClusterPlan
    from hpcmgr.slurm.capability import Release
    from hpcmgr.verify import Finding, Report


_SECRET = re.compile(r"\.(key|jwks|pem|crt)$|^slurmdbd\.conf$")


@click.command()
@click.argument(
    "directory", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@click.option(
    "--slurm-version",
    metavar="V",
    help="The release that the files are for; without it the installed one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def command(
    config: Path | None, directory: Path | None, slurm_version: str | None, as_json: bool
) -> int:
    """Lint and prove gres.conf, slurm.conf, topology and cgroup.conf of DIRECTORY.

    Without DIRECTORY: what 'hpcmgr render' writes, together with the site's own slurm.conf.
    Exit codes: 0 good, 1 an error was found, 4 nothing is wrong but not everything was proven.
    """
    from hpcmgr.verify import verify_directory

    release = _release(slurm_version)
    with _ended_cleanly():
        if directory is not None:
            report = verify_directory(directory, release)
        else:
            report = _verify_site(config, release)
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        _print(report)
    return report.exit_code


def _release(text: str | None) -> Release | None:
    from hpcmgr.errors import UsageProblem
    from hpcmgr.slurm.capability import Release

    if text is None:
        return None
    try:
        return Release.parse(text)
    except ValueError as problem:
        raise UsageProblem(f"--slurm-version: {problem}") from problem


def _verify_site(config: Path | None, release: Release | None) -> Report:
    """The site's files with the rendered ones laid over them, in a directory of their own."""
    from hpcmgr.configure import cluster_plan
    from hpcmgr.settings import load_site
    from hpcmgr.slurm.capability import Release
    from hpcmgr.verify import Machine, verify_directory

    site = load_site(config)
    plan = cluster_plan(site)
    if release is None and site.slurm.version:
        release = Release.parse(site.slurm.version)
    machines = {
        node.name: Machine(node.sockets, node.cores_per_socket, node.threads_per_core)
        for node in plan.nodes
    }
    with tempfile.TemporaryDirectory(prefix="hpcmgr-verify-") as name:
        copy = Path(name)
        if site.slurm.conf_dir.is_dir():
            _copy_conf(site.slurm.conf_dir, copy)
        for file, text in _rendered(site.slurm.conf_dir, plan, release).items():
            (copy / file).unlink(missing_ok=True)
            (copy / file).write_text(text, encoding="utf-8")
        report = verify_directory(copy, release, machines, site.slurm.conf_dir)
        return _relocated(report, copy, site.slurm.conf_dir)


def _rendered(conf_dir: Path, plan: ClusterPlan, release: Release | None) -> dict[str, str]:
    """What 'hpcmgr apply' would write there."""
    from hpcmgr.apply.beside import beside
    from hpcmgr.slurm.capability import NEWEST

    return beside(conf_dir, plan, release or NEWEST).files


def _copy_conf(source: Path, target: Path) -> None:
    """Configuration files only, never keys or passwords: what cannot be read is left out."""
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        elif path.is_file() and not _SECRET.search(path.name):
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)
            except OSError as problem:
                click.echo(f"hpcmgr: {path} left out: {problem.strerror}", err=True)


def _relocated(report: Report, copy: Path, conf_dir: Path) -> Report:
    """The report with places in the site's directory instead of the copy."""
    from dataclasses import replace

    from hpcmgr.verify import Place

    def moved(finding: Finding) -> Finding:
        place, text = finding.place, finding.text.replace(str(copy), str(conf_dir))
        if place.file is not None and place.file.is_relative_to(copy):
            place = Place(conf_dir / place.file.relative_to(copy), place.line)
        fix = finding.fix.replace(str(copy), str(conf_dir))
        return replace(finding, place=place, text=text, fix=fix)

    report.findings = [moved(finding) for finding in report.findings]
    return report


def _print(report: Report) -> None:
    for finding in report.findings:
        click.echo(_paragraph(finding) + "\n")
    for remark in report.remarks:
        click.echo(f"hpcmgr: {remark}", err=True)
    click.echo(_summary(report), err=True)


def _paragraph(finding: Finding) -> str:
    words = [finding.why, f"Fix: {finding.fix}" if finding.fix else ""]
    head = f"{finding.place}: {finding.severity.value}: {finding.text}"
    return "\n".join([head, *(indented(text, width=96) for text in words if text)])


def _summary(report: Report) -> str:
    from hpcmgr.verify import Proof, Severity

    counts = ", ".join(
        f"{number} {severity.value}{'s' if number != 1 else ''}"
        for severity in Severity
        if (number := report.count(severity))
    )
    proven = {
        Proof.FULL: f"proven with Slurm {report.release}",
        Proof.PARTIAL: f"proven in part with Slurm {report.release}",
        Proof.NONE: f"checked by rules for Slurm {report.release}, not proven",
    }[report.proof]
    nodes = (
        f" ({len(report.proven_nodes)} kinds of nodes registered)" if report.proven_nodes else ""
    )
    return f"hpcmgr: {counts or 'nothing wrong'}; {proven}{nodes}"


@contextmanager
def _ended_cleanly() -> Iterator[None]:
    """SIGTERM ends the daemons and removes their directory, as Ctrl-C does."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        del frame
        signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
