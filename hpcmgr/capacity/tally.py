"""Sums of devices, and what they are worth in units and memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Tally:
    """A number of devices, told apart by what they do now; ``+`` sums.

    ``used`` are held by jobs; ``out``: on a node that takes no jobs, held by none; ``reserved``: on
    a node with an active reservation, held by none; ``free``: the rest. ``usable`` are the free
    ones beside which CPUs and memory are still free. ``total = used + out + reserved + free``.
    """

    total: int = 0
    used: int = 0
    out: int = 0
    reserved: int = 0
    free: int = 0
    usable: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.total + other.total,
            self.used + other.used,
            self.out + other.out,
            self.reserved + other.reserved,
            self.free + other.free,
            self.usable + other.usable,
        )

    def times(self, each: int) -> Tally:
        """The same in units or GiB, of which one device has ``each``."""
        return Tally(
            self.total * each,
            self.used * each,
            self.out * each,
            self.reserved * each,
            self.free * each,
            self.usable * each,
        )

    def values(self) -> tuple[int, ...]:
        """In the order of the fields."""
        return (self.total, self.used, self.out, self.reserved, self.free, self.usable)

    def as_dict(self) -> dict[str, int]:
        """By name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Worth:
    """Devices and what is known of their worth. ``unknown`` devices are in neither sum: no profile
    tells their units (for ``memory_gib``: their memory, ``unknown_memory``)."""

    devices: Tally = Tally()
    units: Tally = Tally()
    memory_gib: Tally = Tally()
    unknown: int = 0
    unknown_memory: int = 0

    def __add__(self, other: Worth) -> Worth:
        return Worth(
            self.devices + other.devices,
            self.units + other.units,
            self.memory_gib + other.memory_gib,
            self.unknown + other.unknown,
            self.unknown_memory + other.unknown_memory,
        )

    @classmethod
    def of(cls, devices: Tally, units: int | None, gib: int | None) -> Worth:
        """Devices of one type; ``units`` and ``gib`` of one of them, None: not known."""
        return cls(
            devices,
            devices.times(units or 0),
            devices.times(gib or 0),
            0 if units is not None else devices.total,
            0 if gib is not None else devices.total,
        )


def total(parts: Iterable[Worth]) -> Worth:
    """The sum of any number, also of none; by columns, since there are thousands of nodes."""
    every = tuple(parts)
    return Worth(
        _total(each.devices for each in every),
        _total(each.units for each in every),
        _total(each.memory_gib for each in every),
        sum(each.unknown for each in every),
        sum(each.unknown_memory for each in every),
    )


def _total(tallies: Iterable[Tally]) -> Tally:
    return Tally(*map(sum, zip(*(each.values() for each in tallies), strict=True)))
