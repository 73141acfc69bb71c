"""``hpcmgr explain``."""

from __future__ import annotations

import json
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

    From the job's own admin_comment, and from the service's journal: its file where it can be read,
    else through the service's door, which shows each user the records of his own jobs.
    """
    from hpcmgr.service.story import tell
    from hpcmgr.settings import load_site

    story = tell(load_site(config), job_or_trace)
    if story.silence:
        click.echo(f"hpcmgr: only what the job itself tells: {story.silence}", err=True)
        if story.hint:
            click.echo(f"hpcmgr: hint: {story.hint}", err=True)
    if as_json:
        told = {
            "schema": SCHEMA,
            "job": story.comment or None,
            "journal": story.records,
            "journal_missing": story.silence or None,
        }
        click.echo(json.dumps(told, indent=2))
    else:
        _present(story.comment, story.records)
    if not story.comment and not story.records:
        click.echo(f"hpcmgr: the journal has no record of {job_or_trace}", err=True)
        return 1
    return 4 if story.asked else 0


def _present(comment: dict[str, Any], records: list[dict[str, Any]]) -> None:
    if comment:
        _present_job(comment)
    for record in records:
        _present_record(record)


def _present_job(comment: dict[str, Any]) -> None:
    request = comment.get("request")
    if isinstance(request, dict):  # held: the fields of the job, still to be bound
        request = request.get("tres_per_node") or request.get("tres_per_task")
    click.echo(f"request  {request}")
    click.echo(f"state    {comment.get('state')}, trace {comment.get('trace')}")
    if comment.get("error"):  # refused: it stays held until its user cancels it
        click.echo(f"why      {comment['error']}")
    binding = comment.get("binding")
    if isinstance(binding, dict) and "gres" in binding:
        near = "enforced" if binding.get("enforced") else "not enforced"
        beside = binding.get("beside")
        others = beside.items() if isinstance(beside, dict) else ()
        more = "".join(f" + {count} x {gres}" for gres, count in others)
        click.echo(
            f"binding  {binding.get('devices')} x {binding['gres']}{more} "
            f"per {binding.get('per')}: {binding.get('units')} units, {binding.get('vram')} GiB; "
            f"cores near the devices {near}"
        )


def _present_record(record: dict[str, Any]) -> None:
    from hpcmgr.cli.candidates import HEAD, candidate_rows, term_rows
    from hpcmgr.cli.console import table

    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record["at"]))
    click.echo(f"\n{when}  {record['kind']}: {record['request']}")
    for line in record.get("messages") or [record.get("error", "")]:
        click.echo(f"  {line}")
    rows = candidate_rows(record)
    if rows:
        table(HEAD, rows)
    terms = term_rows(record)
    if terms:
        table(terms[0], terms[1:])
