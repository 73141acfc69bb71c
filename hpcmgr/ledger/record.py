"""One device of the ledger, and one thing that happened to it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields

from hpcmgr.inventory import Device


@dataclass(slots=True)
class Record:
    """A device as it was last seen. Times in seconds since 1970.

    ``first``, ``last``: when an inventory first and last named it. ``since``: since when it has
    been in its place. ``gone``: when it was missed, None while it is there. ``note``: why it may
    not be what it seems (a serial number that stands twice). ``facts``: the device as its inventory
    had it, JSON.
    """

    id: int | None
    vendor: str
    model: str
    kind: str
    profile: str | None
    uuid: str | None
    serial: str | None
    node: str
    key: str
    pci: str | None
    chip: int | None
    numa: int | None
    files: str
    number: int | None
    memory: int | None
    driver: str | None
    firmware: str | None
    runtime: str | None
    health: str
    pool: str | None
    department: str | None
    project: str | None
    first: float
    last: float
    since: float
    gone: float | None
    moves: int
    note: str
    facts: str
    placed: bool = True

    @property
    def place(self) -> Hashable:
        """Node and place in it; None for a device that is in no place now."""
        return (self.node, self.key) if self.placed else None

    @property
    def state(self) -> str:
        """``present`` or ``gone``."""
        return "present" if self.gone is None else "gone"

    @property
    def device(self) -> Device:
        """The device as its inventory had it."""
        return Device.model_validate_json(self.facts)


COLUMNS = tuple(field.name for field in fields(Record) if field.name != "placed")


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a device, ``at`` seconds since 1970, while it was in ``node``."""

    at: float
    what: str
    node: str
    text: str


def record_of(
    device: Device, node: str, seen: float, owner: tuple[str | None, str | None, str | None]
) -> Record:
    """A device of an inventory as a record that the ledger does not have yet."""
    pool, department, project = owner
    return Record(
        id=None,
        vendor=device.vendor,
        model=device.model,
        kind=device.kind,
        profile=device.profile,
        uuid=device.uuid,
        serial=device.serial,
        node=node,
        key=device.key,
        pci=device.pci,
        chip=device.chip,
        numa=device.numa_node,
        files=" ".join(device.files),
        number=device.index,
        memory=device.memory_mib,
        driver=device.driver,
        firmware=device.firmware,
        runtime=device.runtime_version,
        health=device.health.state,
        pool=pool,
        department=department,
        project=project,
        first=seen,
        last=seen,
        since=seen,
        gone=None,
        moves=0,
        note="",
        facts=device.model_dump_json(),
    )
