"""What a request could get now, and else when at the earliest.

Node by node: devices, CPUs and memory that are free, and that running jobs give back at the end of
their time limits. Jobs ahead in the queue are not counted: Slurm's own answer
(hpcmgr.slurm.testonly) counts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hpcmgr.capacity.count import NEUTRAL, OnNode
from hpcmgr.capacity.picture import Picture
from hpcmgr.capacity.preempt import shares
from hpcmgr.slurm.jobs import seconds_of
from hpcmgr.submit.candidates import Candidate

_OVERDUE_S = 60.0
"""A job that has passed its limit is being ended."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One device type for the request: ``now`` are nodes that could take it at once; ``start``
    (seconds since 1970) the earliest time at which ``nodes`` can, None if no running job's end
    brings it about."""

    candidate: Candidate
    now: tuple[str, ...]
    start: float | None
    nodes: tuple[str, ...]


@dataclass(slots=True)
class _Room:
    """What one node has left."""

    gres: dict[str, int]
    cpus: int
    memory: int
    busy: bool

    def takes(self, candidate: Candidate, *, whole: bool) -> bool:
        needs = [(part.gres, part.devices) for part in candidate.parts]
        needs += zip(NEUTRAL, (candidate.units, candidate.vram_gib), strict=True)
        return (
            all(self.gres.get(key, n) >= n for key, n in needs)
            and self.cpus >= candidate.need.cpus
            and self.memory >= candidate.need.memory_mib
            and not (whole and self.busy)
        )


@dataclass(frozen=True, slots=True)
class _End:
    """At ``when`` a job gives these back on one node."""

    when: float
    gres: Mapping[str, int]
    cpus: int
    memory: int


def offers(
    picture: Picture, candidates: Iterable[Candidate], nodes: int, *, whole: bool
) -> list[Offer]:
    """For each candidate that can serve; ``nodes``: how many it asks; ``whole``: only nodes without
    any job will do."""
    here = {node.state.name: node for node in picture.capacity.nodes}
    ends = _ends(picture)
    return [
        _offer(candidate, here, ends, nodes, picture.taken, whole=whole)
        for candidate in candidates
        if not candidate.refused
    ]


def _offer(
    candidate: Candidate,
    here: Mapping[str, OnNode],
    ends: Mapping[str, list[_End]],
    nodes: int,
    now: float,
    *,
    whole: bool,
) -> Offer:
    starts = []
    for pool in candidate.pools:
        for state in pool.nodes:
            node = here.get(state.name)
            if node and not node.why_out:
                when = _earliest(candidate, node, ends.get(state.name, []), now, whole=whole)
                if when is not None:
                    starts.append((when, state.name))
    starts.sort()
    at_once = tuple(name for when, name in starts if when <= now)
    first = starts[:nodes]
    if len(first) < nodes:
        return Offer(candidate, at_once, None, ())
    return Offer(candidate, at_once, first[-1][0], tuple(name for _, name in first))


def _earliest(
    candidate: Candidate, node: OnNode, ends: Sequence[_End], now: float, *, whole: bool
) -> float | None:
    room = _room(node)
    if room.takes(candidate, whole=whole):
        return now
    for place, end in enumerate(ends, start=1):
        for key, number in end.gres.items():
            room.gres[key] = room.gres.get(key, 0) + number
        room.cpus += end.cpus
        room.memory += end.memory
        room.busy = place < len(ends)
        if room.takes(candidate, whole=whole):
            return end.when
    return None


def _room(node: OnNode) -> _Room:
    state = node.state
    gres = {key: state.free(key) for key in NEUTRAL if key in state.gres}
    gres.update({here.gres: here.devices.free for here in node.here})
    cpus, memory = state.cpus - state.cpus_used, state.memory - state.memory_used
    return _Room(gres, cpus, memory, state.cpus_used > 0)


def _ends(picture: Picture) -> dict[str, list[_End]]:
    """By node, first things first; all jobs, since those without devices hold CPUs."""
    found: dict[str, list[_End]] = {}
    for job in picture.jobs:
        if job.waits or not job.nodes or (end := seconds_of(job.end)) is None:
            continue
        gres = {**job.gres, **(picture.demand.devices(job) or {})}
        amounts = {**gres, ".cpus": job.cpus, ".memory": job.memory}
        for node, share in shares(job, amounts):
            cpus, memory = share.pop(".cpus"), share.pop(".memory")
            when = max(end, picture.taken + _OVERDUE_S)
            found.setdefault(node, []).append(_End(when, share, cpus, memory))
    for ends in found.values():
        ends.sort(key=lambda end: end.when)
    return found


def limited(picture: Picture) -> int:
    """Running jobs whose end is known, the ground of the estimate."""
    return sum(1 for job in picture.jobs if not job.waits and seconds_of(job.end) is not None)
