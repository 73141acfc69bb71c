"""Scoring: policy-neutral terms in 0…1 (higher fits better), weighed by the site.

What each term measures stands in ``TERMS``. Speed and cost compare a candidate with the other
candidates of the same request; all others stand for themselves, and none gets worse when a node of
the type becomes free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hpcmgr.settings import Weights
from hpcmgr.submit.candidates import Candidate
from hpcmgr.submit.expect import NEVER, Expectation
from hpcmgr.submit.pool import Pool
from hpcmgr.submit.request import Ask, JobFields
from hpcmgr.submit.selectors import Selection
from hpcmgr.submit.speed import Speeds
from hpcmgr.submit.view import ClusterView

TERMS = {
    "fit": "units asked / units booked",
    "free_now": "1 if it could start at once",
    "queue_ahead": "1 / (1 + devices waited for beyond the free ones / all devices)",
    "finish": "expected end on the best candidate / its own; in place of free_now and queue_ahead",
    "speed": "expected speed at the workload / that of the fastest candidate",
    "preference": "1 for the class's first choice, 0.5 without an opinion",
    "few_devices": "1 / devices",
    "locality": "1: one link domain (and one switch), 0.7: one socket, 0.3: spread, 0.5: unknown",
    "fragmentation": "1 - devices left over on the best node / devices of the node",
    "cost": "cost of the cheapest candidate / its own",
}
"""Every term and its unit, in the order in which they are shown."""

ONE_DOMAIN, ONE_SOCKET, UNKNOWN_PLACE, SPREAD = 1.0, 0.7, 0.5, 0.3
SEVERAL_SWITCHES = 0.5
SOON = 600.0
"""Seconds; for devices that are free, but not where they could be used together."""


@dataclass(slots=True, eq=False)
class Graded:
    """An able candidate with all of its score that holds as long as the view does: ``terms``, and
    ``settled``, their weighed sum; ``total`` and ``free``: its devices on all nodes; ``speed`` 0
    where the class names no workload. ``gres``: its types. ``now`` and ``scored`` (with the best
    end it was compared with): what was found last."""

    candidate: Candidate
    terms: dict[str, float]
    total: int
    free: int
    speed: float = 0.0
    guessed: bool = False
    settled: float = 0.0
    gres: tuple[str, ...] = ()
    now: Now | None = None
    scored: tuple[Now, float, Candidate] | None = None


class Now(NamedTuple):
    """What depends on ``given``, the devices of its types handed out since the view was taken, and
    on ``expected``: ``end`` in seconds, NEVER where none can be expected."""

    given: tuple[int, ...]
    expected: Expectation | None
    free_now: float
    queue_ahead: float
    end: float


@dataclass(frozen=True, slots=True)
class Grades:
    """All able candidates of one request. ``limit`` in seconds."""

    able: tuple[Graded, ...]
    nodes: int
    limit: float | None
    account: str


def grade(
    candidates: Iterable[Candidate],
    ask: Ask,
    fields: JobFields,
    selection: Selection,
    weights: Weights,
    speeds: Speeds,
) -> Grades:
    """What of the scores does not change from one moment to the next, nor with who asks next."""
    able = [_graded(c, ask, fields.nodes, selection, speeds) for c in candidates if not c.refused]
    costs = [cost_of(each.candidate) for each in able]
    cheapest = min(costs, default=1.0)
    fastest = max((each.speed for each in able), default=1.0)
    for each, cost in zip(able, costs, strict=True):
        if each.speed:
            each.terms["speed"] = each.speed / fastest
        each.terms["cost"] = cheapest / cost
        each.gres = tuple([part.gres for part in each.candidate.parts])
        each.settled = sum([v * getattr(weights, name) for name, v in each.terms.items()])
    minutes = fields.number("time_limit")
    limit = None if minutes is None else 60.0 * minutes
    return Grades(tuple(able), fields.nodes, limit, fields.string("account"))


def _graded(
    candidate: Candidate, ask: Ask, nodes: int, selection: Selection, speeds: Speeds
) -> Graded:
    parts = candidate.parts
    total = free = 0
    near = best_fit = 0.0
    for pool in candidate.pools:
        total += pool.total
        free += pool.free
        near = max(near, min(_place(pool, part.gres, part.devices) for part in parts))
        best_fit = max(best_fit, _best_fit(pool, candidate.devices))
    terms = {
        "fit": 1.0 if candidate.beside else _fit(candidate, ask),
        "preference": _preference(candidate, selection),
        "few_devices": 1.0 / sum([part.devices for part in parts]),
        "locality": near * (_switches(candidate, nodes) if nodes > 1 else 1.0),
        "fragmentation": best_fit,
    }
    workload = selection.job_class.workload
    if not workload:
        return Graded(candidate, terms, total, free)
    # Devices of a job are taken to share its work evenly.
    each = [(speeds.of(workload, p.profile), p.devices) for p in parts]
    speed = sum(s.value * n for s, n in each)
    return Graded(candidate, terms, total, free, speed, any(s.estimated for s, _ in each))


def rank(
    grades: Grades, view: ClusterView, granted: Mapping[str, int], weights: Weights
) -> list[Candidate]:
    """Able candidates, best first, those in service before all others; ties are broken by name.

    ``granted``: devices by ``name:type`` that were handed out since the view was taken.
    """
    nows = [_now(each, grades, view, granted) for each in grades.able]
    first = min((now.end for now in nows), default=NEVER)
    ranked = [_scored(*pair, first, weights) for pair in zip(grades.able, nows, strict=True)]
    ranked.sort(key=lambda c: (bool(c.waits), -c.score, c.name))
    return ranked


def _scored(graded: Graded, now: Now, first: float, weights: Weights) -> Candidate:
    known = graded.scored
    if known and known[0] is now and known[1] == first:
        return known[2]
    terms, score = dict(graded.terms), graded.settled
    estimated: tuple[str, ...] = ("speed",) if graded.guessed else ()
    if first < NEVER:
        terms["finish"] = first / now.end
        score += terms["finish"] * weights.finish
        estimated = (*estimated, "finish")
    else:
        terms["free_now"], terms["queue_ahead"] = now.free_now, now.queue_ahead
        score += now.free_now * weights.free_now + now.queue_ahead * weights.queue_ahead
    scored = graded.candidate.scored(terms, round(score, 6), estimated)
    graded.scored = now, first, scored
    return scored


def _now(graded: Graded, grades: Grades, view: ClusterView, granted: Mapping[str, int]) -> Now:
    """Between two requests only few types are handed out, so most of it is known."""
    candidate, known = graded.candidate, graded.now
    given = tuple([granted.get(gres, 0) for gres in graded.gres])
    if known and known.given == given and known.expected is view.expected:
        return known
    # Queued jobs and those granted meanwhile will take devices that still look free.
    ahead = view.waiting.get(graded.gres[0], 0) + given[0]
    enough = min(grades.nodes, (graded.free - ahead) // candidate.devices)
    free_now = 1.0 if _startable(candidate, enough) >= grades.nodes else 0.0
    queue_ahead = 1.0 / (1.0 + max(0, ahead - graded.free) / max(1, graded.total))
    end = _end(graded, grades, view, given, free_now)
    graded.now = now = Now(given, view.expected, free_now, queue_ahead, end)
    return now


def _end(
    graded: Graded, grades: Grades, view: ClusterView, given: Sequence[int], free_now: float
) -> float:
    """Seconds until the job would end on it. A time limit must do for the slowest type; where no
    speed is known they run alike."""
    expected = view.expected
    if expected is None or not grades.limit:
        return NEVER
    run = expected.run(grades.account, grades.limit)
    if graded.speed:
        run *= min(each.speed for each in grades.able) / graded.speed
    run = max(1.0, run)
    if free_now:
        return run
    # Behind everybody who waits; type by type, wherever its nodes are.
    waits = [
        expected.wait(
            part.gres,
            part.devices * grades.nodes,
            view.spare.get(part.gres, 0) - handed_out,
            run,
        )
        for part, handed_out in zip(graded.candidate.parts, given, strict=True)
    ]
    waits += [
        expected.together(part.gres, part.devices, grades.nodes) for part in graded.candidate.parts
    ]
    # What is free, but not with CPUs and memory, is so a little later.
    return run + max(*waits, SOON)


def _startable(candidate: Candidate, enough: int) -> int:
    """Nodes on which it could start now, counted up to ``enough``; devices for the jobs ahead are
    taken off as a whole, since nobody knows on which nodes they will be."""
    need, found = candidate.need, 0
    devices = [(part.gres, part.devices) for part in candidate.parts]
    for pool in candidate.pools:
        if found < enough:
            found += pool.startable(devices, need.cpus, need.memory_mib, enough - found)
    return found


def _fit(candidate: Candidate, ask: Ask) -> float:
    """Not for a template, which is asked in sets."""
    shares = []
    if ask.units:
        shares.append(min(1.0, ask.units / candidate.units))
    if ask.vram_total and candidate.vram_gib:
        shares.append(min(1.0, ask.vram_total / candidate.vram_gib))
    if ask.vram_each and candidate.profile.memory_gib:
        shares.append(min(1.0, ask.vram_each / candidate.profile.memory_gib))
    return max(shares, default=1.0)


def cost_of(candidate: Candidate) -> float:
    """Cost of an hour of its devices on one node (or for one task)."""
    return sum([part.profile.cost * part.devices for part in candidate.parts])


def _preference(candidate: Candidate, selection: Selection) -> float:
    prefer = selection.job_class.prefer
    if not prefer:
        return 0.5
    profile = candidate.profile
    words = {profile.name, profile.kind, profile.vendor, profile.runtime, profile.gres.type}
    for place, word in enumerate(prefer):
        if word in words:
            return 1.0 - place / len(prefer)
    return 0.0


def _switches(candidate: Candidate, nodes: int) -> float:
    most = most_below_one_switch(candidate)
    return SEVERAL_SWITCHES if most is not None and most < nodes else 1.0


def most_below_one_switch(candidate: Candidate) -> int | None:
    """How many of its nodes one leaf switch has at most; None where no switch is known."""
    below: dict[str, int] = {}
    for pool in candidate.pools:
        for leaf, count in pool.leaves.items():
            below[leaf] = below.get(leaf, 0) + count
    return max(below.values(), default=None)


def _place(pool: Pool, gres: str, devices: int) -> float:
    """How near each other the devices can be on a node of the pool."""
    if devices == 1:
        return ONE_DOMAIN
    facts = pool.facts_of(gres)
    if facts.domains and facts.domains[0] >= devices:
        return ONE_DOMAIN
    if facts.sockets:
        return ONE_SOCKET if facts.sockets[0] >= devices else SPREAD
    if gres == pool.gres and pool.device_sockets:
        # Slurm tells the sockets, not how many devices each has: as many at least.
        return ONE_SOCKET if -(-pool.count // len(pool.device_sockets)) >= devices else SPREAD
    return UNKNOWN_PLACE


def _best_fit(pool: Pool, devices: int) -> float:
    """How few devices would be left over on the best node; one that is full counts as if all of it
    were free later."""
    if not pool.count:
        return 0.0
    for free in pool.frees:
        if free >= devices:
            return 1.0 - (free - devices) / pool.count
    return 1.0 - max(0, pool.count - devices) / pool.count
