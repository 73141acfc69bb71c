"""Messages between the service's two processes: pickled, each with its length in front.

Both ends are one program (the second process is a fork), so nothing foreign is ever unpickled.
"""

from __future__ import annotations

import socket
import struct
from collections import deque

_LENGTH = struct.Struct("!I")
_PIECE = 1 << 16


def framed(message: bytes) -> bytes:
    """With its length in front."""
    return _LENGTH.pack(len(message)) + message


class Inbox:
    """Messages as they come in, in whatever pieces."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def fill(self, connection: socket.socket) -> bool:
        """Read what is there; False when the other end is gone."""
        try:
            piece = connection.recv(_PIECE)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        self._bytes += piece
        return bool(piece)

    def next(self) -> bytes | None:
        """The next whole message."""
        if len(self._bytes) < _LENGTH.size:
            return None
        end = _LENGTH.size + _LENGTH.unpack_from(self._bytes)[0]
        if len(self._bytes) < end:
            return None
        message = bytes(self._bytes[_LENGTH.size : end])
        del self._bytes[:end]
        return message


class Outbox:
    """Messages that go out when the other end takes them, and never make anybody wait."""

    def __init__(self, connection: socket.socket, most: int = 100_000) -> None:
        self._connection = connection
        self._waiting: deque[bytes] = deque()
        self._most = most

    def put(self, message: bytes) -> None:
        """Queue a message; with too many waiting it is lost."""
        if len(self._waiting) < self._most:
            self._waiting.append(framed(message))

    def flush(self) -> bool:
        """Send what can be sent; True if something is left."""
        while self._waiting:
            frame = self._waiting[0]
            try:
                sent = self._connection.send(frame)
            except (BlockingIOError, InterruptedError):
                return True
            except OSError:  # the other end is gone, as its socket tells us too
                self._waiting.clear()
                return False
            if sent == len(frame):
                self._waiting.popleft()
            else:
                self._waiting[0] = frame[sent:]
        return False
