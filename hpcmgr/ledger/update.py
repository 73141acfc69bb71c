"""Taking inventories into the ledger: which device is which, what moved, what is gone.

A device is found again by its uuid, then by its serial number, then by its place. The inventory of
a node that is switched off still lists a card that now is in another node: of two nodes that name
the same card the one that synced last has it, as long as the other has not synced since. Where both
go on naming it, the number is no identity: each place then has a record of its own, with a note.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hpcmgr.errors import InventoryError
from hpcmgr.inventory import NodeInventory
from hpcmgr.inventory.drift import changes_of, named
from hpcmgr.inventory.identity import doubles, pair_up
from hpcmgr.inventory.store import load
from hpcmgr.ledger.record import Event, Record, record_of
from hpcmgr.ledger.store import Ledger, Writer
from hpcmgr.settings import Site
from hpcmgr.slurm.hostlist import expand

Owner = tuple[str | None, str | None, str | None]
"""Pool, department, project."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The inventories that could be read, with the time (seconds since 1970) at which each node
    last synced; why others could not."""

    inventories: Mapping[str, tuple[NodeInventory, float]]
    broken: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Summary:
    """What an update did, in numbers, and what should be looked at."""

    nodes: int = 0
    present: int = 0
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    notes: list[str] = field(default_factory=list)


def read_inventories(directory: Path) -> Reading:
    """Every inventory of ``directory``; a broken one hides no other.

    Raises:
        InventoryError: the directory cannot be read.
    """
    try:
        paths = sorted(p for p in directory.iterdir() if p.suffix == ".json" and p.name[0] != ".")
    except OSError as error:
        raise InventoryError(
            f"{directory}: cannot be read: {error.strerror}",
            "run 'hpcmgr sync' on the nodes, or set 'inventory' in site.yaml",
        ) from error
    found: dict[str, tuple[NodeInventory, float]] = {}
    broken: dict[str, str] = {}
    for path in paths:
        try:
            synced = path.stat().st_mtime
            found[path.stem] = (load(path), synced)
        except InventoryError as error:
            broken[path.stem] = error.message
        except OSError as error:
            broken[path.stem] = f"{path}: cannot be read: {error.strerror}"
    return Reading(found, broken)


def take_in(ledger: Ledger, reading: Reading, site: Site, now: float) -> Summary:
    """Bring the ledger up to date with ``reading``; ``now`` in seconds since 1970.

    Raises:
        LedgerError: it cannot be written; nothing of it changed then.
    """
    with ledger.writing() as writer:
        update = _Update(writer, reading, now)
        update.run(_claims(reading, site, now))
        writer.done(now)
    return update.summary


class _Update:
    def __init__(self, writer: Writer, reading: Reading, now: float) -> None:
        self._writer = writer
        self._reading = reading
        self._now = now
        self.summary = Summary(nodes=len(reading.inventories))

    def run(self, claims: list[Record]) -> None:
        records = self._writer.records()
        for record in records:
            record.placed = record.gone is None
        claims = self._without_stale(claims, records)
        notes = _double_notes(claims)
        for claim in claims:
            claim.note = notes.get(claim.place, "")
        self.summary.present = len(claims)
        self.summary.notes += dict.fromkeys(notes.values())
        pairs, left, new = pair_up(records, claims)
        _last_in_place(left)
        again, left, new = pair_up([r for r in left if r.gone is not None], new)
        matched = {id(record) for record, _ in (*pairs, *again)}
        for record, claim in (*pairs, *again):
            self._seen(record, claim)
        for claim in new:
            self._first(claim)
        for record in records:
            if id(record) not in matched and record.gone is None:
                self._missed(record)

    def _without_stale(self, claims: list[Record], records: list[Record]) -> list[Record]:
        since = {(r.node, r.vendor, r.uuid, r.serial): r.since for r in records if r.gone is None}
        dropped: set[int] = set()
        for group in _same_card(claims):
            winner = max(group, key=lambda claim: (claim.last, claim.node))
            known = (winner.node, winner.vendor, winner.uuid, winner.serial)
            first = since.get(known, winner.last)
            for claim in group:
                if claim.node != winner.node and claim.last <= first:
                    dropped.add(id(claim))
                    self.summary.notes.append(
                        f"{named(claim.device)} is in {winner.node} now; {claim.node}, which has "
                        "not synced since, still lists it"
                    )
        return [claim for claim in claims if id(claim) not in dropped]

    def _first(self, claim: Record) -> None:
        device = self._writer.add(claim)
        text = f"first seen at {claim.key}" + (f"; {claim.note}" if claim.note else "")
        self._tell(device, [Event(claim.last, "first", claim.node, text)])

    def _seen(self, record: Record, claim: Record) -> None:
        events = list(_events(record, claim))
        moved = any(event.what == "moved" for event in events)
        came = moved or record.gone is not None
        self._writer.replace(
            replace(
                claim,
                id=record.id,
                first=record.first,
                last=max(record.last, claim.last),
                since=claim.last if came else record.since,
                moves=record.moves + moved,
            )
        )
        self._tell(record.id or 0, events)

    def _missed(self, record: Record) -> None:
        if record.node in self._reading.broken:
            return
        inventory = self._reading.inventories.get(record.node)
        at = self._now if inventory is None else inventory[1]
        why = "has no inventory any more" if inventory is None else "does not list it any more"
        record.gone = at
        self._writer.replace(record)
        self._tell(record.id or 0, [Event(at, "gone", record.node, f"{record.node} {why}")])

    def _tell(self, device: int, events: list[Event]) -> None:
        self._writer.tell(device, events)
        for event in events:
            self.summary.counts[event.what] += 1


def _claims(reading: Reading, site: Site, now: float) -> list[Record]:
    """Every device that an inventory names."""
    owners = _owners(site)
    return [
        # A clock that is ahead must not make a device newer than now.
        record_of(device, node, min(synced, now), owners.get(node, (None, None, None)))
        for node, (inventory, synced) in sorted(reading.inventories.items())
        for device in inventory.devices
    ]


def _owners(site: Site) -> dict[str, Owner]:
    """The last group that names a node and says something holds."""
    found: dict[str, Owner] = {}
    for group in site.nodes:
        said = (group.pool, group.department, group.project)
        for node in expand(group.nodes):
            before = found.get(node, (None, None, None))
            found[node] = (
                said[0] or before[0],
                said[1] or before[1],
                said[2] or before[2],
            )
    return found


def _same_card(claims: Iterable[Record]) -> list[list[Record]]:
    """Devices of several nodes that say to be the same one, one a node: a number that stands twice
    in a node tells no card."""
    groups: dict[Hashable, list[Record]] = defaultdict(list)
    for claim in claims:
        if claim.uuid:
            groups[claim.vendor, claim.uuid].append(claim)
        elif claim.serial:
            groups[claim.vendor, claim.serial, claim.chip].append(claim)
    return [
        group
        for group in groups.values()
        if len(group) > 1 and len({claim.node for claim in group}) == len(group)
    ]


def _double_notes(claims: list[Record]) -> dict[Hashable, str]:
    """By place: which number stands on several devices, so that only the place tells them apart."""
    notes: dict[Hashable, str] = {}
    for name, group in doubles(claims):
        value = group[0].uuid if name == "uuid" else group[0].serial
        places = ", ".join(f"{claim.node} {claim.key}" for claim in group)
        for claim in group:
            notes.setdefault(claim.place, f"{name} {value} stands on several devices: {places}")
    return notes


def _last_in_place(records: list[Record]) -> None:
    """Of the devices that are gone from a place only the last one may come back by its place."""
    last: dict[Hashable, Record] = {}
    for record in records:
        if record.gone is not None:
            where = (record.node, record.key)
            if where not in last or (last[where].gone or 0) <= record.gone:
                last[where] = record
    for record in last.values():
        record.placed = True


def _events(record: Record, claim: Record) -> Iterable[Event]:
    def event(what: str, text: str) -> Event:
        return Event(claim.last, what, claim.node, text)

    if record.gone is not None:
        yield event("back", f"is back at {claim.key}")
    if (record.node, record.key) != (claim.node, claim.key):
        text = f"moved from {record.node} {record.key} to {claim.node} {claim.key}"
        yield event("moved", text)
    if record.facts != claim.facts:
        for change in changes_of(record.device, claim.device):
            if change.what != "moved":
                yield event(change.what, change.text)
    for name in ("pool", "department", "project"):
        old, new = getattr(record, name), getattr(claim, name)
        if old != new:
            yield event("owner", f"{name} {old or '-'} is now {new or '-'}")
    if record.note != claim.note and claim.note:
        yield event("double", claim.note)
