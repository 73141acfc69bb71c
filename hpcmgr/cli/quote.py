"""``hpcmgr quote``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hpcmgr.admit import Decision

SCHEMA = "hpcmgr.quote/1"


@click.command()
@click.argument("request")
@click.option("--nodes", "-N", type=click.IntRange(1, 65_536), default=1, help="Nodes to ask for.")
@click.option("--partition", "-p", default="", help="Partition to ask in.")
@click.option("--idle", is_flag=True, help="Against the inventory alone; needs no Slurm.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_obj
def command(
    config: Path | None, request: str, nodes: int, partition: str, idle: bool, as_json: bool
) -> int:
    """Show what REQUEST would become, with every candidate and its terms; submits nothing.

    REQUEST is what --gres takes: compute:8, compute:npu:16, compute:8,vram:each:40G.
    """
    import time

    from hpcmgr.admit import decide, make_policy
    from hpcmgr.configure import idle_state, library_of
    from hpcmgr.service.journal import describe
    from hpcmgr.settings import load_site
    from hpcmgr.slurm.reader import read_cluster
    from hpcmgr.submit.request import read_fields
    from hpcmgr.submit.view import make_view

    site = load_site(config)
    library = library_of(site)
    state = idle_state(site) if idle else read_cluster(time.monotonic())
    fields: dict[str, str | int] = {"tres_per_node": request, "min_nodes": nodes}
    if partition:
        fields["partition"] = partition
    decision = decide(
        read_fields(fields), make_policy(site, library), make_view(state, library), {}, "quote"
    )
    if as_json:
        click.echo(json.dumps({"schema": SCHEMA, **describe(decision)}, indent=2))
    else:
        _present(decision)
    return 1 if decision.error else 0


def _present(decision: Decision) -> None:
    from hpcmgr.cli.console import table

    if decision.error:
        click.echo(f"refused: {decision.error}")
    elif decision.rewrite is None:
        click.echo("nothing to rewrite: no neutral units and no devices in it")
        return
    else:
        for line in decision.rewrite.messages:
            click.echo(line)
    rows = [
        [
            c.profile.name,
            f"{c.devices} x {c.gres}",
            str(c.units),
            str(c.vram_gib),
            str(len(c.nodes)),
            f"{c.score:.2f}",
            " ".join(f"{name}={value:.2f}" for name, value in c.terms.items()),
        ]
        for c in decision.ranked
    ]
    rows += [[c.profile.name, "-", "", "", "", "", c.refused] for c in decision.refused]
    if rows:
        table(["profile", "becomes", "units", "GiB", "nodes", "score", "terms, or why not"], rows)
