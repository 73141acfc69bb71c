"""On which nodes a request could ever run: partition, features, lists of nodes, devices, CPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from hpcmgr.profile.runtimes import Served
from hpcmgr.submit.access import Access, access_of
from hpcmgr.submit.limits import over_all
from hpcmgr.submit.messages import text
from hpcmgr.submit.need import Need
from hpcmgr.submit.pool import Pool
from hpcmgr.submit.request import JobFields
from hpcmgr.submit.view import ClusterView
from hpcmgr.versions import Range


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices of one type that a node must have: ``name:type``, how many, and the ``versions`` of
    their ``runtime`` that their drivers must serve ("" for any); ``units`` and ``vram_gib`` are
    booked for all of them."""

    gres: str
    count: int
    runtime: str = ""
    versions: str = ""
    units: int = 0
    vram_gib: int = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the request says of its nodes, read once for all device types.

    ``nodes``: how many; ``access``: what is open to its user; names of those that are excluded, or
    required one and all; ``reserved``: those of its reservation, None without one.
    """

    nodes: int
    access: Access
    features: frozenset[str]
    excluded: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    reserved: frozenset[str] | None = None

    def missing(
        self, pool: Pool, pools: Sequence[Pool], devices: Sequence[Devices], need: Need
    ) -> str:
        """Why no node of the pool, one of ``pools`` and open to the user, can ever run it; "" if
        they can."""
        if not self.features <= pool.features:
            return text("lacks", features=", ".join(sorted(self.features - pool.features)))
        if any(pool.has(each.gres) < each.count for each in devices):
            return _too_few(pools, devices)
        if pool.cpus < need.cpus:
            return text("few_cpus", needed=need.cpus, cpus=pool.cpus)
        if pool.memory < need.memory_mib:
            return text("few_memory", needed=need.memory_mib, memory=pool.memory)
        bounds = self.access.bounds(pool.partitions)
        return over_all(bounds, booked_by(devices, need), self.nodes) if bounds else ""

    def named(self, pool: Pool) -> Pool:
        """The pool without nodes that the request's own lists and its reservation leave out."""
        if not self.excluded and not self.required and self.reserved is None:
            return pool
        return pool.part(node for node in pool.nodes if self._listed(node.name))

    def _listed(self, name: str) -> bool:
        return (
            name not in self.excluded
            and (not self.required or name in self.required)
            and (self.reserved is None or name in self.reserved)
        )


class Able(NamedTuple):
    """``pools`` that could run it; ``waits``: why it must wait for nodes that are out of service;
    ``refused``: why it can never run. ``avoid``: nodes that Slurm would take and whose drivers
    cannot serve; ``unsure``: how many have a driver that nobody knows."""

    pools: tuple[Pool, ...] = ()
    waits: str = ""
    refused: str = ""
    avoid: tuple[str, ...] = ()
    unsure: int = 0


def booked_by(devices: Sequence[Devices], need: Need) -> dict[str, int]:
    """TRES that a job has on each node."""
    booked = {"cpu": need.cpus, "mem": need.memory_mib}
    for each in devices:
        name = each.gres.partition(":")[0]
        for tres, count in (
            (f"gres/{name}", each.count),
            (f"gres/{each.gres}", each.count),
            ("gres/compute", each.units),
            ("gres/vram", each.vram_gib),
        ):
            booked[tres] = booked.get(tres, 0) + count
    return booked


def read_wanted(fields: JobFields, features: Iterable[str], view: ClusterView) -> Wanted:
    """What the request and the ``features`` of its class say of nodes."""
    required = view.named_nodes(fields.string("req_nodes"))
    return Wanted(
        # Nodes that are required must all be there, be they in service or not.
        nodes=max(fields.nodes, len(required)),
        access=access_of(fields, view.state),
        features=frozenset(features) | plain_features(fields.string("features")),
        excluded=view.named_nodes(fields.string("exc_nodes")),
        required=required,
        reserved=view.reserved_nodes(fields.string("reservation")),
    )


