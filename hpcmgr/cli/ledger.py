"""``hpcmgr ledger``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hpcmgr.ledger import Event, Ledger, Record
    from hpcmgr.settings import Site

SCHEMA = "hpcmgr.ledger/1"

EPILOG = """\b
Filters: FIELD OPERATOR VALUE, all of which must hold; quote the whole for the shell:
  hpcmgr ledger 'driver<550 vendor=nvidia node=gpu[01-04]'
  hpcmgr ledger 'model~910b state=gone last>=2026-03'
Operators: = != < <= > >= and ~ (regular expression). '-' as value: unknown.
Versions are compared as versions, nodes are hostlists. Fields: docs/ledger.md, or a wrong one."""


@click.command(epilog=EPILOG)
@click.argument("query", nargs=-1)
@click.option("--history", metavar="SERIAL", help="What happened to the device of that serial "
              "number or uuid (or id), oldest first.")  # fmt: skip
@click.option("--update", is_flag=True, help="Take the nodes' inventories in (on the controller).")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="As CSV, with every field.")
@click.pass_obj
def command(
    config: Path | None,
    query: tuple[str, ...],
    history: str | None,
    update: bool,
    as_json: bool,
    as_csv: bool,
) -> int:
    """Every device ever seen: serial number, place, driver, firmware, owner, first and last seen.

    It is filled from the inventories that nodes publish, by --update.

    Exit codes: 0 good, 1 error, 2 usage, 4 an inventory could not be taken in.
    """
    from hpcmgr.errors import UsageProblem
    from hpcmgr.ledger import Ledger, matches, parse
    from hpcmgr.settings import load_site

    conditions = parse(" ".join(query))
    if as_json and as_csv:
        raise UsageProblem("--json or --csv, not both")
    if history is not None and conditions:
        raise UsageProblem("a filter or --history, not both")
    site = load_site(config)
    ledger = Ledger(site.ledger)
    code = _update(ledger, site) if update else 0
    if update and not (conditions or history or as_json or as_csv):
        return code
    if history is not None:
        _history(ledger, history, as_json=as_json, as_csv=as_csv)
        return code
    records = list(filter(matches(conditions), ledger.records()))
    if as_json:
        _print_json(ledger, [(record, None) for record in records], [str(c) for c in conditions])
    elif as_csv:
        _print_csv(records)
    else:
        _print_table(records)
    _remarks(ledger, records, site)
    return code


def _tell(text: str) -> None:
    click.echo(f"hpcmgr: {text}", err=True)


def _update(ledger: Ledger, site: Site) -> int:
    import time

    from hpcmgr.ledger import read_inventories, take_in

    reading = read_inventories(site.inventory)
    summary = take_in(ledger, reading, site, time.time())
    for message in reading.broken.values():
        _tell(f"left out: {message}")
    for note in summary.notes:
        _tell(f"note: {note}")
    counts = ", ".join(f"{count} {what}" for what, count in sorted(summary.counts.items()))
    _tell(
        f"{summary.present} devices of {summary.nodes} nodes taken into {ledger.path}; "
        f"{counts or 'nothing changed'}"
    )
    return 4 if reading.broken else 0


def _remarks(ledger: Ledger, records: list[Record], site: Site) -> None:
    """What a reader must know about what was printed."""
    if not records:
        _tell("no device matches")
    double = sum(bool(record.note) for record in records)
    if double:
        _tell(f"{double} of these have a serial number or uuid that others have, too: see 'note'")
    unnamed = sum(record.serial is None and record.uuid is None for record in records)
    if unnamed:
        _tell(
            f"{unnamed} of these have neither serial number nor uuid: they are known by their "
            "place, and a swap for an equal one is not noticed"
        )
    updated = ledger.updated() or 0.0
    try:
        times = [p.stat().st_mtime for p in site.inventory.glob("*.json")]
    except OSError:
        return
    newer = sum(time > updated for time in times)
    if newer:
        _tell(f"{newer} nodes have synced since the last update: hpcmgr ledger --update")


def _history(ledger: Ledger, wanted: str, *, as_json: bool, as_csv: bool) -> None:
    from hpcmgr.errors import LedgerError

    records = ledger.records()
    folded = wanted.casefold()
    found = [
        r
        for r in records
        if folded in ((r.serial or "").casefold(), (r.uuid or "").casefold(), str(r.id))
    ]
    if not found:
        raise LedgerError(f"the ledger has no device {wanted!r}", _near(wanted, records))
    stories = [(record, ledger.events(record.id or 0)) for record in found]
    if as_json:
        _print_json(ledger, [*stories], None)
    elif as_csv:
        _print_events_csv(stories)
    else:
        for record, events in stories:
            _print_story(record, events)


def _near(wanted: str, records: list[Record]) -> str:
    import difflib

    known = [name for record in records for name in (record.serial, record.uuid) if name]
    near = difflib.get_close_matches(wanted, known, n=3)
    return f"did you mean {' or '.join(near)}?" if near else "a serial number, a uuid or an id"


def _print_story(record: Record, events: list[Event]) -> None:
    name = record.serial or record.uuid or f"id {record.id}"
    click.echo(f"{record.model}, {name}: {record.state}, last in {record.node} at {record.key}")
    if record.note:
        click.echo(f"  {record.note}")
    for event in events:
        click.echo(f"  {_clock(event.at)}  {event.node}: {event.text}")


def _print_table(records: list[Record]) -> None:
    from hpcmgr.cli.console import table

    rows = [
        [
            record.serial or record.uuid or "-",
            record.model,
            record.node,
            record.key,
            record.driver or "-",
            record.firmware or "-",
            record.health,
            record.project or record.department or record.pool or "-",
            _clock(record.first)[:10],
            _clock(record.last)[:16],
            record.state,
        ]
        for record in records
    ]
    headers = ["serial", "model", "node", "place", "driver", "firmware", "health", "owner",
               "first", "last", "state"]  # fmt: skip
    table(headers, rows)


def _print_json(
    ledger: Ledger, stories: list[tuple[Record, list[Event] | None]], query: list[str] | None
) -> None:
    updated = ledger.updated()
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "updated": None if updated is None else _clock(updated),
        "query": query,
        "devices": [
            {
                **_plain(record),
                **(
                    {}
                    if events is None
                    else {
                        "events": [
                            {"at": _clock(e.at), "what": e.what, "node": e.node, "text": e.text}
                            for e in events
                        ]
                    }
                ),
            }
            for record, events in stories
        ],
    }
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def _print_csv(records: list[Record]) -> None:
    import csv
    import sys

    from hpcmgr.ledger import FIELDS

    writer = csv.DictWriter(sys.stdout, list(FIELDS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(_plain(record) for record in records)


def _print_events_csv(stories: list[tuple[Record, list[Event]]]) -> None:
    import csv
    import sys

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["id", "serial", "uuid", "at", "what", "node", "text"])
    for record, events in stories:
        writer.writerows(
            [record.id, record.serial, record.uuid, _clock(e.at), e.what, e.node, e.text]
            for e in events
        )


def _plain(record: Record) -> dict[str, object]:
    from hpcmgr.ledger import FIELDS
    from hpcmgr.ledger.query import shown

    return {name: shown(record, name) for name in FIELDS}


def _clock(seconds: float) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(seconds).isoformat(sep=" ", timespec="seconds")
