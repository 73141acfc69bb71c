"""Where the devices of a job lie: the topology that its class wants, and its fallback.

``same_socket`` is had by a form of binding, ``same_switch`` by asking Slurm for one switch; a type
that cannot have it comes after every one that can. Where none can, the class's fallback is tried,
and the user is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hpcmgr.settings import JobClass
from hpcmgr.submit.binding import Binding
from hpcmgr.submit.candidates import Candidate
from hpcmgr.submit.messages import text
from hpcmgr.submit.request import DISABLE_BIND, ENFORCE_BIND, JobFields
from hpcmgr.submit.score import most_below_one_switch

Topology = Literal["same_socket", "same_switch", "spread"]
Bind = Callable[..., Binding]
"""``bind(candidate, one_socket=…)``: the binding of a candidate."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The candidate that is taken, with its binding. ``one_switch``: Slurm is asked for one.
    ``lost``: candidates that cannot have the topology, though others can. With ``why`` nothing is
    taken: no candidate can have it, and the class refuses then."""

    best: Candidate
    binding: Binding
    one_switch: bool = False
    notes: tuple[str, ...] = ()
    ranked: tuple[Candidate, ...] = ()
    lost: tuple[Candidate, ...] = ()
    why: str = ""


def place(
    ranked: Sequence[Candidate], fields: JobFields, job_class: JobClass, bind: Bind
) -> Placed:
    """Choose among ``ranked`` (best first, at least one)."""
    first_why = ""
    for level in _chain(job_class):
        whys = [_why_not(level, c, fields, bind) for c in ranked]
        good = [c for c, why in zip(ranked, whys, strict=True) if not why]
        if good:
            return Placed(
                good[0],
                bind(good[0], one_socket=level == "same_socket"),
                one_switch=level == "same_switch" and fields.nodes > 1,
                notes=(_note(job_class, level, first_why),) if first_why else (),
                ranked=tuple(good),
                lost=tuple(
                    replace(c, refused=why) for c, why in zip(ranked, whys, strict=True) if why
                ),
            )
        first_why = first_why or "; ".join(
            f"{c.gres}: {why}" for c, why in zip(ranked, whys, strict=True)
        )
    return Placed(ranked[0], Binding(), why=first_why)


def _chain(job_class: JobClass) -> list[Topology]:
    """The topologies in the order in which they are tried."""
    wanted: Topology = job_class.topology or "spread"
    if wanted == "spread":
        return ["spread"]
    if job_class.fallback == "refuse":
        return [wanted]
    return list(dict.fromkeys([wanted, job_class.fallback, "spread"]))


def _why_not(level: Topology, candidate: Candidate, fields: JobFields, bind: Bind) -> str:
    """Why a candidate cannot have a topology."""
    if level == "same_socket":
        if fields.flag(ENFORCE_BIND) or fields.flag(DISABLE_BIND):
            return ""  # the user has decided
        if all(pool.sockets == 1 for pool in candidate.pools):
            return ""
        return bind(candidate, one_socket=True).why_not
    if level == "same_switch" and fields.nodes > 1:
        most = most_below_one_switch(candidate)
        if most is None:
            return text("no_switch")
        return "" if most >= fields.nodes else text("few_below", most=most)
    return ""


def _note(job_class: JobClass, level: Topology, why: str) -> str:
    note = f". {job_class.fallback_note}" if job_class.fallback_note else ""
    return text(
        "fallback", wanted=text(job_class.topology or ""), level=text(level), why=why, note=note
    )
