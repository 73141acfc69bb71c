"""What the service's working process has of the one that answers."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping

from hpcmgr.profile import ProfileLibrary
from hpcmgr.service.frames import Inbox, framed
from hpcmgr.service.snapshot import Follower, Granted
from hpcmgr.service.viewfeed import ViewWriter, dumps
from hpcmgr.submit.expect import Expectation
from hpcmgr.submit.view import ClusterView

log = logging.getLogger(__name__)

_END_SECONDS = 5.0

Handlers = Mapping[str, Callable[..., None]]
"""By kind of message."""


class Link(Follower):
    """Tells the answering process of all that changes, and hears what it decided. Safe to use from
    several threads."""

    def __init__(
        self, library: ProfileLibrary, down: socket.socket, up: socket.socket, pid: int
    ) -> None:
        self._writer = ViewWriter(library)
        self._down, self._up, self._pid = down, up, pid
        self._lock = threading.Lock()

    def swapped(self, view: ClusterView) -> None:
        """Send a view."""
        with self._lock:
            for piece in self._writer.pieces(view):
                self._send(piece)

    def expected(self, expected: Expectation) -> None:
        """Send what a cycle of late binding found."""
        with self._lock:
            self._send(dumps(("expected", expected)))

    def granted(self, when: float, devices: Granted) -> None:
        """Send what was handed out in this process."""
        with self._lock:
            self._send(dumps(("granted", (when, devices))))

    def _send(self, piece: bytes) -> None:
        # That the other end is gone is seen by whoever listens.
        with contextlib.suppress(OSError):
            self._down.sendall(framed(piece))

    def listen(self, handlers: Handlers) -> None:
        """Hand every message to its handler; returns when the other process is gone."""
        inbox = Inbox()
        while inbox.fill(self._up):
            while (message := inbox.next()) is not None:
                kind, values = pickle.loads(message)  # noqa: S301 - from a fork of this program
                try:
                    handlers[kind](*values)
                except Exception:  # the other messages are still to be heard
                    log.exception("a message of the answering process was not understood")

    def close(self) -> None:
        """End the other process."""
        for connection in (self._down, self._up):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        until = time.monotonic() + _END_SECONDS
        while not self._ended():
            if time.monotonic() > until:
                os.kill(self._pid, signal.SIGKILL)
                until = float("inf")
            time.sleep(0.005)

    def _ended(self) -> bool:
        try:
            return os.waitpid(self._pid, os.WNOHANG)[0] == self._pid
        except ChildProcessError:
            return True
