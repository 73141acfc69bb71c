"""``hpcmgr capacity --watch``."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from hpcmgr.errors import CommandError, UsageProblem


def watch(look: Callable[[int], Any], interval: float) -> None:
    """Draw what ``look`` gives for the terminal's width, every ``interval`` seconds, on a screen of
    its own, until Ctrl-C (or SIGTERM); the terminal is then as it was before.

    While Slurm does not answer, the last figures stay below what it said.

    Raises:
        UsageProblem: stdout is no terminal.
        CommandError: Slurm does not answer the first time.
    """
    if not sys.stdout.isatty():
        raise UsageProblem("--watch needs a terminal", "for a pipe: --json, again and again")
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    before = signal.signal(signal.SIGTERM, _stop)
    try:
        console = Console(highlight=False)
        last = look(console.width)
        with (
            contextlib.suppress(KeyboardInterrupt),
            Live(last, console=console, screen=True, auto_refresh=False) as live,
        ):
            live.refresh()
            while True:
                time.sleep(interval)
                try:
                    last = shown = look(console.width)
                except CommandError as error:
                    shown = Group(Text(f"no new figures: {error.message}", "bold red"), last)
                live.update(shown, refresh=True)
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
