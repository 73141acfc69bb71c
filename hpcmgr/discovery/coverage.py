"""Whether the vendors' tools answered for every card: what the sources say, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpcmgr.discovery.host import Host
from hpcmgr.discovery.registry import ANSWERING, NODES, TOOLS
from hpcmgr.discovery.source import Collected
from hpcmgr.inventory import SourceReport
from hpcmgr.inventory.pci_address import sort_key


@dataclass(frozen=True, slots=True)
class _Vendor:
    """``cards``: what the kernel or the driver lists. ``none``: it is sure that there is none."""

    cards: frozenset[str]
    answered: frozenset[str | None]
    none: bool


def reports(collected: Sequence[Collected], host: Host) -> tuple[SourceReport, ...]:
    """What the sources say, after comparing them with each other.

    A vendor's tool that does not answer for a card of the vendor is broken, even if it says that
    nothing is wrong or is not installed. One that fails on a machine that is known to have no
    such card is just absent: a site has one image for all its nodes.
    """
    vendors = {vendor: _look(vendor, collected, host) for vendor in TOOLS}
    return tuple(
        _compared(one, vendors[ANSWERING[one.report.name]])
        if one.report.name in ANSWERING
        else one.report
        for one in collected
    )


def _look(vendor: str, collected: Sequence[Collected], host: Host) -> _Vendor:
    facts = [
        (one.report.name, fact)
        for one in collected
        for fact in one.devices
        if fact.vendor == vendor
    ]
    away = {fact.pci for _, fact in facts if fact.passthrough}
    cards = {
        fact.pci
        for name, fact in facts
        if name not in ANSWERING and fact.pci and fact.pci not in away
    }
    nodes = [n.path for n in host.device_nodes() or () if NODES[vendor].fullmatch(n.path)]
    kernel = any(o.report.name == "pci" and o.report.state == "present" for o in collected)
    answered = frozenset(fact.pci for name, fact in facts if name in ANSWERING)
    return _Vendor(
        frozenset(cards), answered, none=kernel and not cards and not answered and not nodes
    )


def _compared(one: Collected, vendor: _Vendor) -> SourceReport:
    report = one.report
    if one.failed_empty and vendor.none:
        detail = f"no {ANSWERING[report.name]} device here; {report.detail}"
        return SourceReport(name=report.name, state="absent", detail=detail)
    lost = sorted(vendor.cards - vendor.answered, key=sort_key)
    if not lost or report.name not in TOOLS.values():
        return report
    missed = f"does not answer for {', '.join(lost)}"
    detail = "; ".join(text for text in (report.detail, missed) if text)
    return SourceReport(name=report.name, state="broken", detail=detail)
