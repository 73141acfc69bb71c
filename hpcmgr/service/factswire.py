"""Facts of all nodes as the door tells them. A pool is a row: thousands of nodes that are alike are
a few of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hpcmgr.profile.runtimes import Served
from hpcmgr.slurm.hostlist import expand, fold
from hpcmgr.submit.facts import NO_FACTS, DeviceFacts, NodeFacts
from hpcmgr.submit.view import ClusterView

Row = dict[str, Any]


def rows_of(view: ClusterView) -> list[Row]:
    """Devices of which anything is known."""
    return [
        {
            "gres": pool.gres,
            "nodes": fold(node.name for node in pool.nodes),
            "failed": facts.failed,
            "served": [each and [each.oldest, each.newest] for each in facts.served],
            "domains": facts.domains,
            "sockets": facts.sockets,
        }
        for _, pools in view.types
        for pool in pools
        if (facts := pool.facts_of(pool.gres)) != NO_FACTS
    ]


def facts_of(rows: Iterable[Row]) -> dict[str, NodeFacts]:
    """By node.

    Raises:
        LookupError, TypeError, ValueError: they are no such rows.
    """
    found: dict[str, dict[str, DeviceFacts]] = {}
    for row in rows:
        facts = DeviceFacts(
            int(row["failed"]),
            frozenset(None if each is None else Served(*each) for each in row["served"]),
            tuple(map(int, row["domains"])),
            tuple(map(int, row["sockets"])),
        )
        for node in expand(row["nodes"]):
            found.setdefault(node, {})[row["gres"]] = facts
    return dict(found)
