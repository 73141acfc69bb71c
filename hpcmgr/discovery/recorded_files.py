"""The files of a recording, from a folder or a .tar.gz, as one closed tree.

Links are resolved inside the tree as a chroot would: an absolute target starts at its root and
``..`` stops there. So no path of a recording can reach a file outside of it. Nothing is unpacked.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcmgr.errors import HostError

_MAX_FILE = 8 << 20
_MAX_TOTAL = 256 << 20
_MAX_ENTRIES = 500_000
_MAX_LINKS = 40


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link and its target, as it stands."""

    target: str


Entry = bytes | Link | None
"""A file's bytes, a link, or None for a directory."""


@dataclass(frozen=True, slots=True)
class _File:
    read: Callable[[], bytes]


class RecordedFiles:
    """Files, directories and links by their path from the root of the recording.

    ``entries`` is a recording that lies nowhere yet; ``place`` is only its name then.

    Raises:
        HostError: ``place`` is no folder and no readable .tar.gz, or is too large.
    """

    def __init__(self, place: Path, entries: Mapping[str, Entry] | None = None) -> None:
        self.place = place
        self._entries: dict[str, Link | _File] = {}
        self._children: dict[str, set[str]] = {"": set()}
        if entries is not None:
            for path, entry in entries.items():
                self._add(path, _File(lambda e=entry: e) if isinstance(entry, bytes) else entry)  # type: ignore[misc]
        elif place.is_dir():
            self._load_folder()
        elif place.exists():
            self._load_tar()
        else:
            raise HostError(f"{place}: no such recording", "name a folder or a .tar.gz file")

    def read(self, path: str) -> bytes | None:
        """Bytes of a file; None if it is missing or no file."""
        resolved = self._resolve(path)
        entry = self._entries.get(resolved) if resolved is not None else None
        return entry.read() if isinstance(entry, _File) else None

    def listdir(self, path: str) -> tuple[str, ...]:
        """Sorted names in a directory; empty if it is missing."""
        resolved = self._resolve(path)
        return tuple(sorted(self._children.get(resolved, ()))) if resolved is not None else ()

    def readlink(self, path: str) -> str | None:
        """Target of a link; a plain file stands for a link with its text as the target."""
        parent, _, name = path.strip("/").rpartition("/")
        resolved = self._resolve(parent)
        if resolved is None:
            return None
        entry = self._entries.get(f"{resolved}/{name}".strip("/"))
        if isinstance(entry, Link):
            return entry.target
        if isinstance(entry, _File):
            lines = entry.read()[:4096].decode(errors="replace").strip().splitlines()
            return lines[0] if len(lines) == 1 else None
        return None

    def exists(self, path: str) -> bool:
        """Whether there is anything of that name; a link need not lead anywhere."""
        parent, _, name = path.strip("/").rpartition("/")
        resolved = self._resolve(parent)
        return resolved is not None and name in self._children.get(resolved, ())

    def _resolve(self, path: str) -> str | None:
        """The place that ``path`` leads to, all links followed; None if they go in circles."""
        todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        done: list[str] = []
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                done = done[:-1]
                continue
            entry = self._entries.get("/".join([*done, part]))
            if not isinstance(entry, Link):
                done.append(part)
                continue
            links += 1
            if links > _MAX_LINKS:
                return None
            if entry.target.startswith("/"):
                done = []
            todo += [name for name in reversed(entry.target.split("/")) if name not in ("", ".")]
        return "/".join(done)

    def _add(self, path: str, entry: Link | _File | None) -> None:
        """Note one entry and its parents; ``entry`` None is a directory."""
        if len(self._entries) + len(self._children) > _MAX_ENTRIES:
            raise HostError(f"{self.place}: has more than {_MAX_ENTRIES} entries")
        parts = path.split("/")
        for depth in range(len(parts)):
            self._children.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
            if depth:
                self._children.setdefault("/".join(parts[:depth]), set())
        if entry is None:
            self._children.setdefault(path, set())
        else:
            self._entries[path] = entry

    def _load_folder(self) -> None:
        def complain(error: OSError) -> None:
            raise HostError(f"{error.filename}: cannot be read: {error.strerror}") from error

        for top, folders, files in os.walk(self.place, onerror=complain, followlinks=False):
            base = Path(top)
            for name in (*folders, *files):
                path = base / name
                relative = path.relative_to(self.place).as_posix()
                if path.is_symlink():
                    self._add(relative, Link(str(path.readlink())))
                elif path.is_dir():
                    self._add(relative, None)
                elif path.is_file():
                    # Pipes, sockets and device nodes are no part of a recording.
                    self._add(relative, _File(lambda path=path: _read_file(path)))  # type: ignore[misc]

    def _load_tar(self) -> None:
        total = 0
        try:
            with tarfile.open(self.place, "r:*") as archive:
                for member in archive:
                    path = _inside(member.name)
                    if path is None:
                        raise HostError(f"{self.place}: entry {member.name!r} leads outside")
                    if path and member.isdir():
                        self._add(path, None)
                    elif path and member.issym():
                        self._add(path, Link(member.linkname))
                    elif path and (member.isfile() or member.islnk()):
                        data = self._member(archive, member)
                        total += len(data)
                        if total > _MAX_TOTAL:
                            raise HostError(f"{self.place}: the recording is too large")
                        self._add(path, _File(lambda data=data: data))  # type: ignore[misc]
        except (tarfile.TarError, OSError, EOFError, ValueError, KeyError) as error:
            # tarfile tells one line for every way in which it tried to open the file.
            why = (str(error).splitlines() or [type(error).__name__])[0].rstrip(":")
            raise HostError(f"{self.place}: is no readable .tar.gz: {why}") from error
        self._strip_top_folder()

    def _member(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
        file = archive.extractfile(member)
        data = file.read(_MAX_FILE + 1) if file is not None else b""
        if len(data) > _MAX_FILE:
            raise HostError(f"{self.place}: {member.name}: is larger than {_MAX_FILE >> 20} MiB")
        return data

    def _strip_top_folder(self) -> None:
        """A recording packed as a folder has that folder on top."""
        top = self._children[""]
        if len(top) != 1 or "host.yaml" in top:
            return
        prefix = next(iter(top)) + "/"
        if prefix + "host.yaml" not in self._entries:
            return
        self._entries = {k.removeprefix(prefix): v for k, v in self._entries.items()}
        self._children = {
            (k + "/").removeprefix(prefix).rstrip("/"): v for k, v in self._children.items() if k
        }


def _inside(name: str) -> str | None:
    """``name`` from the root; None for an absolute path or one with ``..``."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if name.startswith("/") or ".." in parts else "/".join(parts)


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE + 1)
    except OSError as error:
        raise HostError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > _MAX_FILE:
        raise HostError(f"{path}: is larger than {_MAX_FILE >> 20} MiB")
    return data
