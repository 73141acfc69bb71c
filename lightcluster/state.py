"""Clusters that run on this machine, and what is left of those that no longer do.

Each has a folder ``/run/hpcmgr-lightcluster/NAME`` with ``state.json``; the folder is made
before anything else, so that even a cluster killed half-way can be cleaned up later.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lightcluster import cgroups
from lightcluster.errors import LightClusterError

# Elsewhere only for tests of what others' clusters would sweep away.
BASE = Path(os.environ.get("HPCMGR_LIGHTCLUSTER_RUN") or "/run/hpcmgr-lightcluster")
_UNBORN_S = 60


@dataclass
class State:
    """What others need to find a cluster: its processes, its hosts' CPUs, its control groups."""

    name: str
    supervisor: int
    started: str
    release: str = ""
    members: dict[str, int] = field(default_factory=dict)
    hwloc: dict[str, str] = field(default_factory=dict)
    cgroups: list[str] = field(default_factory=list)

    @property
    def directory(self) -> Path:
        """The cluster's folder on the machine."""
        return BASE / self.name

    @property
    def alive(self) -> bool:
        """Whether its supervisor still runs, and is no later process of the same number."""
        return start_time(self.supervisor) == self.started

    def save(self) -> None:
        """Write ``state.json`` in one step."""
        draft = self.directory / "state.json.new"
        draft.write_text(json.dumps(asdict(self)))
        draft.rename(self.directory / "state.json")

    def remove(self) -> None:
        """Remove control groups and folder; the processes are gone by now, but for frozen ones."""
        for directory in self.cgroups:
            cgroups.thaw(Path(directory))
        for directory in self.cgroups:
            cgroups.remove(Path(directory))
        shutil.rmtree(self.directory, ignore_errors=True)


def start_time(pid: int) -> str:
    """When the process began, in clock ticks since boot: with the pid it is unique."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    # The command name in parentheses may hold spaces; field 22 counts from the start.
    return text.rpartition(")")[2].split()[19]


def claim(name: str) -> State:
    """Take a name for the calling process, or say that it is taken."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}", name):
        raise LightClusterError(f"not a name for a cluster: {name!r} (letters, digits, _ . -)")
    BASE.mkdir(mode=0o755, exist_ok=True)
    try:
        (BASE / name).mkdir(mode=0o700)
    except FileExistsError:
        raise LightClusterError(f"a light cluster called {name} is running already") from None
    pid = os.getpid()
    state = State(name=name, supervisor=pid, started=start_time(pid))
    state.save()
    return state


def load(name: str) -> State | None:
    """The state of a cluster; None where there is none (or it is only just being made)."""
    try:
        return State(**json.loads((BASE / name / "state.json").read_text()))
    except (FileNotFoundError, json.JSONDecodeError, TypeError):
        return None


def running() -> list[State]:
    """All live clusters of this machine."""
    return [state for state in _all() if state.alive]


def remove_stale() -> None:
    """Remove what dead clusters left behind."""
    for state in _all():
        if not state.alive:
            # Somebody else may be removing the same remains.
            with contextlib.suppress(OSError):
                state.remove()
    for place in _places():
        # Ended between making the folder and writing its state; or its owner just removed it.
        with contextlib.suppress(FileNotFoundError):
            if load(place.name) is None and time.time() - place.stat().st_mtime > _UNBORN_S:
                shutil.rmtree(place, ignore_errors=True)


def _all() -> list[State]:
    states = (load(place.name) for place in _places())
    return [state for state in states if state is not None]


def _places() -> list[Path]:
    return sorted(BASE.iterdir()) if BASE.is_dir() else []
