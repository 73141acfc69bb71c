"""``hpcmgr capacity --fit``: what a request would get now, else when at the earliest."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import click

from hpcmgr.admit import Decision, decide
from hpcmgr.capacity import Picture
from hpcmgr.capacity.fit import Offer, limited, offers
from hpcmgr.cli.sbatchline import Line
from hpcmgr.slurm.hostlist import fold
from hpcmgr.slurm.jobs import seconds_of
from hpcmgr.slurm.testonly import Answer, ask
from hpcmgr.slurm.upcoming import Upcoming, next_on
from hpcmgr.submit.request import read_fields

SCHEMA = "hpcmgr.fit/1"
_NOW_S = 60.0
"""A start within this time is one at once: Slurm's main cycle may come once a minute."""


def fit(
    picture: Picture,
    wanted: Line,
    ask_slurm: Callable[..., Answer] = ask,
    next_reservation: Callable[[Collection[str]], Upcoming | None] = next_on,
) -> dict[str, Any]:
    """The answer as plain data (``hpcmgr.fit/1``)."""
    policy, view = picture.classes.policy, picture.classes.view
    fields = read_fields({**wanted.fields, "user_name": picture.scope.user})
    decision = decide(fields, policy, view, {}, "fit")
    whole = fields.exclusive or view.gives_whole_nodes(fields.string("partition"))
    found = offers(picture, decision.ranked, fields.nodes, whole=whole)
    slurm = Answer(failed="not asked") if decision.error else ask_slurm(wanted.options)
    best = found[0] if found else None
    soon = next_reservation(best.now) if best and best.now else None
    if soon and not _within(soon, fields.number("time_limit"), picture.taken):
        soon = None
    told = _start(picture, best, slurm, soon)
    return {
        "schema": SCHEMA,
        "request": wanted.text,
        "taken": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(picture.taken)),
        "age_s": round(picture.age, 3),
        "error": decision.error or None,
        "nodes": fields.nodes,
        "becomes": _becomes(best) if best else None,
        "messages": list(decision.rewrite.messages) if decision.rewrite else [],
        **told,
        "why": _why(picture, best, told, soon),
        "slurm": {
            "start": slurm.start or None, "nodes": slurm.nodes or None,
            "partition": slurm.partition or None, "failed": slurm.failed or None,
        },
        "types": [_type(offer, fields.nodes) for offer in found],
        "refused": _refused(decision),
    }  # fmt: skip


def _within(reservation: Upcoming, limit: int | None, now: float) -> bool:
    """Whether it begins before a job of so many minutes would end; without a limit it does."""
    begins = seconds_of(reservation.start)
    return limit is None or (begins is not None and begins < now + 60.0 * limit)


def _start(
    picture: Picture, best: Offer | None, slurm: Answer, reservation: Upcoming | None
) -> dict[str, Any]:
    """Slurm's answer where it is one, else that of the running jobs' limits. ``fits_now``: the
    devices are free (None: that is not known); ``ahead``: jobs that wait for the same devices.

    Slurm adds up the time limits of all jobs of the partition that wait with no lower priority, for
    whatever reason, as if they ran one after the other (24.11 and 26.05): where none of them wants
    these devices, and no reservation is near, its answer says nothing.
    """
    fits = None if best is None else best.start is not None and best.start <= picture.taken
    ahead = _ahead(picture, best) if best else 0
    queue = sum(job.tasks for job in picture.jobs if job.waits and job.priority)
    begins = seconds_of(slurm.start) if slurm.start else None
    now = begins is not None and begins <= picture.taken + _NOW_S
    only_slurm = reservation or ahead or not queue or not best or best.start is None
    if begins is not None and (now or only_slurm):
        rough = f", added up for the {queue} jobs that wait" if queue and not now else ""
        return {
            "fits_now": fits,
            "start": slurm.start,
            "start_now": now,
            "on": slurm.nodes,
            "estimate": True,
            "basis": f"Slurm itself (sbatch --test-only): time limits and the jobs ahead{rough}",
            "ahead": ahead,
        }
    words = f"the time limits of {limited(picture)} running jobs"
    others = "no waiting job asks for these devices" if best and not ahead else (
        "jobs ahead in the queue are not counted")  # fmt: skip
    start = _clock(best.start) if best and best.start is not None else None
    return {
        "fits_now": fits,
        "start": reservation.end if fits and reservation else start,
        "start_now": bool(fits and not reservation),
        "on": fold(best.nodes) if best and best.nodes else None,
        "estimate": True,
        "basis": f"{words}; {others}",
        "ahead": ahead,
    }


def _ahead(picture: Picture, best: Offer) -> int:
    """Jobs whose turn it is and that may want the same devices; of any type, or not bound yet."""
    wanted = {part.gres for part in best.candidate.parts}
    wanted |= {gres.partition(":")[0] for gres in wanted}
    return sum(
        job.tasks
        for job, gres in picture.demand.jobs
        if job.queued and (not gres or not wanted.isdisjoint(gres))
    )


def _why(
    picture: Picture,
    best: Offer | None,
    told: Mapping[str, Any],
    reservation: Upcoming | None,
) -> str | None:
    """Why it does not start though its devices are free, or starts though they are not."""
    if best is None or told["fits_now"] is told["start_now"]:
        return None
    if told["start_now"]:
        if picture.controller.preempt_by:
            return "Slurm would stop other jobs for it"
        return "Slurm sees room for it that is not counted here"
    if reservation:
        begins = reservation.start.replace("T", " ")
        return (
            f"reservation {reservation.name} takes {reservation.nodes} at {begins}, and by its "
            "time limit the job may run longer (a shorter --time may start at once)"
        )
    if told["ahead"]:
        return f"{told['ahead']} jobs that wait for such devices may come first"
    return "Slurm does not say why: a limit of account or QOS, or a node kept for another job"


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
    """What it would get now, else when; never two answers that do not go together."""
    why = f": {told['why']}" if told["why"] else ""
    if told["start_now"]:
        free = "its devices are free" if told["fits_now"] else "its devices are not free"
        start = f"would start at once, on {told['on']}"
        return start if told["fits_now"] is None else f"{start}; {free}{why}"
    wait = "its devices are free, and it would wait" if told["fits_now"] else "not now"
    if told["start"] is None:
        return f"{wait}{why}; no running job's end makes room for it"
    start = f"would start ~{told['start'].replace('T', ' ')} (estimate), on {told['on']}"
    return f"{wait}{why}; {start}"


def _named(each: dict[str, Any]) -> str:
    return " + ".join(f"{part['devices']} x {part['gres']}" for part in each["gres"])


def _when(each: dict[str, Any]) -> str:
    if each["now"]:
        return "now"
    return f"~{each['start'].replace('T', ' ')}" if each["start"] else "?"
