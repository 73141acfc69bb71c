"""``hpcmgr capacity --fit``: what a request would get now, else when at the earliest."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import click

from hpcmgr.admit import Decision, decide
from hpcmgr.capacity import Picture
from hpcmgr.capacity.fit import Offer, limited, offers
from hpcmgr.errors import UsageProblem
from hpcmgr.slurm.hostlist import fold
from hpcmgr.slurm.jobs import seconds_of
from hpcmgr.slurm.testonly import Answer, ask
from hpcmgr.slurm.tres import parse_count
from hpcmgr.submit.request import EXCLUSIVE, JobFields, read_fields

SCHEMA = "hpcmgr.fit/1"
_NOW_S = 60.0
"""A start within this time is one at once: Slurm's main cycle may come once a minute."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageProblem(
            f"--fit: {message}", "for example --fit 'compute:train:16 -N2 -p gpu -t 1:00:00'"
        )


def _parser() -> _Parser:
    """sbatch's options that say where and how large a job is, by job_desc's names."""
    parser = _Parser(prog="--fit", add_help=False, allow_abbrev=False)
    parser.add_argument("request")
    parser.add_argument("-N", "--nodes", dest="min_nodes", type=int)
    parser.add_argument("-n", "--ntasks", dest="num_tasks", type=int)
    parser.add_argument("--ntasks-per-node", dest="ntasks_per_node", type=int)
    parser.add_argument("-c", "--cpus-per-task", dest="cpus_per_task", type=int)
    parser.add_argument("--mem", dest="min_mem_per_node")
    parser.add_argument("-t", "--time", dest="time")
    parser.add_argument("-p", "--partition", dest="partition")
    parser.add_argument("-A", "--account", dest="account")
    parser.add_argument("-q", "--qos", dest="qos")
    parser.add_argument("-C", "--constraint", dest="features")
    parser.add_argument("-w", "--nodelist", dest="req_nodes")
    parser.add_argument("-x", "--exclude", dest="exc_nodes")
    parser.add_argument("--reservation", dest="reservation")
    parser.add_argument("--exclusive", dest="shared", action="store_const", const=EXCLUSIVE)
    return parser


@dataclass(frozen=True)
class Fit:
    """A request as it was written, as fields of a job, and as options of sbatch."""

    text: str
    fields: JobFields
    options: tuple[str, ...]


def read_fit(text: str) -> Fit:
    """``compute:train:16 -N2`` → a request.

    Raises:
        UsageProblem: no request, or an option that does not belong here.
    """
    try:
        words = [word.removeprefix("--gres=") for word in shlex.split(text)]
    except ValueError as error:
        raise UsageProblem(f"--fit: {error}", "close the quotes") from error
    found = vars(_parser().parse_args(words))
    request = str(found.pop("request"))
    fields = {name: value for name, value in found.items() if value is not None}
    fields.pop("time", None)
    if "min_mem_per_node" in fields:
        memory = str(fields["min_mem_per_node"])
        count = parse_count(memory if memory[-1:].isalpha() else f"{memory}M")
        if count is None:
            raise UsageProblem(f"--fit: --mem={memory} is no size", "for example --mem=16G")
        fields["min_mem_per_node"] = count >> 20
    if "min_nodes" in fields:
        fields["max_nodes"] = fields["min_nodes"]
    fields |= {"tres_per_node": request, "batch": True}
    words.remove(request)
    return Fit(text, read_fields(fields), (f"--gres={request}", *words))


def fit(picture: Picture, wanted: Fit, ask_slurm: Callable[..., Answer] = ask) -> dict[str, Any]:
    """The answer as plain data (``hpcmgr.fit/1``)."""
    policy, view = picture.classes.policy, picture.classes.view
    decision = decide(wanted.fields, policy, view, {}, "fit")
    whole = wanted.fields.exclusive or view.gives_whole_nodes(wanted.fields.string("partition"))
    found = offers(picture, decision.ranked, wanted.fields.nodes, whole=whole)
    slurm = ask_slurm(wanted.options) if decision.rewrite else Answer(failed="not asked")
    best = found[0] if found else None
    return {
        "schema": SCHEMA,
        "request": wanted.text,
        "taken": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(picture.taken)),
        "age_s": round(picture.age, 3),
        "error": decision.error or None,
        "nodes": wanted.fields.nodes,
        "becomes": _becomes(best) if best else None,
        "messages": list(decision.rewrite.messages) if decision.rewrite else [],
        **_start(picture, best, slurm),
        "slurm": {
            "start": slurm.start or None, "nodes": slurm.nodes or None,
            "partition": slurm.partition or None, "failed": slurm.failed or None,
        },
        "types": [_type(offer, wanted.fields.nodes) for offer in found],
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
