"""Slurm's own answer to "when could this start": ``sbatch --test-only``. Submits nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpcmgr.errors import CommandError
from hpcmgr.slurm.command import Output, run

_STARTS = re.compile(
    r"Job \S+ to start at (?P<start>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d).*? on nodes (?P<nodes>\S+)"
    r"(?: in partition (?P<partition>\S+))?"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """``start`` in Slurm's local time, with ``nodes`` (a hostlist) and partition; or what
    ``failed``. It counts time limits and the jobs ahead, as backfill does."""

    start: str = ""
    nodes: str = ""
    partition: str = ""
    failed: str = ""


def ask(options: Sequence[str], runner: Callable[..., Output] = run) -> Answer:
    """Ask for a job with these options of sbatch; the job_submit plugin sees it as any other."""
    argv = ("sbatch", "--test-only", *options, "--wrap=true")
    try:
        done = runner(*argv, check=False)
    except CommandError as error:
        return Answer(failed=error.message)
    found = _STARTS.search(done.stderr + done.stdout)
    if found:
        return Answer(found["start"], found["nodes"], found["partition"] or "")
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return Answer(failed=lines[-1] if lines else f"sbatch --test-only: exit {done.returncode}")