def able_pools(
    pools: Sequence[Pool], devices: Sequence[Devices], need: Need, wanted: Wanted
) -> Able:
    """As Slurm does, a job may wait for a node that is down: it may come back."""
    here, reasons = _open(pools, wanted)
    lost: dict[str, int] = {}
    able: list[Pool] = []
    avoid: list[str] = []
    unsure = 0
    for kept in here:
        why = wanted.missing(kept, here, devices, need)
        if not why:
            why, known = _served(kept, devices)
            avoid += [node.name for node in kept.nodes] if why else []
            unsure += 0 if known else len(kept.nodes)
        if why:
            lost[why] = lost.get(why, 0) + len(kept.nodes)
        else:
            able.append(kept)
    up = [pool for pool in able if pool.usable and not _failed(pool, devices)]
    if node_count(up) >= wanted.nodes:
        return Able(tuple(up), "", "", tuple(avoid), unsure)
    if node_count(able) >= wanted.nodes:
        waits = _out_of_service([pool for pool in able if pool not in up], devices)
        return Able(tuple(able), waits, avoid=tuple(avoid), unsure=unsure)
    if able:
        return Able(refused=text("few_nodes", asked=wanted.nodes, able=node_count(able)))
    return Able(refused="; ".join(filter(None, (_commonest(lost), *reasons))) or text("nowhere"))


def _open(pools: Sequence[Pool], wanted: Wanted) -> tuple[list[Pool], list[str]]:
    """The pools that are open to the user, with those of their nodes that the request names; and
    why others are shut. That some lie elsewhere is told only where it is all there is to tell."""
    here: list[Pool] = []
    shut: dict[str, int] = {}
    elsewhere: dict[str, int] = {}
    for pool in pools:
        why = wanted.access.missing(pool.partitions, pool.owners)
        kept = pool if why else wanted.named(pool)
        if kept.nodes and not why:
            here.append(kept)
            continue
        to = elsewhere if not why or wanted.access.elsewhere(pool.partitions) else shut
        why = why or text("not_on_nodes")
        to[why] = to.get(why, 0) + len(pool.nodes)
    told = shut or ({} if here else elsewhere)
    return here, [_commonest(told)] if told else []


def _commonest(reasons: Mapping[str, int]) -> str:
    return max(reasons, key=lambda why: (reasons[why], why), default="")


def _served(pool: Pool, devices: Sequence[Devices]) -> tuple[str, bool]:
    """Why the drivers of the pool cannot serve it ("" if they can), and whether that is known."""
    known = True
    for each in devices:
        if each.versions:
            why, sure = _judged(pool.facts_of(each.gres).served, each.runtime, each.versions)
            if why:
                return why, True
            known = known and sure
    return "", known


@cache
def _judged(served: frozenset[Served | None], runtime: str, versions: str) -> tuple[str, bool]:
    asked = Range.parse(versions)
    for each in sorted((s for s in served if s is not None), key=lambda s: s.newest):
        if not asked.meets(each.oldest, each.newest):
            return text("old_driver", runtime=runtime, newest=each.newest, needed=versions), True
    return "", None not in served


def _failed(pool: Pool, devices: Sequence[Devices]) -> str:
    """Which devices of the pool's nodes have failed so that too few are left."""
    if not pool.facts:
        return ""
    for each in devices:
        if pool.healthy(each.gres) < each.count:
            failed = pool.facts_of(each.gres).failed
            return text("failed", failed=failed, count=pool.has(each.gres), gres=each.gres)
    return ""


def _too_few(pools: Sequence[Pool], devices: Sequence[Devices]) -> str:
    if len(devices) > 1:
        together = " + ".join(f"{each.count} x {each.gres}" for each in devices)
        return text("not_together", devices=together)
    [each] = devices
    most = max(pool.has(each.gres) for pool in pools)
    return text("few_on_node", most=most, count=each.count)


def node_count(pools: Iterable[Pool]) -> int:
    """Nodes of all of them."""
    return sum([len(pool.nodes) for pool in pools])


def _out_of_service(pools: Sequence[Pool], devices: Sequence[Devices]) -> str:
    """``gpu01 is idle+drain (fan) and 3 more are out``."""
    pool, node = min(((p, n) for p in pools for n in p.nodes), key=lambda pair: pair[1].name)
    why = node.reason if not pool.usable else _failed(pool, devices)
    others = node_count(pools) - 1
    return text(
        "out_of_service",
        node=node.name,
        state=node.state.lower(),
        reason=f" ({why})" if why else "",
        more=text("more_out", count=others) if others else "",
    )


def plain_features(text: str) -> set[str]:
    """Features that must all be there; an expression with alternatives or counts is Slurm's to
    judge, so nothing is concluded from it."""
    if not text or not re.fullmatch(r"[\w.-]+(?:[&,][\w.-]+)*", text):
        return set()
    return set(re.split(r"[&,]", text))
