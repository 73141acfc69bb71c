"""A host that notes what it is asked for, so that a recording has all that discovery reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from hpcmgr.discovery.host import CommandResult, DeviceNode, Host

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class WatchedHost:
    """``inner``, asked through this one; every question is put to it once and its answer kept.

    Libraries are not asked: a recording has none, so what is discovered here is what will be
    discovered from it.
    """

    live = False

    def __init__(self, inner: Host) -> None:
        self.inner = inner
        self.commands: dict[tuple[str, ...], CommandResult] = {}
        self.texts: dict[str, str | None] = {}
        self.listings: dict[str, tuple[str, ...]] = {}
        self.links: dict[str, str | None] = {}
        self.present: dict[str, bool] = {}
        self._nodes: dict[str, tuple[DeviceNode, ...] | None] = {}

    @property
    def hostname(self) -> str:
        """Name of the host."""
        return self.inner.hostname

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Ask a tool."""
        return _kept(self.commands, tuple(argv), lambda argv: self.inner.run(argv, timeout))

    def read_text(self, path: str) -> str | None:
        """Text of a file."""
        return _kept(self.texts, path, self.inner.read_text)

    def listdir(self, path: str) -> tuple[str, ...]:
        """Sorted names in a directory."""
        return _kept(self.listings, path, self.inner.listdir)

    def readlink(self, path: str) -> str | None:
        """Target of a symbolic link."""
        return _kept(self.links, path, self.inner.readlink)

    def exists(self, path: str) -> bool:
        """Whether there is anything of that name."""
        return _kept(self.present, path, self.inner.exists)

    def device_nodes(self) -> tuple[DeviceNode, ...] | None:
        """All device nodes."""
        return _kept(self._nodes, "/dev", lambda _: self.inner.device_nodes())


def _kept(notes: dict[_Key, _Value], key: _Key, ask: Callable[[_Key], _Value]) -> _Value:
    if key not in notes:
        notes[key] = ask(key)
    return notes[key]
