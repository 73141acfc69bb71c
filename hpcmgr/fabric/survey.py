"""One survey of the fabric: sources → scan, what of it is chosen, what is missing or odd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpcmgr.fabric.complete import faults, gaps, remarks
from hpcmgr.fabric.join import join
from hpcmgr.fabric.model import Domains, Scan, Seen
from hpcmgr.fabric.rails import Choice, choose
from hpcmgr.fabric.tree import make_tree
from hpcmgr.inventory import NodeInventory
from hpcmgr.settings import Rails


@dataclass(frozen=True, slots=True)
class Survey:
    """``faults`` are never accepted, ``gaps`` may be; ``strangers`` are hosts that are no nodes."""

    scan: Scan
    choice: Choice
    faults: tuple[str, ...]
    gaps: tuple[str, ...]
    remarks: tuple[str, ...]
    strangers: tuple[str, ...] = ()


def survey(
    sources: Sequence[Seen],
    domains: Domains,
    inventories: Mapping[str, NodeInventory],
    rule: Rails,
    last: Scan | None,
) -> Survey:
    """Join what the sources saw and judge it; ``last``: the scan that it would replace."""
    scan, strangers = join(sources, domains, inventories)
    unread = [problem for source in sources for problem in source.problems]
    judged = judge(scan, inventories, rule, last)
    return Survey(
        scan,
        judged.choice,
        (*unread, *judged.faults),
        judged.gaps,
        judged.remarks,
        strangers,
    )


def judge(
    scan: Scan, inventories: Mapping[str, NodeInventory], rule: Rails, last: Scan | None = None
) -> Survey:
    """The same for a scan that is there already."""
    choice = choose(scan, rule, inventories)
    islands = make_tree(scan, choice.ports).tops
    apart = [f"nothing connects {', '.join(islands)}: no job will span them"] if islands else []
    return Survey(
        scan,
        choice,
        tuple(faults(scan, choice)),
        tuple(gaps(scan, choice, inventories, last)),
        (*remarks(choice), *apart),
    )
