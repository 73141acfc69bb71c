"""Errors for people: what is wrong, where, what to do.

    HpcmgrError                     exit code 1
    ├── UsageProblem                a command was asked for something it cannot mean (exit code 2)
    ├── ConfigError                 a file of ours is wrong; every problem with file and line
    ├── HostError                   a recorded host cannot be read
    ├── InventoryError              a node's inventory is missing or broken
    ├── FabricError                 a scan of the fabric cannot be read
    │   └── IncompleteScan          it lacks parts of the fabric; nothing was written (exit code 4)
    ├── PlanError                   inventory, profiles and site together make no valid plan
    ├── CommandError                a program failed
    │   ├── CommandMissing          it is not installed
    │   └── CommandTimeout          it did not answer in time
    ├── RequestError                a job asks for what cannot be; the text is for its user
    ├── WireError                   a line between shim and service is wrong
    ├── CredentialError             a munge credential could not be made, or is not valid
    ├── ServiceError                the scoring service cannot run or cannot be reached
    ├── LedgerError                 the ledger of devices cannot be read or written
    └── ApplyError                  files cannot be brought into force

Every error carries a ``hint``: what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


class HpcmgrError(Exception):
    """Base of all errors that a person may see.

    Args:
        message: what is wrong and where.
        hint: what to do about it; may be empty.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageProblem(HpcmgrError):
    """A command was asked for something it cannot mean."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a file; ``line`` counts from 1, None if unknown."""

    file: Path | None
    line: int | None
    text: str

    def __str__(self) -> str:
        place = str(self.file) if self.file else ""
        if place and self.line:
            place += f":{self.line}"
        return f"{place}: {self.text}" if place else self.text


class ConfigError(HpcmgrError):
    """One or more problems in a file that hpcmgr reads; all of them are told at once."""

    def __init__(self, problems: Sequence[Problem], hint: str = "") -> None:
        super().__init__("\n".join(str(problem) for problem in problems), hint)
        self.problems = tuple(problems)


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """``, did you mean 'a100-80g'?``, "" where nothing is like it."""
    near = difflib.get_close_matches(word, sorted(valid), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


@contextmanager
def collecting(problems: list[Problem]) -> Iterator[None]:
    """Go on after a ConfigError, its problems kept: an administrator shall see all at once."""
    try:
        yield
    except ConfigError as error:
        problems += error.problems


class HostError(HpcmgrError):
    """A recorded host cannot be read."""


class InventoryError(HpcmgrError):
    """A node's inventory is missing or broken."""


class FabricError(HpcmgrError):
    """A scan of the fabric cannot be read."""


class IncompleteScan(FabricError):
    """A scan lacks parts of the fabric; what was known before stays."""

    exit_code = 4


class PlanError(HpcmgrError):
    """Inventory, profiles and site together make no valid plan."""


class CommandError(HpcmgrError):
    """A program failed.

    Args:
        argv: the program and its arguments.
        returncode: its exit status, None if it never ended by itself.
        stderr: what it said, shortened by the caller if long.
    """

    def __init__(
        self, argv: Sequence[str], returncode: int | None, stderr: str, hint: str = ""
    ) -> None:
        said = stderr.strip().splitlines()
        tail = f": {said[-1]}" if said else ""
        super().__init__(f"{' '.join(argv)} failed (exit {returncode}){tail}", hint)
        self.argv = tuple(argv)
        self.returncode = returncode
        self.stderr = stderr


class CommandMissing(CommandError):
    """A program is not installed."""

    def __init__(self, argv: Sequence[str]) -> None:
        super().__init__(argv, None, "")
        self.message = f"{argv[0]} is not installed or not on PATH"
        self.args = (self.message,)


class CommandTimeout(CommandError):
    """A program did not answer in time (``seconds``)."""

    def __init__(self, argv: Sequence[str], seconds: float) -> None:
        super().__init__(argv, None, "")
        self.message = f"{' '.join(argv)} gave no answer within {seconds:g} s"
        self.args = (self.message,)


class RequestError(HpcmgrError):
    """A job asks for what cannot be; ``message`` is shown to its user as it stands."""


class WireError(HpcmgrError):
    """A line between shim and service is wrong."""


class CredentialError(HpcmgrError):
    """A munge credential could not be made, or is not valid."""


class ServiceError(HpcmgrError):
    """The scoring service cannot run or cannot be reached."""


class LedgerError(HpcmgrError):
    """The ledger of devices cannot be read or written."""


class ApplyError(HpcmgrError):
    """Files cannot be brought into force; what was begun has been taken back."""
