"""``hpcmgr unpin``."""

from __future__ import annotations

import re

import click

_JOB = re.compile(r"\d{1,10}(_\d+)?")


@click.command()
@click.argument("job_id", metavar="JOBID")
def command(job_id: str) -> int:
    """Let a pinned job move again.

    The job's owner and administrators may.
    """
    from hpcmgr.errors import UsageProblem
    from hpcmgr.service.pins import set_pin

    if not _JOB.fullmatch(job_id):
        raise UsageProblem(f"{job_id!r} is no job id", "for example 1234 or 1234_5")
    click.echo(set_pin(job_id, pinned=False))
    return 0
