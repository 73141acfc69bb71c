"""Ended jobs, from the accounts: how long they ran and how long they might have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from hpcmgr.slurm.command import Output, run

ARGV = (
    "sacct", "--allusers", "--allocations", "--noheader", "--parsable2", "--starttime=now-1days",
    "--state=COMPLETED,TIMEOUT", "--format=Account,ElapsedRaw,TimelimitRaw",
)  # fmt: skip
_LINE = re.compile(r"([^|]*)\|(\d+)\|(\d+)")


def read_ended(runner: Callable[..., Output] = run) -> list[tuple[str, float, float]]:
    """Account, seconds run and time limit in seconds of yesterday's and today's jobs.

    Raises:
        CommandError: there are no accounts here, or they do not answer.
    """
    return list(parse_ended(runner(*ARGV, timeout=60.0).stdout))


def parse_ended(text: str) -> Iterator[tuple[str, float, float]]:
    """Lines of the call; jobs without a limit are left out."""
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found and int(found[3]):
            yield found[1], float(found[2]), 60.0 * int(found[3])
