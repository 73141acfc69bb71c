"""``hpcmgr sync``."""

from __future__ import annotations

from pathlib import Path

import click

NODE_DIR = Path("/etc/hpcmgr")


@click.command()
@click.option(
    "--host",
    type=click.Path(path_type=Path, exists=True),
    help="Take this recorded host for the machine.",
)
@click.option("--node", help="This node's name in Slurm; default: its short host name.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, write nothing.")
@click.option(
    "--accept", is_flag=True, help="Take the loss of all devices since the last sync for true."
)
@click.pass_obj
def command(
    config: Path | None, host: Path | None, node: str | None, dry_run: bool, accept: bool
) -> int:
    """On a compute node: discover, publish the inventory, write node-local files.

    A source that is broken makes the result partial (exit 4): nothing is published then, so that
    the node keeps what it last had.
    """
    from hpcmgr.configure import inventory_of, node_files
    from hpcmgr.discovery import open_host
    from hpcmgr.files import write_atomically
    from hpcmgr.inventory.store import load, node_path, save
    from hpcmgr.settings import load_site

    site = load_site(config)
    inventory = inventory_of(open_host(host), site, node)
    if inventory.broken_sources:
        for source in inventory.broken_sources:
            click.echo(f"hpcmgr: {source.name} is broken: {source.detail}", err=True)
        click.echo("hpcmgr: nothing published: the node keeps its last inventory", err=True)
        return 4
    path = node_path(site.inventory, inventory.node)
    before = load(path) if path.exists() else None
    if before and before.devices and not inventory.devices and not accept:
        click.echo(
            f"hpcmgr: error: all {len(before.devices)} devices of {inventory.node} are gone since "
            "the last sync; nothing published\n"
            "hpcmgr: hint: look at the driver; if it is true, run 'hpcmgr sync --accept'",
            err=True,
        )
        return 3
    files = node_files(inventory, site)
    if dry_run:
        click.echo(f"would publish {path}", err=True)
        for name in files:
            click.echo(f"would write {NODE_DIR / name}", err=True)
        return 0
    save(inventory, site.inventory)
    for name, text in files.items():
        mode = 0o755 if name.endswith(".sh") else 0o644
        write_atomically(NODE_DIR / name, text, mode)
    click.echo(f"{inventory.node}: {len(inventory.devices)} devices, {path}", err=True)
    return 0
