"""``hpcmgr explain``."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import click

SCHEMA = "hpcmgr.explain/1"


@click.command()
@click.argument("job_or_trace", metavar="JOBID|TRACE")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_obj
def command(config: Path | None, job_or_trace: str, as_json: bool) -> int:
    """Tell the story of a job's binding.

    From the job's own admin_comment, and from the service's journal where it can be read.
    """
    from hpcmgr.errors import ServiceError, UsageProblem
    from hpcmgr.service.binder import read_admin_comment
    from hpcmgr.service.journal import read
    from hpcmgr.settings import load_site
    from hpcmgr.submit.rewrite import MARK

    site = load_site(config)
    comment: dict[str, Any] = {}
    trace = job_or_trace
    if re.fullmatch(r"\d+(_\d+|\+\d+)?", job_or_trace):
        text = read_admin_comment(job_or_trace)
        if not text.startswith(MARK):
            raise UsageProblem(f"job {job_or_trace} was not bound by hpcmgr")
        comment = json.loads(text.removeprefix(MARK))
        trace = str(comment.get("trace", ""))
    elif not re.fullmatch(r"[a-z]-[0-9a-f]+", job_or_trace):
        raise UsageProblem(
            f"{job_or_trace!r} is neither a job id nor a trace", "for example 1234 or t-9f3c2a1b"
        )
    try:
        records = list(read(site.service.state_dir / "journal.sqlite", trace=trace))
    except (ServiceError, OSError) as error:
        if not comment:
            raise
        click.echo(f"hpcmgr: the journal cannot be read here: {error}", err=True)
        records = []
    if as_json:
        story = {"schema": SCHEMA, "job": comment or None, "journal": records}
        click.echo(json.dumps(story, indent=2))
        return 0
    _present(comment, records)
    return 0


def _present(comment: dict[str, Any], records: list[dict[str, Any]]) -> None:
    from hpcmgr.cli.console import table

    if comment:
        binding = comment.get("binding") or {}
        click.echo(f"request  {comment.get('request')}")
        click.echo(f"state    {comment.get('state')}, trace {comment.get('trace')}")
        if binding:
            near = "enforced" if binding.get("enforced") else "not enforced"
            click.echo(
                f"binding  {binding['devices']} x {binding['gres']} per {binding['per']}: "
                f"{binding['units']} units, {binding['vram']} GiB; cores near the devices {near}"
            )
    for record in records:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record["at"]))
        click.echo(f"\n{when}  {record['kind']}: {record['request']}")
        for line in record["messages"] or [record["error"]]:
            click.echo(f"  {line}")
        rows = [
            [c["profile"], "", c["refused"]]
            if "refused" in c
            else [
                c["profile"],
                f"{c['score']:.2f}",
                " ".join(f"{k}={v:.2f}" for k, v in c["terms"].items()),
            ]
            for c in record["candidates"]
        ]
        if rows:
            table(["profile", "score", "terms, or why not"], rows)
