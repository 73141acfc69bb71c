"""``hpcmgr doctor``."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hpcmgr.doctor import Report, SlurmHost
    from hpcmgr.inventory import NodeInventory
    from hpcmgr.inventory.drift import Drift
    from hpcmgr.plan import NodePlan
    from hpcmgr.settings import Site

NODE_DIR = Path("/etc/hpcmgr")


@click.command()
@click.option(
    "--host",
    type=click.Path(path_type=Path, exists=True),
    help="Look at this recorded host instead of the machine.",
)
@click.option("--node", help="This node's name in Slurm; default: its short host name.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_obj
def command(config: Path | None, host: Path | None, node: str | None, as_json: bool) -> int:
    """Say what is wrong here and what to do: node, driver, Slurm, jobs, in this order.

    What is wrong below makes faults above: begin with the first. Versions that nobody could read
    are said to be unknown, never good. Changes nothing; as root it sees more.

    Exit codes: 0 nothing is wrong, 1 an error, 4 something could not be looked at.
    """
    from hpcmgr.configure import inventory_of
    from hpcmgr.discovery import open_host
    from hpcmgr.doctor import examine
    from hpcmgr.profile.site import library_of
    from hpcmgr.settings import load_site

    site = load_site(config)
    machine = open_host(host)
    inventory = inventory_of(machine, site, node)
    drift: Drift | None = None
    problem = ""
    slurm: SlurmHost | None = None
    if host is None:
        drift, problem = _published(inventory, site)
        slurm = _slurm(inventory, site)
    report = examine(machine, inventory, library_of(site), drift, problem, slurm)
    if host is None:
        _add_hindsight(report, site)
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2, ensure_ascii=False))
    else:
        _print(report)
    return report.exit_code


def _add_hindsight(report: Report, site: Site) -> None:
    """Where this user may read the service's journal."""
    import time

    from hpcmgr.doctor import Finding, Layer, Severity
    from hpcmgr.service.hindsight import summary

    text = summary(site.service.state_dir / "journal.sqlite", time.time())
    if text:
        report.findings.append(Finding(Layer.JOB, Severity.NOTE, "late-binding", "service", text))


def _published(inventory: NodeInventory, site: Site) -> tuple[Drift | None, str]:
    """How the host differs from what it published; a host without devices need not publish."""
    from hpcmgr.errors import CredentialError, InventoryError, ServiceError
    from hpcmgr.inventory.drift import compare
    from hpcmgr.service.publishing import place_of

    if inventory.broken_sources:
        # What is missing now is no news: the source is.
        return None, ""
    try:
        last = place_of(site).last(inventory.node)
        if last is None and not inventory.devices:
            return None, ""
        return compare(last, inventory), ""
    except (InventoryError, ServiceError, CredentialError) as error:
        return None, error.message
    except OSError as error:
        return None, f"{site.inventory}: {error.strerror or error}"


def _slurm(inventory: NodeInventory, site: Site) -> SlurmHost:
    from hpcmgr.configure import node_plan
    from hpcmgr.doctor import SlurmHost
    from hpcmgr.errors import PlanError

    plan: NodePlan | None = None
    try:
        # With a broken source the plan would be of half a node.
        plan = None if inventory.broken_sources else node_plan(inventory, site)
    except PlanError as error:
        click.echo(f"hpcmgr: no plan for this node: {error.message}", err=True)
    return SlurmHost(site, inventory.node, plan, NODE_DIR)


def _print(report: Report) -> None:
    from hpcmgr.cli.console import indented, table
    from hpcmgr.doctor import Severity

    if report.software:
        rows = [(s.vendor, s.what, s.version or "unknown", s.where) for s in report.software]
        table(("VENDOR", "WHAT", "VERSION", "WHERE"), rows)
        click.echo()
    for finding in report.findings:
        head = f"{finding.layer.value}: {finding.severity.value}: {finding.text}"
        click.echo(textwrap.fill(head, 100, subsequent_indent="    ", break_on_hyphens=False))
        for line in (finding.why, f"Do: {finding.fix}" if finding.fix else ""):
            if line:
                click.echo(indented(line, width=100))
    for text in report.skipped:
        click.echo(f"hpcmgr: {text}", err=True)
    counts = ((report.count(severity), severity.value) for severity in Severity)
    told = ", ".join(f"{n} {word}" + ("s" if n > 1 and word != "unknown" else "")
                     for n, word in counts if n)  # fmt: skip
    click.echo(f"hpcmgr: {report.node}: {told or 'nothing is wrong'}", err=True)
