"""Scoring: policy-neutral terms in 0…1 (higher fits better), weighed by the site.

What each term measures stands in ``TERMS``. Speed and cost compare a candidate with the other
candidates of the same request; all others stand for themselves, and none gets worse when a node of
the type becomes free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpcmgr.settings import Weights
from hpcmgr.submit.candidates import Candidate, Part
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


@dataclass(frozen=True, slots=True)
class Scale:
    """What candidates are compared by. ``granted``: devices by ``name:type`` that were handed out
    since the view was taken."""

    ask: Ask
    nodes: int
    selection: Selection
    view: ClusterView
    granted: Mapping[str, int]
    speeds: Speeds
    limit: float | None
    account: str


def rank(
    candidates: Sequence[Candidate],
    ask: Ask,
    fields: JobFields,
    selection: Selection,
    view: ClusterView,
    weights: Weights,
    granted: Mapping[str, int],
    speeds: Speeds,
) -> list[Candidate]:
    """Able candidates, best first, those in service before all others; ties are broken by name."""
    minutes = fields.number("time_limit")
    scale = Scale(
        ask, fields.nodes, selection, view, granted, speeds,
        None if minutes is None else 60.0 * minutes, fields.string("account"),
    )  # fmt: skip
    able = [c for c in candidates if not c.refused]
    speed = [_speed(c, scale) for c in able] if selection.job_class.workload else []
    fastest = max((value for value, _ in speed), default=1.0)
    own = [_own_terms(candidate, scale) for candidate in able]
    ends = _ends(able, own, [value for value, _ in speed], scale)
    first = min(ends, default=NEVER)
    costs = [cost_of(c) for c in able]
    cheapest = min(costs, default=1.0)
    weight = {name: getattr(weights, name) for name in TERMS}
    for place, candidate in enumerate(able):
        terms = own[place]
        estimated: tuple[str, ...] = ()
        if speed:
            value, guess = speed[place]
            terms["speed"] = value / fastest
            estimated = ("speed",) if guess else ()
        if first < NEVER:
            terms["finish"] = first / ends[place]
            estimated = (*estimated, "finish")
            del terms["queue_ahead"], terms["free_now"]
        terms["cost"] = cheapest / costs[place]
        score = sum([value * weight[name] for name, value in terms.items()])
        candidate.terms, candidate.score, candidate.estimated = terms, round(score, 6), estimated
    return sorted(able, key=lambda c: (bool(c.waits), -c.score, c.name))


def _ends(
    able: Sequence[Candidate],
    own: Sequence[Mapping[str, float]],
    speed: Sequence[float],
    scale: Scale,
) -> list[float]:
    """Seconds until the job would end on each; nothing where that cannot be expected. A time limit
    must do for the slowest type; where no speed is known they run alike."""
    expected = scale.view.expected
    if expected is None or not scale.limit:
        return []
    run = expected.run(scale.account, scale.limit)
    slowest = min(speed, default=1.0)
    runs = [max(1.0, run * slowest / (speed[i] if speed else 1.0)) for i in range(len(able))]
    return [
        runs[i] if own[i]["free_now"] else runs[i] + _start(c, expected, scale, runs[i])
        for i, c in enumerate(able)
    ]


def _start(candidate: Candidate, expected: Expectation, scale: Scale, run: float) -> float:
    """Seconds until it could start, behind everybody who waits; type by type, wherever its nodes
    are."""
    view, granted = scale.view, scale.granted
    waits = [
        expected.wait(
            part.gres,
            part.devices * scale.nodes,
            view.spare.get(part.gres, 0) - granted.get(part.gres, 0),
            run,
        )
        for part in candidate.parts
    ]
    # What is free, but not together on so many nodes, is free together a little later.
    return max(*waits, SOON)


def _own_terms(candidate: Candidate, scale: Scale) -> dict[str, float]:
    parts = candidate.parts
    gres, (first, *others) = candidate.gres, parts
    total = free = 0
    near = best_fit = 0.0
    for pool in candidate.pools:
        total += pool.total
        free += pool.free
        near = max(near, min(_place(pool, part.gres, part.devices) for part in parts))
        best_fit = max(best_fit, _best_fit(pool, first.devices))
    # Queued jobs and those granted meanwhile will take devices that still look free.
    ahead = scale.view.waiting.get(gres, 0) + scale.granted.get(gres, 0)
    startable = _startable_nodes(candidate, parts, free - ahead, scale)
    return {
        "fit": 1.0 if others else _fit(candidate, scale.ask),
        "free_now": 1.0 if startable >= scale.nodes else 0.0,
        "queue_ahead": 1.0 / (1.0 + max(0, ahead - free) / max(1, total)),
        "preference": _preference(candidate, scale.selection),
        "few_devices": 1.0 / sum([part.devices for part in parts]),
        "locality": near * (_switches(candidate, scale.nodes) if scale.nodes > 1 else 1.0),
        "fragmentation": best_fit,
    }


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


def _startable_nodes(candidate: Candidate, parts: Sequence[Part], spare: int, scale: Scale) -> int:
    """Nodes on which it could start now, counted up to those asked; devices for the jobs ahead are
    taken off as a whole, since nobody knows on which nodes they will be."""
    need = candidate.need
    devices = [(part.gres, part.devices) for part in parts]
    enough, found = min(scale.nodes, spare // candidate.devices), 0
    for pool in candidate.pools:
        if found < enough:
            found += pool.startable(devices, need.cpus, need.memory_mib, enough - found)
    return found


def _speed(candidate: Candidate, scale: Scale) -> tuple[float, bool]:
    """Devices of a job are taken to share its work evenly."""
    workload = scale.selection.job_class.workload
    each = [(scale.speeds.of(workload, p.profile), p.devices) for p in candidate.parts]
    return sum(s.value * n for s, n in each), any(s.estimated for s, _ in each)


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
