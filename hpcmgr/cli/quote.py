"""``hpcmgr quote``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hpcmgr.settings import Site
    from hpcmgr.submit.request import Field

SCHEMA = "hpcmgr.quote/1"


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="REQUEST [SBATCH OPTIONS]")
@click.option("--idle", is_flag=True, help="Against the inventory alone; needs no Slurm.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.pass_obj
def command(config: Path | None, words: tuple[str, ...], idle: bool, as_json: bool) -> int:
    """Show what REQUEST would become, with every candidate and its terms; submits nothing.

    REQUEST is what --gres takes: compute:8, compute:npu:16, compute:8,vram:each:40G. It may be
    followed by sbatch's own options, in one word or several: 'compute:16 -N2 -t 60'. These are -N
    -n -c -t -p -A -q -C -w -x -a -G -L -s, --mem, --mem-per-cpu, --mincpus, --ntasks-per-node,
    --tres-per-task, --exclusive, --reservation, --gres-flags and others that say what a job needs;
    and SBATCH_TIMELIMIT, SBATCH_PARTITION and the like in the environment.

    The service is asked at its door where there is one; else the answer is worked out here from
    Slurm's state.
    """
    from hpcmgr.cli.sbatchline import read_line
    from hpcmgr.settings import load_site

    fields = dict(read_line(words).fields)
    site = load_site(config)
    quote = None if idle else _of_service(site, fields)
    if quote is None:
        quote = _worked_out(site, fields, idle=idle)
    if as_json:
        click.echo(json.dumps({"schema": SCHEMA, **quote}, indent=2))
    else:
        _present(quote)
    return 1 if quote["error"] else 0


def _of_service(site: Site, fields: dict[str, Field]) -> dict[str, Any] | None:
    """The service's answer; None where it has no door or does not answer."""
    from hpcmgr.errors import CommandError, CredentialError, ServiceError
    from hpcmgr.service.askdoor import ask

    if site.service.door is None:
        return None
    try:
        job = {name: value for name, value in fields.items() if name != "batch"}
        answer = ask(site.service.door, {"op": "quote", "job": job})
        return {"source": "service", "age_s": answer.get("age_s"), **answer["quote"]}
    except (ServiceError, CredentialError, CommandError) as error:
        click.echo(f"hpcmgr: worked out here from Slurm's state: {error.message}", err=True)
    except (LookupError, TypeError):
        click.echo("hpcmgr: worked out here: the service's answer was not understood", err=True)
    return None


def _worked_out(site: Site, fields: dict[str, Field], *, idle: bool) -> dict[str, Any]:
    import contextlib
    import os
    import pwd
    import time

    from hpcmgr.admit import decide
    from hpcmgr.configure import idle_state
    from hpcmgr.service.journal import describe
    from hpcmgr.service.knowledge import known_of, policy_of
    from hpcmgr.slurm.backend import open_reader
    from hpcmgr.slurm.reader import with_accounts
    from hpcmgr.submit.request import read_fields
    from hpcmgr.submit.view import make_view

    policy = policy_of(site)
    started = time.monotonic()
    read = open_reader("commands" if idle else site.slurm.reader, site.slurm.conf_dir)
    state = idle_state(site) if idle else with_accounts(read(started))
    view = make_view(state, policy.library, known_of(site, policy.library))
    with contextlib.suppress(KeyError):
        fields = {**fields, "user_name": pwd.getpwuid(os.getuid()).pw_name}
    decision = decide(read_fields(fields), policy, view, {}, "quote")
    source = {"source": "inventory"} if idle else {"source": "slurm"}
    age = None if idle else round(time.monotonic() - started, 3)
    return {**source, "age_s": age, **describe(decision)}


def _present(quote: dict[str, Any]) -> None:
    from hpcmgr.cli.candidates import HEAD, candidate_rows, term_rows
    from hpcmgr.cli.console import table

    if quote["error"]:
        click.echo(f"refused: {quote['error']}")
    elif not quote["binding"] and not quote["messages"]:
        click.echo("nothing to rewrite: no neutral units and no devices in it")
        return
    for line in quote["messages"]:
        click.echo(line)
    rows = candidate_rows(quote)
    if rows:
        table(HEAD, rows)
    terms = term_rows(quote)
    if terms:
        click.echo()
        table(terms[0], terms[1:])
    if any(candidate.get("estimated") for candidate in quote["candidates"]):
        click.echo("~ estimated from the units: nobody has measured it")
