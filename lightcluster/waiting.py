"""Waiting for something, never for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from lightcluster.errors import WaitError

T = TypeVar("T")
# Limits are for a machine with nothing else to do; tests multiply them all: patience costs nothing
# where what is waited for comes.
patience = 1.0


def wait_until(
    condition: Callable[[], T],
    timeout: float,
    what: str,
    evidence: Callable[[], str] = str,
    interval: float = 0.03,
) -> T:
    """Call ``condition`` until it is truthy and return what it gave.

    After ``timeout`` seconds (times ``patience``) WaitError says ``what`` was waited for, what
    the condition gave last, and the ``evidence`` (the tails of the logs concerned).
    """
    timeout *= patience
    limit = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > limit:
            raise WaitError(
                f"waited {timeout:g} s for {what}; at the end: {result!r}\n{evidence()}".rstrip()
            )
        time.sleep(interval)
