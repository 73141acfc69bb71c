"""Scoring: policy-neutral terms in 0…1 (higher fits better), weighed by the site.

fit           share of the booked units that was asked for
free_now      1 if the job could start at once, 0 if not
queue_ahead   1 with nobody waiting for the type, falling with the devices waited for
preference    1 for the class's first choice, 0.5 where it has no opinion
few_devices   1 / devices
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hpcmgr.settings import Weights
from hpcmgr.submit.candidates import Candidate
from hpcmgr.submit.request import Ask, JobFields
from hpcmgr.submit.selectors import Selection
from hpcmgr.submit.view import ClusterView


def rank(
    candidates: Sequence[Candidate],
    ask: Ask,
    fields: JobFields,
    selection: Selection,
    view: ClusterView,
    weights: Weights,
    granted: Mapping[str, int],
) -> list[Candidate]:
    """Able candidates, best first, those in service before all others; ties are broken by name.

    ``granted``: devices by ``name:type`` that were handed out since the view was taken.
    """
    scored = [
        _scored(c, ask, fields, selection, view, weights, granted.get(c.gres, 0))
        for c in candidates
        if not c.refused
    ]
    return sorted(scored, key=lambda c: (bool(c.waits), -c.score, c.profile.name))


def _scored(
    candidate: Candidate,
    ask: Ask,
    fields: JobFields,
    selection: Selection,
    view: ClusterView,
    weights: Weights,
    granted: int,
) -> Candidate:
    total = sum(pool.total for pool in candidate.pools)
    # Queued jobs and those granted meanwhile will take devices that still look free.
    ahead = view.waiting.get(candidate.gres, 0) + granted
    terms = {
        "fit": _fit(candidate, ask),
        "free_now": 1.0 if _free_nodes(candidate, ahead, fields.nodes) >= fields.nodes else 0.0,
        "queue_ahead": 1.0 / (1.0 + ahead / max(1, total)),
        "preference": _preference(candidate, selection),
        "few_devices": 1.0 / candidate.devices,
    }
    score = sum(value * getattr(weights, name) for name, value in terms.items())
    return replace(candidate, terms=terms, score=round(score, 6))


def _fit(candidate: Candidate, ask: Ask) -> float:
    shares = []
    if ask.units:
        shares.append(min(1.0, ask.units / candidate.units))
    if ask.vram_total and candidate.vram_gib:
        shares.append(min(1.0, ask.vram_total / candidate.vram_gib))
    if ask.vram_each and candidate.profile.memory_gib:
        shares.append(min(1.0, ask.vram_each / candidate.profile.memory_gib))
    return max(shares, default=1.0)


def _free_nodes(candidate: Candidate, ahead: int, asked: int) -> int:
    """Nodes on which it could start now, counted up to ``asked``; devices for those ``ahead`` are
    taken off as a whole, since nobody knows on which nodes they will be."""
    need, devices = candidate.need, candidate.devices
    spare = (sum(pool.free for pool in candidate.pools) - ahead) // devices
    enough, found = min(asked, spare), 0
    for pool in candidate.pools:
        if found < enough:
            found += pool.startable(devices, need.cpus, need.memory_mib, enough - found)
    return found


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
