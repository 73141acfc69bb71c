"""The machine that discovery looks at: this one, or one that was recorded.

Sources see a machine only through ``Host``; where its answers come from is none of their business.
"""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from hpcmgr.errors import CommandError, CommandMissing, CommandTimeout
from hpcmgr.slurm import command

_MAX_READ = 1 << 20
_DEV_DEPTH = 3


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What asking a tool gave: ``absent`` (not installed), ``timed_out``, or ``done``."""

    state: Literal["absent", "timed_out", "done"]
    exit: int | None = None
    stdout: str = ""
    stderr: str = ""


ABSENT = CommandResult("absent")


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A character or block device under /dev (``mode``: permission bits)."""

    path: str
    type: Literal["c", "b"]
    major: int
    minor: int
    mode: int


class Host(Protocol):
    """One machine. Paths are absolute, as on that machine."""

    @property
    def hostname(self) -> str:
        """Short name, as Slurm knows the node."""
        ...

    @property
    def live(self) -> bool:
        """Whether libraries may be asked, too."""
        ...

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Ask a tool; never raises for what the tool does."""
        ...

    def read_text(self, path: str) -> str | None:
        """Text of a file, None if it is missing or cannot be read."""
        ...

    def listdir(self, path: str) -> tuple[str, ...]:
        """Sorted names in a directory; empty if it is missing."""
        ...

    def readlink(self, path: str) -> str | None:
        """Target of a symbolic link, None if there is none."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file, a directory or a link of that name."""
        ...

    def device_nodes(self) -> tuple[DeviceNode, ...] | None:
        """All device nodes, sorted by path; None: nobody knows."""
        ...


class LiveHost:
    """The machine this runs on."""

    live = True

    @property
    def hostname(self) -> str:
        """Short host name."""
        return socket.gethostname().split(".")[0]

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Ask a tool.

        A tool stuck inside its driver cannot be killed and waiting for its end would wait for
        ever. So it is asked in a thread of its own, which is left behind then.
        """
        results: list[CommandResult] = []
        worker = threading.Thread(
            target=lambda: results.append(_asked(argv, timeout)), name=argv[0], daemon=True
        )
        worker.start()
        worker.join(timeout + 2.0)
        return results[0] if results else CommandResult("timed_out")

    def read_text(self, path: str) -> str | None:
        """Text of a file."""
        try:
            with Path(path).open("rb") as file:
                return file.read(_MAX_READ).decode(errors="replace")
        except OSError:
            return None

    def listdir(self, path: str) -> tuple[str, ...]:
        """Sorted names in a directory."""
        try:
            return tuple(sorted(entry.name for entry in Path(path).iterdir()))
        except OSError:
            return ()

    def readlink(self, path: str) -> str | None:
        """Target of a symbolic link."""
        try:
            return str(Path(path).readlink())
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        """Whether there is anything of that name."""
        return os.path.lexists(path)

    def device_nodes(self) -> tuple[DeviceNode, ...] | None:
        """All device nodes."""
        return tuple(sorted(_walk_dev(Path("/dev"), _DEV_DEPTH), key=lambda node: node.path))


def _asked(argv: Sequence[str], timeout: float) -> CommandResult:
    try:
        output = command.run(*argv, timeout=timeout, check=False)
    except CommandMissing:
        return ABSENT
    except CommandTimeout:
        return CommandResult("timed_out")
    except CommandError as error:
        return CommandResult("done", error.returncode, "", error.stderr)
    return CommandResult("done", output.returncode, output.stdout, output.stderr)


def _walk_dev(directory: Path, depth: int) -> Iterator[DeviceNode]:
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode):
            if depth > 1 and entry.name not in {"fd", "shm", "mqueue", "pts"}:
                yield from _walk_dev(Path(entry.path), depth - 1)
        elif stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
            yield DeviceNode(
                entry.path,
                "c" if stat.S_ISCHR(status.st_mode) else "b",
                os.major(status.st_rdev),
                os.minor(status.st_rdev),
                stat.S_IMODE(status.st_mode),
            )
