"""``hpcmgr serve``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--check", is_flag=True, help="Check site.yaml and the profiles, then exit.")
@click.pass_obj
def command(config: Path | None, check: bool) -> int:
    """Run the scoring service in the foreground, as SlurmUser (systemd runs it so).

    It answers job_submit.lua on service.socket, refreshes its picture of the cluster from Slurm,
    and binds jobs that were held while it was away.
    """
    from hpcmgr.service.knowledge import policy_of
    from hpcmgr.service.server import serve
    from hpcmgr.settings import load_site
    from hpcmgr.slurm.backend import open_reader

    policy = policy_of(load_site(config))
    site = policy.site
    if check:
        open_reader(site.slurm.reader, site.slurm.conf_dir)
        click.echo(f"good: {len(policy.library.profiles)} profiles, {len(site.classes)} classes")
        return 0
    serve(policy)
    return 0
