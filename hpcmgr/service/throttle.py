"""Token buckets: how often somebody may do something."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

_MOST_KEYS = 4096


class Throttle:
    """``per_second`` on average for each key, ``burst`` at once. Safe to use from several threads.

    Only the keys seen last are remembered, so that no number of them fills the memory.
    """

    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def allows(self, key: Hashable) -> bool:
        """Take one token; False if there is none."""
        with self._lock:
            now = self._clock()
            tokens, then = self._buckets.pop(key, (float(self._burst), now))
            tokens = min(self._burst, tokens + (now - then) * self._rate)
            self._buckets[key] = (max(0.0, tokens - 1), now) if tokens >= 1 else (tokens, now)
            if len(self._buckets) > _MOST_KEYS:
                self._buckets.popitem(last=False)
            return tokens >= 1
