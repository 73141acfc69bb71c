"""How fast device types are at a workload: measured where the performance table knows, else
estimated from their units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from hpcmgr.profile import DeviceProfile
from hpcmgr.profile.performance import PerformanceTable


@dataclass(frozen=True, slots=True)
class Speed:
    """Speed of one device; within one workload only the ratio of two means something."""

    value: float
    estimated: bool


class Speeds:
    """Speeds of all profiles at all workloads, worked out once."""

    def __init__(self, table: PerformanceTable, profiles: Iterable[DeviceProfile]) -> None:
        known = tuple(profiles)
        self._speeds: Mapping[str, Mapping[str, Speed]] = {
            workload: _speeds(table, workload, known) for workload in table.workloads
        }

    def of(self, workload: str | None, profile: DeviceProfile) -> Speed:
        """Speed of one device of ``profile``; by its units where nobody has measured it, or no
        workload is named."""
        found = self._speeds.get(workload, {}).get(profile.name) if workload else None
        return found or Speed(float(profile.booked_units or 1), estimated=True)

    @property
    def workloads(self) -> frozenset[str]:
        """Those that the table knows."""
        return frozenset(self._speeds)


def _speeds(
    table: PerformanceTable, workload: str, profiles: Iterable[DeviceProfile]
) -> dict[str, Speed]:
    """Estimates stand on the scale of the measured ones: by the median speed of a unit."""
    measured = {p.name: table.speed(workload, p.name) for p in profiles}
    each = [speed / (p.booked_units or 1) for p in profiles if (speed := measured[p.name])]
    unit = median(each) if each else 1.0
    return {
        p.name: Speed(speed, estimated=False)
        if (speed := measured[p.name])
        else Speed((p.booked_units or 1) * unit, estimated=True)
        for p in profiles
    }
