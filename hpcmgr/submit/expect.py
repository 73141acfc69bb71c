"""When devices of each type will be free, behind everybody who waits: what admission goes by.

Made in the background by the cycle of late binding, read in the submit path. Seconds count from the
moment of that cycle; what was submitted since is put in front of the next job.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

NEVER = math.inf

MOST_STEPS = 64
"""Of one device type: the submit path goes through them while slurmctld waits."""

Steps = tuple[tuple[float, int], ...]
"""Seconds until so many devices more are free, in order of time."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """``free``: by ``name:type``, seconds until so many devices more are free, in order of time.
    ``spare``: free devices less those that were waited for. ``places``: by ``name:type`` and number
    of devices, seconds until so many nodes more have that number free together. ``shares``: the
    part of their time limits that jobs of an account use; "" stands for all others."""

    free: Mapping[str, Steps]
    spare: Mapping[str, int] = field(default_factory=dict)
    places: Mapping[str, Mapping[int, Steps]] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)

    def wait(self, gres: str, count: int, spare: int, run: float) -> float:
        """Seconds until ``count`` devices are free together, NEVER if there are not so many.

        ``spare``: free devices less those waited for, as of now. What was handed out since the
        cycle goes first; where that is more than there is, it is taken to run ``run`` seconds.
        """
        steps = self.free.get(gres, ())
        total = sum(number for _, number in steps)
        if count > total:
            return NEVER
        waves, last = divmod(max(0, self.spare.get(gres, 0) - spare) + count - 1, total)
        for seconds, number in steps:
            last -= number
            if last < 0:
                return seconds + waves * run
        return NEVER

    def together(self, gres: str, devices: int, nodes: int) -> float:
        """Seconds until so many nodes have so many devices free together, as far as is known: by
        the next smaller number that was looked at; NEVER if there are not so many nodes."""
        known = self.places.get(gres, {})
        size = max((size for size in known if size <= devices), default=0)
        for seconds, number in known.get(size, ()):
            nodes -= number
            if nodes <= 0:
                return seconds
        return NEVER if size else 0.0

    def run(self, account: str, limit: float) -> float:
        """Seconds that a job of ``account`` is expected to run of its ``limit``."""
        return limit * self.shares.get(account, self.shares.get("", 1.0))


def coarse(steps: Steps) -> Steps:
    """At most ``MOST_STEPS``: the first half as they are, later ones in groups that count from the
    end of each."""
    exact = MOST_STEPS // 2
    if len(steps) <= MOST_STEPS:
        return steps
    size = -(-(len(steps) - exact) // exact)
    groups = [steps[i : i + size] for i in range(exact, len(steps), size)]
    return (*steps[:exact], *((g[-1][0], sum(number for _, number in g)) for g in groups))
