"""On which nodes a request could ever run: partition, features, lists of nodes, devices, CPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hpcmgr.slurm.hostlist import expand
from hpcmgr.submit.need import Need
from hpcmgr.submit.pool import Pool
from hpcmgr.submit.request import JobFields
from hpcmgr.submit.view import ClusterView

Counts = Sequence[tuple[str, int]]
"""Devices of one node: ``name:type`` and how many."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the request says of its nodes, read once for all device types.

    ``nodes``: how many; names of those that are excluded, or required one and all; ``reserved``:
    those of its reservation, None without one.
    """

    nodes: int
    partitions: frozenset[str]
    features: frozenset[str]
    excluded: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    reserved: frozenset[str] | None = None

    def missing(self, pool: Pool, pools: Sequence[Pool], devices: Counts, need: Need) -> str:
        """Why no node of the pool, one of ``pools``, can ever run it; "" if they can."""
        if self.partitions and not self.partitions & pool.partitions:
            return f"not in partition {', '.join(sorted(self.partitions))}"
        if not self.features <= pool.features:
            return f"lacks the feature {', '.join(sorted(self.features - pool.features))}"
        for gres, count in devices:
            if pool.has(gres) < count:
                most = max(each.has(gres) for each in pools)
                beside = f" {gres}" if gres != pool.gres else ""
                return f"at most {most}{beside} on a node, {count} needed"
        if pool.cpus < need.cpus:
            return f"{need.cpus} CPUs needed, a node has {pool.cpus}"
        if pool.memory < need.memory_mib:
            return f"{need.memory_mib} MiB needed, a node has {pool.memory}"
        return ""

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


@dataclass(frozen=True, slots=True)
class Able:
    """``pools`` that could run it; ``waits``: why it must wait for nodes that are out of service;
    ``refused``: why it can never run."""

    pools: tuple[Pool, ...] = ()
    waits: str = ""
    refused: str = ""


def read_wanted(fields: JobFields, features: Iterable[str], view: ClusterView) -> Wanted:
    """What the request and the ``features`` of its class say of nodes."""
    required = frozenset(names_of(fields.string("req_nodes")))
    return Wanted(
        # Nodes that are required must all be there, be they in service or not.
        nodes=max(fields.nodes, len(required)),
        partitions=frozenset(partitions_of(fields, view)),
        features=frozenset(features) | plain_features(fields.string("features")),
        excluded=frozenset(names_of(fields.string("exc_nodes"))),
        required=required,
        reserved=view.reserved_nodes(fields.string("reservation")),
    )


def able_pools(pools: Sequence[Pool], devices: Counts, need: Need, wanted: Wanted) -> Able:
    """As Slurm does, a job may wait for a node that is down: it may come back."""
    lost: dict[str, int] = {}
    able: list[Pool] = []
    for pool in pools:
        why = wanted.missing(pool, pools, devices, need)
        kept = pool if why else wanted.named(pool)
        if not why and not kept.nodes:
            why = "not on the nodes of the request"
        if why:
            lost[why] = lost.get(why, 0) + len(pool.nodes)
        else:
            able.append(kept)
    up = [pool for pool in able if pool.usable]
    if node_count(up) >= wanted.nodes:
        return Able(tuple(up))
    if node_count(able) >= wanted.nodes:
        return Able(tuple(able), waits=_out_of_service([p for p in able if not p.usable]))
    if able:
        return Able(refused=f"{wanted.nodes} nodes asked, {node_count(able)} can serve")
    return Able(refused=max(lost, key=lambda w: (lost[w], w)) if lost else "no node has it")


def node_count(pools: Iterable[Pool]) -> int:
    """Nodes of all of them."""
    return sum(len(pool.nodes) for pool in pools)


def _out_of_service(pools: list[Pool]) -> str:
    """``gpu01 is idle+drain (fan) and 3 more are out``."""
    first = min((node for pool in pools for node in pool.nodes), key=lambda node: node.name)
    reason = f" ({first.reason})" if first.reason else ""
    more = f" and {node_count(pools) - 1} more are out" if node_count(pools) > 1 else ""
    return f"{first.name} is {first.state.lower()}{reason}{more}"


def partitions_of(fields: JobFields, view: ClusterView) -> set[str]:
    """Partitions that the job may run in; empty if that is not known."""
    asked = {p for p in fields.string("partition").split(",") if p}
    if asked:
        return asked
    default = view.state.default_partition
    return {default} if default else set()


def plain_features(text: str) -> set[str]:
    """Features that must all be there; an expression with alternatives or counts is Slurm's to
    judge, so nothing is concluded from it."""
    if not text or not re.fullmatch(r"[\w.-]+(?:[&,][\w.-]+)*", text):
        return set()
    return set(re.split(r"[&,]", text))


def names_of(text: str) -> set[str]:
    """Nodes of a list; what is no list names none."""
    try:
        return set(expand(text)) if text else set()
    except ValueError:
        return set()
