"""Devices in time, as a cycle of late binding gives them away: those of a type, and several of them
together on one node.

Devices that are free on different nodes are of no use to a job that wants them on one. So beside
the devices of a type its places are counted: a place is so many devices of one node, there once the
jobs that run have given them back. What waiting jobs take is taken off both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from hpcmgr.slurm.state import NodeState
from hpcmgr.submit.estimate import Running, Timeline
from hpcmgr.submit.expect import NEVER, Steps

SIZES = (2, 4, 8, 16)
"""Devices on one node that admission is told of, whether or not somebody waits for so many."""

Ends = list[tuple[float, int]]
"""When so many devices of a node are given back."""


class Supply:
    """All device types. ``nodes``: those that take jobs; times are seconds since 1970."""

    def __init__(self, now: float, nodes: Iterable[NodeState], running: Iterable[Running]) -> None:
        self._now = now
        self._nodes: dict[str, list[NodeState]] = defaultdict(list)
        for node in nodes:
            for gres in node.gres:
                self._nodes[gres].append(node)
        self._ends: dict[str, dict[str, Ends]] = defaultdict(lambda: defaultdict(list))
        for job in running:
            for node_name, held in job.held.items():
                for gres, count in held.items():
                    self._ends[gres][node_name].append((job.end, count))
        self._lines: dict[str, Timeline] = {}
        self._places: dict[tuple[str, int], Timeline] = {}

    def line(self, gres: str) -> Timeline:
        """Devices of one type, wherever they are."""
        line = self._lines.get(gres)
        if line is None:
            free = sum(node.free(gres) for node in self._nodes.get(gres, ()))
            line = self._lines[gres] = Timeline(self._now, free)
            for ends in self._ends.get(gres, {}).values():
                for end, count in ends:
                    line.add(end, count)
        return line

    def start(self, gres: str, devices: int, nodes: int) -> float:
        """When so many devices are free on each of so many nodes, NEVER if there are not so many.

        Another size has taken its own places, and may have left these with less: an estimate.
        """
        start = self.line(gres).start(devices * nodes)
        if devices == 1 or start == NEVER:
            return start
        return max(start, self._together(gres, devices).start(nodes))

    def take(self, gres: str, devices: int, nodes: int, run: float, tasks: int) -> None:
        """Give them to ``tasks`` jobs, each for ``run`` seconds, as early as may be."""
        for line, count in self._both(gres, devices, nodes):
            line.take(count, run, tasks)

    def take_now(self, gres: str, devices: int, nodes: int, limit: float) -> None:
        """Give what ``Timeline.fits_before`` found to one job that ends before anybody waits."""
        self.line(gres).fill_gap(devices * nodes, limit)
        if devices > 1:
            self._together(gres, devices).take(nodes, limit)

    def last_end(self, gres: str, devices: int, nodes: int, run: float, tasks: int) -> float:
        """When the last of so many tasks would end; nothing is taken."""
        return max(
            line.copy().take(count, run, tasks)[1]
            for line, count in self._both(gres, devices, nodes)
        )

    def left(self) -> dict[str, Steps]:
        """Seconds until so many devices more are free, by type."""
        return {gres: self.line(gres).ahead() for gres in {*self._nodes, *self._ends}}

    def left_together(self) -> dict[str, dict[int, Steps]]:
        """Seconds until so many nodes more have so many devices free together, by type and number
        of devices."""
        found: dict[str, dict[int, Steps]] = {}
        for gres, nodes in self._nodes.items():
            if ":" in gres:
                most = max(node.gres[gres] for node in nodes)
                sizes = {size for size in SIZES if size <= most}
                sizes |= {size for name, size in self._places if name == gres}
                found[gres] = {size: self._together(gres, size).ahead() for size in sizes}
        return found

    def _both(self, gres: str, devices: int, nodes: int) -> Sequence[tuple[Timeline, int]]:
        line = (self.line(gres), devices * nodes)
        return (line,) if devices == 1 else (line, (self._together(gres, devices), nodes))

    def _together(self, gres: str, devices: int) -> Timeline:
        """Places of so many devices."""
        found = self._places.get((gres, devices))
        if found is None:
            ends = self._ends.get(gres, {})
            last = max((end for each in ends.values() for end, _ in each), default=NEVER)
            moments = [
                moment
                for node in self._nodes.get(gres, ())
                for moment in _places(node, gres, devices, (self._now, last), ends.get(node.name))
            ]
            found = self._places[gres, devices] = Timeline.of(self._now, moments)
        return found


def _places(
    node: NodeState, gres: str, devices: int, span: tuple[float, float], ends: Ends | None
) -> Iterator[float]:
    """When each place of a node comes. What the queue does not account for (a job that started
    since it was read) comes back last."""
    now, last = span
    total = node.gres[gres]
    free = made = 0
    for moment, count in [(now, node.free(gres)), *sorted(ends or ()), (last, total)]:
        free = min(total, free + count)
        while made < free // devices:
            made += 1
            yield moment
