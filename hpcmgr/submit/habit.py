"""How much of their time limits jobs really use, account by account."""

from __future__ import annotations

from collections.abc import Iterable

_WEIGHT = 0.05
"""Of one more job in the running mean."""
_ENOUGH = 10
"""Jobs of an account, before its own mean is believed."""


class Habit:
    """Learns from ended jobs; safe to ask for an account that nobody has seen."""

    def __init__(self) -> None:
        self._means: dict[str, tuple[int, float]] = {}

    def learn(self, account: str, ran: float, limit: float) -> None:
        """A job of ``account`` has ended after ``ran`` of ``limit`` seconds."""
        if limit <= 0 or ran < 0:
            return
        share = min(1.0, ran / limit)
        for key in {account, ""}:
            number, mean = self._means.get(key, (0, share))
            weight = max(_WEIGHT, 1 / (number + 1))
            self._means[key] = (number + 1, mean + weight * (share - mean))

    def learn_all(self, ended: Iterable[tuple[str, float, float]]) -> None:
        """Several at once: account, seconds, limit."""
        for account, ran, limit in ended:
            self.learn(account, ran, limit)

    def share(self, account: str) -> float:
        """The part of its limit that a job of ``account`` is expected to use, 0…1; of all accounts
        where this one is not known well, 1 where nothing is known."""
        for key in (account, ""):
            number, mean = self._means.get(key, (0, 1.0))
            if number >= _ENOUGH:
                return mean
        return 1.0

    @property
    def shares(self) -> dict[str, float]:
        """``share`` of every account that is known well; "" stands for all others."""
        known = {key: mean for key, (number, mean) in self._means.items() if number >= _ENOUGH}
        return {"": 1.0, **known}

    def end(self, account: str, start: float, limit: float, now: float) -> float:
        """When a running job is expected to end; one that is over its account's habit, half-way
        between now and its limit."""
        usual = start + self.share(account) * limit
        return usual if usual > now else (now + max(now, start + limit)) / 2
