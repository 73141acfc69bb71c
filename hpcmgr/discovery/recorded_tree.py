"""The part of a machine's file trees that was asked for, as it stands on the machine.

Links stay links: a file that was read through ``/sys/bus/pci/devices/ADDRESS`` lies where that
link leads, so that the tree also shows which bridges stand above a device.
"""

from __future__ import annotations

from hpcmgr.discovery.recorded_files import Entry, Link
from hpcmgr.discovery.watched_host import WatchedHost

_MAX_LINKS = 40


def collect(host: WatchedHost) -> dict[str, Entry]:
    """Entries by path, without the leading slash; what was only listed is a directory."""
    return _Tree(host).entries


class _Tree:
    def __init__(self, host: WatchedHost) -> None:
        self.entries: dict[str, Entry] = {}
        self._inner = host.inner
        self._targets: dict[str, str | None] = {}
        for path, target in host.links.items():
            if target is not None:
                self.entries[self._place(path)] = Link(target)
        for path, text in host.texts.items():
            if text is not None:
                self._add_file(path, text)
        for path in [path for path, there in host.present.items() if there]:
            # Files stand for links in some recordings: only a machine can tell them apart.
            target = self._inner.readlink(path) if self._inner.live else None
            self.entries.setdefault(self._place(path), None if target is None else Link(target))
        for path, names in host.listings.items():
            for name in names:
                self.entries.setdefault(self._place(f"{path.rstrip('/')}/{name}"), None)

    def _add_file(self, path: str, text: str) -> None:
        place = self._place(path)
        for _ in range(_MAX_LINKS):
            entry = self.entries.get(place)
            if not isinstance(entry, Link):
                break
            # Asked for as a link and as a file: the text lies where the link leads.
            base = "" if entry.target.startswith("/") else place.rpartition("/")[0]
            place = self._place(f"/{base}/{entry.target}")
        self.entries[place] = text.encode()

    def _place(self, path: str) -> str:
        """Where ``path`` lies once the links on the way to it are followed and noted."""
        *todo, name = [part for part in path.split("/") if part not in ("", ".")]
        todo.reverse()
        done: list[str] = []
        followed = 0
        while todo:
            part = todo.pop()
            if part == "..":
                done = done[:-1]
                continue
            current = "/".join([*done, part])
            target = self._target(current)
            followed += target is not None
            if target is None or followed > _MAX_LINKS:
                done.append(part)
                continue
            self.entries[current] = Link(target)
            if target.startswith("/"):
                done = []
            todo += [part for part in reversed(target.split("/")) if part not in ("", ".")]
        return "/".join([*done, name])

    def _target(self, current: str) -> str | None:
        if current not in self._targets:
            self._targets[current] = self._inner.readlink(f"/{current}")
        return self._targets[current]
