"""Reservations to come, with their times: what keeps a job from nodes that are free."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from hpcmgr.errors import CommandError
from hpcmgr.slurm.command import Output, run
from hpcmgr.slurm.hostlist import members
from hpcmgr.slurm.record import known, parse_record


@dataclass(frozen=True, slots=True)
class Upcoming:
    """A reservation that has not begun; ``start`` and ``end`` in Slurm's local time."""

    name: str
    nodes: str
    start: str
    end: str


def parse_upcoming(text: str) -> Iterator[Upcoming]:
    """Records of ``scontrol -o show reservations`` that are to come, the next one first."""
    records = [parse_record(line) for line in text.splitlines()]
    found = [
        Upcoming(
            record["ReservationName"],
            known(record.get("Nodes", "")),
            record.get("StartTime", ""),
            record.get("EndTime", ""),
        )
        for record in records
        if "ReservationName" in record and record.get("State") != "ACTIVE"
    ]
    yield from sorted(found, key=lambda each: each.start)


def next_on(nodes: Collection[str], runner: Callable[..., Output] = run) -> Upcoming | None:
    """The next reservation of any of these nodes, as far as it can be seen."""
    try:
        text = runner("scontrol", "-o", "show", "reservations").stdout
        for each in parse_upcoming(text):
            if each.nodes and not members(each.nodes).isdisjoint(nodes):
                return each
    except (CommandError, ValueError):
        return None
    return None
