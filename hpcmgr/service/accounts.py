"""The accounts in the service's picture: read seldom, kept while slurmdbd is away."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from hpcmgr.errors import CommandError
from hpcmgr.slurm.accounts import Accounts
from hpcmgr.slurm.command import run
from hpcmgr.slurm.reader import Runner, read_accounts

log = logging.getLogger(__name__)

_SHARE = 50
"""Reading them takes at most one part of so many of the time, however large the site is."""

Clock = Callable[[], float]


class AccountsPicture:
    """Accounts, associations and QOS as of the last look at slurmdbd."""

    def __init__(self, runner: Runner = run, clock: Clock = time.monotonic) -> None:
        self._runner = runner
        self._clock = clock
        self._accounts: Accounts | None = None
        self._due = 0.0
        self._failing = ""

    def hurry(self) -> None:
        """Look again at the next chance: somebody was refused for what was seen last."""
        self._due = 0.0

    @property
    def latest(self) -> Accounts | None:
        """What is known; None before the first answer, or where nothing is enforced."""
        return self._accounts

    def refresh(self) -> None:
        """Read them where that is due. May take long where slurmdbd does not answer; its last
        answer then holds, since limits change by slurmdbd alone."""
        started = self._clock()
        if started < self._due:
            return
        try:
            self._accounts = read_accounts(self._runner)
            self._complain("")
        except CommandError as error:
            self._complain(error.message)
        ended = self._clock()
        self._due = ended + _SHARE * (ended - started)

    def _complain(self, text: str) -> None:
        if text and text != self._failing:
            log.warning("accounts and limits cannot be read, Slurm alone judges them: %s", text)
        elif self._failing and not text:
            log.info("accounts and limits can be read again")
        self._failing = text
