"""What admission answers from: a view that is swapped whole, and what was granted since.

Granted devices are debited until the next view that was taken after them has had time to show
them (``tentative`` seconds), so that two submissions in one refresh do not count on one device.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from hpcmgr.admit import Decision
from hpcmgr.submit.expect import Expectation
from hpcmgr.submit.need import tasks_per_node
from hpcmgr.submit.request import JobFields
from hpcmgr.submit.view import ClusterView

Clock = Callable[[], float]
Granted = Sequence[tuple[str, int]]
"""``name:type`` and how many."""

_MOST_GRANTS = 100_000


def devices_of(decision: Decision, fields: JobFields) -> list[tuple[str, int]]:
    """``name:type`` and how many of it the job takes in all: nodes, tasks and array counted."""
    best = decision.ranked[0]
    each = tasks_per_node(fields) or 1 if best.per_task else 1
    return [(p.gres, p.devices * each * fields.nodes * fields.jobs) for p in best.parts]


class Follower:
    """Hears of what changes in a snapshot; this one does not care."""

    def swapped(self, view: ClusterView) -> None:
        """There is a new view."""

    def expected(self, expected: Expectation) -> None:
        """A cycle of late binding has ended."""

    def granted(self, when: float, devices: Granted) -> None:
        """Devices were handed out here."""


class Snapshot:
    """The current view and the tentative debits. Safe to use from several threads."""

    def __init__(
        self,
        tentative: float,
        max_age: float,
        clock: Clock = time.monotonic,
        follower: Follower | None = None,
    ) -> None:
        self._view: ClusterView | None = None
        self._expected: Expectation | None = None
        self._grants: deque[tuple[float, str, int]] = deque()
        self._granted: dict[str, int] = {}
        self._tentative = tentative
        self._max_age = max_age
        self._clock = clock
        self._lock = threading.Lock()
        self._follower = follower or Follower()

    def swap(self, view: ClusterView) -> None:
        """Take a new view; grants that it already shows are forgotten."""
        with self._lock:
            self._view = replace(view, expected=self._expected)
            self._forget(view.state.taken)
        self._follower.swapped(view)

    def expect(self, expected: Expectation) -> None:
        """Take what a cycle of late binding found; it holds until the next one."""
        with self._lock:
            self._expected = expected
            if self._view is not None:
                self._view = replace(self._view, expected=expected)
        self._follower.expected(expected)

    def current(self) -> tuple[ClusterView, dict[str, int]] | None:
        """View and debits, None if there is no view or it is too old to decide on."""
        with self._lock:
            view, now = self._view, self._clock()
            if view is None or now - view.state.taken > self._max_age:
                return None
            self._forget(now - self._tentative)
            return view, dict(self._granted)

    def grant(self, devices: Granted) -> None:
        """Debit devices that are handed out here and now."""
        now = self._clock()
        self.debit(now, devices)
        self._follower.granted(now, devices)

    def debit(self, when: float, devices: Granted) -> None:
        """Debit devices that were handed out at that time, here or elsewhere."""
        with self._lock:
            for gres, count in devices:
                self._grants.append((when, gres, count))
                self._granted[gres] = self._granted.get(gres, 0) + count
            while len(self._grants) > _MOST_GRANTS:
                self._drop()

    def _forget(self, before: float) -> None:
        while self._grants and self._grants[0][0] < before:
            self._drop()

    def _drop(self) -> None:
        _, gres, count = self._grants.popleft()
        self._granted[gres] -= count
        if not self._granted[gres]:
            del self._granted[gres]

    @property
    def age(self) -> float | None:
        """Seconds since the view was taken, None without one."""
        view = self._view
        return None if view is None else self._clock() - view.state.taken
