"""The one place that runs programs."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpcmgr.errors import CommandError, CommandMissing, CommandTimeout

log = logging.getLogger(__name__)

_SHAPING = re.compile(
    r"(SQUEUE|SINFO|SCONTROL|SACCT)_|SLURM_(TIME_FORMAT|CLUSTERS|BITSTR_LEN|JSON|YAML)$"
)


@dataclass(frozen=True, slots=True)
class Output:
    """What a program left: exit status and both texts (invalid UTF-8 replaced)."""

    returncode: int
    stdout: str
    stderr: str


def run(
    *argv: str,
    timeout: float = 30.0,
    check: bool = True,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> Output:
    """Run a program without a shell, in the C locale, with a time limit in seconds.

    Raises:
        CommandMissing: it is not on PATH.
        CommandTimeout: it did not end in time; it has been killed.
        CommandError: ``check`` and a non-zero exit status.
    """
    if shutil.which(argv[0]) is None:
        raise CommandMissing(argv)
    started = time.monotonic()
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            timeout=timeout,
            env={**_environment(), "LC_ALL": "C", **(env or {})},
            input=None if stdin is None else stdin.encode(),
            stdin=subprocess.DEVNULL if stdin is None else None,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandTimeout(argv, timeout) from error
    except OSError as error:
        raise CommandError(argv, None, str(error)) from error
    output = Output(
        done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )
    log.debug("%s: exit %d, %.3f s", _named(argv), done.returncode, time.monotonic() - started)
    if check and done.returncode != 0:
        raise CommandError(argv, done.returncode, output.stderr)
    return output


def _environment() -> dict[str, str]:
    """What is handed on: nothing by which a user changes what Slurm's tools print or leave out."""
    return {name: value for name, value in os.environ.items() if not _SHAPING.match(name)}


def _named(argv: Sequence[str]) -> str:
    return " ".join(argv)
