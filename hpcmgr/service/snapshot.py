"""What admission answers from: a view that is swapped whole, and what was granted since.

Granted devices are debited until the next view that was taken after them has had time to show
them (``tentative`` seconds), so that two submissions in one refresh do not count on one device.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from hpcmgr.admit import Decision
from hpcmgr.submit.expect import Expectation
from hpcmgr.submit.need import tasks_per_node
from hpcmgr.submit.request import JobFields
from hpcmgr.submit.view import ClusterView

Clock = Callable[[], float]


def devices_of(decision: Decision, fields: JobFields) -> list[tuple[str, int]]:
    """``name:type`` and how many of it the job takes in all: nodes, tasks and array counted."""
    best = decision.ranked[0]
    each = tasks_per_node(fields) or 1 if best.per_task else 1
    return [(p.gres, p.devices * each * fields.nodes * fields.jobs) for p in best.parts]


class Snapshot:
    """The current view and the tentative debits. Safe to use from several threads."""

    def __init__(self, tentative: float, max_age: float, clock: Clock = time.monotonic) -> None:
        self._view: ClusterView | None = None
        self._expected: Expectation | None = None
        self._granted: deque[tuple[float, str, int]] = deque()
        self._tentative = tentative
        self._max_age = max_age
        self._clock = clock
        self._lock = threading.Lock()

    def swap(self, view: ClusterView) -> None:
        """Take a new view; grants that it already shows are forgotten."""
        with self._lock:
            self._view = replace(view, expected=self._expected)
            while self._granted and self._granted[0][0] < view.state.taken:
                self._granted.popleft()

    def expect(self, expected: Expectation) -> None:
        """Take what a cycle of late binding found; it holds until the next one."""
        with self._lock:
            self._expected = expected
            if self._view is not None:
                self._view = replace(self._view, expected=expected)

    def current(self) -> tuple[ClusterView, dict[str, int]] | None:
        """View and debits, None if there is no view or it is too old to decide on."""
        with self._lock:
            view, now = self._view, self._clock()
            if view is None or now - view.state.taken > self._max_age:
                return None
            granted: dict[str, int] = {}
            for when, gres, count in self._granted:
                if now - when <= self._tentative:
                    granted[gres] = granted.get(gres, 0) + count
            return view, granted

    def grant(self, devices: Iterable[tuple[str, int]]) -> None:
        """Debit devices: ``name:type`` and how many."""
        with self._lock:
            now = self._clock()
            self._granted.extend((now, gres, count) for gres, count in devices)
            while len(self._granted) > 100_000:
                self._granted.popleft()

    @property
    def age(self) -> float | None:
        """Seconds since the view was taken, None without one."""
        view = self._view
        return None if view is None else self._clock() - view.state.taken
