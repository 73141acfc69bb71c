"""``hpcmgr rebind``."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hpcmgr.settings import Site

SCHEMA = "hpcmgr.rebind/1"
Row = dict[str, Any]


@click.command()
@click.option("--dry-run", is_flag=True, help="Only show what the next cycle would do.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_obj
def command(config: Path | None, dry_run: bool, as_json: bool) -> int:
    """Run one cycle of late binding now, and tell of every waiting job whether it moves, and why.

    The running service does it (root and SlurmUser may ask it). With --dry-run nothing is changed
    and no service is needed: the answer is worked out here from Slurm's state, without what the
    service has learnt of the accounts' habits.
    """
    from hpcmgr.settings import load_site

    site = load_site(config)
    rows = _worked_out(site) if dry_run else _of_service(site)
    if as_json:
        click.echo(json.dumps({"schema": SCHEMA, "dry_run": dry_run, "jobs": rows}, indent=2))
        return 0
    _present(rows)
    return 0


def _of_service(site: Site) -> list[Row]:
    from hpcmgr.service.askcycle import ask_cycle

    return ask_cycle(site.service.socket)


def _worked_out(site: Site) -> list[Row]:
    from hpcmgr.service.knowledge import known_of, policy_of
    from hpcmgr.service.rebinder import plan_cycle
    from hpcmgr.slurm.backend import open_reader
    from hpcmgr.slurm.queue import read_queue
    from hpcmgr.submit.habit import Habit
    from hpcmgr.submit.view import make_view

    policy = policy_of(site)
    known = known_of(site, policy.library)
    read = open_reader(site.slurm.reader, site.slurm.conf_dir)
    view = make_view(read(time.monotonic()), policy.library, known)
    cycle = plan_cycle(read_queue(), policy, view, Habit(), time.time())
    return list(cycle.rows())


def _present(rows: list[Row]) -> None:
    from hpcmgr.cli.console import table

    if not rows:
        click.echo("no job waits for devices")
        return
    table(
        ["job", "priority", "waits for", "starts", "moves to", "starts there", "why"],
        [
            [row["job"], str(row["priority"]), row["gres"] or "-", _when(row["starts"]),
             row["to"] or "-", _when(row["would_start"]), row["why"]]
            for row in rows
        ],
    )  # fmt: skip


def _when(start: int | None) -> str:
    if start is None:
        return "-"
    wait = start - time.time()
    if wait < 60:
        return "now"
    return time.strftime("%a %H:%M" if wait > 12 * 3600 else "%H:%M", time.localtime(start))
