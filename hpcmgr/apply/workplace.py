"""``conf_dir/hpcmgr.d``: lock, marker of a running apply, backups. They lie on the files' own file
system, so that putting a file in place, or back, is a rename and needs no room on the disk.

    apply.lock      held while an apply runs
    apply.json      the marker: what a running apply is doing; left behind only by a killed one
    installed.json  checksums of what the last apply put in place
    backups/ID/     the files as they were before; staged/ID/ the files to come
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hpcmgr.errors import ApplyError
from hpcmgr.files import write_atomically

SCHEMA = "hpcmgr.apply/1"
FOLDER = "hpcmgr.d"

HOLDING, WRITING = "holding", "writing"


def checksum(text: str) -> str:
    """SHA-256 of a file's text."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Marker:
    """What a running apply is doing. ``held``: nodes that it drained, whatever becomes of it;
    ``changed``: checksums of the files that it writes; ``created``: those that were not there;
    ``moved``: nodes whose devices or cores it moves; ``started``: when slurmd of each node had
    started before."""

    id: str
    phase: str
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    held: tuple[str, ...] = ()
    changed: Mapping[str, str] = field(default_factory=dict)
    created: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    started: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """The reason that its drained nodes have."""
        return f"hpcmgr apply {self.id}"


class Workplace:
    """The folder beside the configuration."""

    def __init__(self, conf_dir: Path) -> None:
        self.conf_dir = conf_dir
        self.folder = conf_dir / FOLDER
        self._marker = self.folder / "apply.json"
        self._installed = self.folder / "installed.json"

    # --- one at a time ---

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock.

        Raises:
            ApplyError: another apply runs; says which.
        """
        self.folder.mkdir(mode=0o755, exist_ok=True)
        with (self.folder / "apply.lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as busy:
                raise ApplyError(
                    f"another apply is running{self._who()}", "wait for it; nothing was changed"
                ) from busy
            yield

    def _who(self) -> str:
        try:
            marker = self.read_marker()
        except ApplyError:
            marker = None
        return f" (process {marker.pid} on {marker.host})" if marker else ""

    # --- the marker ---

    def read_marker(self) -> Marker | None:
        """What an apply that did not end left behind.

        Raises:
            ApplyError: the marker is broken.
        """
        try:
            text = self._marker.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            return _marker(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError) as broken:
            raise ApplyError(
                f"{self._marker} is broken: {broken}",
                f"an apply was interrupted: compare {self.conf_dir} with the newest folder in "
                f"{self.folder / 'backups'}, resume nodes with the reason 'hpcmgr apply', then "
                "remove the file",
            ) from broken

    def write_marker(self, marker: Marker) -> None:
        """Say what is being done, before it is done."""
        write_atomically(self._marker, json.dumps({"schema": SCHEMA, **asdict(marker)}, indent=1))

    def clear_marker(self) -> None:
        """Nothing is being done any more."""
        self._marker.unlink(missing_ok=True)

    # --- what was put in place ---

    def installed(self) -> dict[str, str]:
        """Checksums by file name; empty before the first apply."""
        try:
            values = json.loads(self._installed.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return {str(k): str(v) for k, v in values.items()} if isinstance(values, dict) else {}

    def note_installed(self, files: Mapping[str, str]) -> None:
        """Remember what is in place now."""
        sums = {**self.installed(), **{name: checksum(text) for name, text in files.items()}}
        write_atomically(self._installed, json.dumps(sums, indent=1, sort_keys=True))

    # --- files ---

    def read(self, name: str) -> str | None:
        """A file's text; None if it is not there.

        Raises:
            ApplyError: it is no plain file, which a rename would silently replace.
        """
        path = self.conf_dir / name
        if path.is_symlink():
            raise ApplyError(
                f"{path} is a symbolic link to {path.readlink()}",
                "hpcmgr does not replace links: let site.yaml's slurm.conf_dir name the directory "
                "that holds the file itself",
            )
        try:
            return path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        except IsADirectoryError as wrong:
            raise ApplyError(f"{path} is a directory", "remove it: a file belongs here") from wrong

    def stage(self, marker: Marker, files: Mapping[str, str]) -> Marker:
        """Bring the new files to the disk, and the old ones under a second name; nothing that
        Slurm reads is touched yet.

        Raises:
            OSError: no room, no permission.
        """
        staged, backup = self._staged(marker), self._backup(marker)
        created = []
        try:
            for name, text in files.items():
                write_atomically(staged / name, text)
                old = self.conf_dir / name
                if old.exists():
                    _as(old, staged / name)
                    _second_name(old, backup / name)
                else:
                    created.append(name)
        except BaseException:
            self.drop(marker)
            shutil.rmtree(backup, ignore_errors=True)
            raise
        sums = {name: checksum(text) for name, text in files.items()}
        return replace(marker, phase=WRITING, changed=sums, created=tuple(created))

    def put_in_place(self, marker: Marker) -> None:
        """Rename the staged files over the old ones."""
        for name in marker.changed:
            target = self.conf_dir / name
            target.parent.mkdir(parents=True, exist_ok=True)
            (self._staged(marker) / name).replace(target)
            # slurmd and slurmctld tell by the time whether they have read it.
            os.utime(target)
        self.drop(marker)

    def in_place(self, marker: Marker) -> bool:
        """Whether all files are as ``marker``'s apply wants them."""
        return all(
            (text := self.read(name)) is not None and checksum(text) == wanted
            for name, wanted in marker.changed.items()
        )

    def put_back(self, marker: Marker) -> None:
        """The files as they were before ``marker``'s apply."""
        for name in marker.changed:
            target, saved = self.conf_dir / name, self._backup(marker) / name
            if name in marker.created:
                target.unlink(missing_ok=True)
            elif saved.exists():
                _second_name(saved, self._staged(marker) / name)
                (self._staged(marker) / name).replace(target)
                os.utime(target)
        self.drop(marker)

    def drop(self, marker: Marker) -> None:
        """Remove what is staged."""
        shutil.rmtree(self._staged(marker), ignore_errors=True)

    def prune(self, keep: int) -> None:
        """Keep the newest ``keep`` backups."""
        backups = sorted(path for path in (self.folder / "backups").glob("*") if path.is_dir())
        for old in backups[: max(0, len(backups) - keep)]:
            shutil.rmtree(old, ignore_errors=True)

    def backup_path(self, marker: Marker) -> Path:
        """Where the files lie as they were."""
        return self._backup(marker)

    def _backup(self, marker: Marker) -> Path:
        return self.folder / "backups" / marker.id

    def _staged(self, marker: Marker) -> Path:
        return self.folder / "staged" / marker.id


def _marker(values: dict[str, Any]) -> Marker:
    if values.pop("schema") != SCHEMA:
        raise ValueError("another schema")
    for key in ("held", "created", "moved"):
        values[key] = tuple(values[key])
    return Marker(**values)


def _as(model: Path, path: Path) -> None:
    """Mode and owner as those of ``model``."""
    like = model.stat()
    path.chmod(like.st_mode & 0o7777)
    if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
        os.chown(path, like.st_uid, like.st_gid)


def _second_name(path: Path, other: Path) -> None:
    """A hard link: it costs no room and cannot be half written. ``path`` is only ever replaced by
    a rename, never written into."""
    other.parent.mkdir(parents=True, exist_ok=True)
    other.unlink(missing_ok=True)
    try:
        os.link(path, other)
    except OSError:
        # A file system without links, or a limit on them.
        shutil.copy2(path, other)
