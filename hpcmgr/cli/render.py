"""``hpcmgr render``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the files into this directory; without it they are printed.",
)
@click.pass_obj
def command(config: Path | None, out: Path | None) -> int:
    """Render Slurm's files from the inventory, the profiles and site.yaml."""
    from hpcmgr.configure import cluster_files
    from hpcmgr.files import write_atomically
    from hpcmgr.settings import load_site

    files = cluster_files(load_site(config))
    if out is None:
        for name, text in files.items():
            click.echo(f"### {name}\n{text}")
        return 0
    for name, text in files.items():
        changed = write_atomically(out / name, text)
        click.echo(f"{out / name}: {'written' if changed else 'unchanged'}", err=True)
    return 0
