"""``hpcmgr capacity --fit``: what a request would get now, else when at the earliest."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from hpcmgr.admit import Decision, decide
from hpcmgr.capacity import Picture
from hpcmgr.capacity.fit import Offer, limited, offers
from hpcmgr.cli.sbatchline import Line
from hpcmgr.slurm.hostlist import fold
from hpcmgr.slurm.jobs import seconds_of
from hpcmgr.slurm.testonly import Answer, ask
from hpcmgr.submit.request import read_fields

SCHEMA = "hpcmgr.fit/1"
_NOW_S = 60.0
"""A start within this time is one at once: Slurm's main cycle may come once a minute."""


def fit(picture: Picture, wanted: Line, ask_slurm: Callable[..., Answer] = ask) -> dict[str, Any]:
    """The answer as plain data (``hpcmgr.fit/1``)."""
    policy, view = picture.classes.policy, picture.classes.view
    fields = read_fields({**wanted.fields, "user_name": picture.scope.user})
    decision = decide(fields, policy, view, {}, "fit")
    whole = fields.exclusive or view.gives_whole_nodes(fields.string("partition"))
    found = offers(picture, decision.ranked, fields.nodes, whole=whole)
    slurm = ask_slurm(wanted.options) if decision.rewrite else Answer(failed="not asked")
    best = found[0] if found else None
    return {
        "schema": SCHEMA,
        "request": wanted.text,
        "taken": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(picture.taken)),
        "age_s": round(picture.age, 3),
        "error": decision.error or None,
        "nodes": fields.nodes,
        "becomes": _becomes(best) if best else None,
        "messages": list(decision.rewrite.messages) if decision.rewrite else [],
        **_start(picture, best, slurm),
        "slurm": {
            "start": slurm.start or None, "nodes": slurm.nodes or None,
            "partition": slurm.partition or None, "failed": slurm.failed or None,
        },
        "types": [_type(offer, fields.nodes) for offer in found],
        "refused": _refused(decision),
    }  # fmt: skip


def _start(picture: Picture, best: Offer | None, slurm: Answer) -> dict[str, Any]:
    """Slurm's answer where there is one, else that of the running jobs' limits. ``fits_now``: the
    devices are free (None: that is not known); the job may still have to wait for its turn."""
    fits = None if best is None else best.start is not None and best.start <= picture.taken
    if slurm.start:
        begins = seconds_of(slurm.start)
        return {
            "fits_now": fits,
            "start": slurm.start,
            "start_now": begins is not None and begins <= picture.taken + _NOW_S,
            "on": slurm.nodes,
            "estimate": True,
            "basis": "Slurm itself (sbatch --test-only): time limits and the jobs ahead",
        }
    return {
        "fits_now": fits,
        "start": _clock(best.start) if best and best.start is not None else None,
        "start_now": bool(fits),
        "on": fold(best.nodes) if best and best.nodes else None,
        "estimate": True,
        "basis": f"the time limits of {limited(picture)} running jobs; jobs ahead in the queue are "
        "not counted",
    }


def _becomes(offer: Offer) -> dict[str, Any]:
    candidate = offer.candidate
    return {
        "gres": [{"gres": part.gres, "devices": part.devices} for part in candidate.parts],
        "units": candidate.units,
        "memory_gib": candidate.vram_gib,
        "per": "task" if candidate.per_task else "node",
    }


def _type(offer: Offer, nodes: int) -> dict[str, Any]:
    return {
        **_becomes(offer),
        "now": len(offer.now) >= nodes,
        "nodes_now": fold(offer.now) or None,
        "start": None if offer.start is None else _clock(offer.start),
        "on": fold(offer.nodes) or None,
        "waits": offer.candidate.waits or None,
    }


def _refused(decision: Decision) -> list[dict[str, str]]:
    return [
        {"gres": candidate.gres, "why": candidate.refused}
        for candidate in decision.refused
        if candidate.refused != "not what was asked for"
    ]


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds))


def present(told: dict[str, Any]) -> None:
    """For people."""
    from hpcmgr.cli.console import table

    if told["error"]:
        click.echo(f"refused: {told['error']}")
    elif told["becomes"] is None:
        click.echo("no neutral units in it: what Slurm itself says of the start stands below")
    for line in told["messages"]:
        click.echo(line)
    if not told["error"]:
        click.echo(_headline(told))
        click.echo(f"  basis: {told['basis']}")
        if told["slurm"]["failed"] not in {None, "not asked"}:
            click.echo(f"  Slurm's own answer was not to be had: {told['slurm']['failed']}")
    rows = [
        [_named(each), str(each["units"]), "yes" if each["now"] else "no",
         each["nodes_now"] or "-", _when(each), each["on"] or "-"]
        for each in told["types"]
    ]  # fmt: skip
    if rows:
        click.echo()
        table(["could be", "units", "fits-now", "on", "earliest", "there"], rows)


def _headline(told: dict[str, Any]) -> str:
    words = {True: "the devices are free now; ", False: "not free now; ", None: ""}
    free = words[told["fits_now"]]
    if told["start"] is None:
        return f"{free}no start can be told: no running job's end makes room for it"
    if told["start_now"]:
        return f"{free}would start at once, on {told['on']}"
    return f"{free}would start ~{told['start'].replace('T', ' ')} (estimate), on {told['on']}"


def _named(each: dict[str, Any]) -> str:
    return " + ".join(f"{part['devices']} x {part['gres']}" for part in each["gres"])


def _when(each: dict[str, Any]) -> str:
    if each["now"]:
        return "now"
    return f"~{each['start'].replace('T', ' ')}" if each["start"] else "?"
