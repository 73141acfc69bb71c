"""The process that answers job_submit.lua: one thread, one loop, nothing slow in it.

slurmctld holds its locks while it waits, so whatever takes time (reading Slurm, binding, late
binding, the journal, the door) is done by the service's other process, which sends what it has
found in small pieces (viewfeed.py) and is told of every decision after its answer is out.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import selectors
import signal
import socket
import time
from dataclasses import dataclass
from functools import partial

from hpcmgr.admit import Decision, Policy
from hpcmgr.service.answers import Answers
from hpcmgr.service.frames import Inbox, Outbox
from hpcmgr.service.journal import describe
from hpcmgr.service.link import Link
from hpcmgr.service.snapshot import Follower, Granted, Snapshot
from hpcmgr.service.viewfeed import ViewReader, dumps
from hpcmgr.service.wire import MAX_LINE, encode

log = logging.getLogger(__name__)

_CLIENT_SECONDS = 5.0
_CALLERS = 16
"""Accepted at a time; slurmctld sends one request after the other."""


def start(policy: Policy, listener: socket.socket) -> Link:
    """Fork the process. It ends when the link is closed, or when this process is gone; it must be
    called before the first thread is started."""
    down, its_down = socket.socketpair()
    up, its_up = socket.socketpair()
    pid = os.fork()
    if pid:
        for each in (its_down, its_up, listener):
            each.close()
        return Link(policy.library, down, up, pid)
    code = 1
    try:
        down.close()
        up.close()
        # A service manager signals both; the other process says when it is over.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        Answerer(policy, listener, its_down, its_up).run()
        code = 0
    except BaseException:
        log.exception("answering failed")
    finally:
        os._exit(code)


class _Teller(Follower):
    """What is handed out here, the other process must know too."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def granted(self, when: float, devices: Granted) -> None:
        self._outbox.put(dumps(("granted", (when, devices))))


@dataclass(slots=True)
class _Caller:
    connection: socket.socket
    until: float
    said: bytes = b""


class Answerer:
    """``down``: what the other process sends; ``up``: what it is told."""

    def __init__(
        self, policy: Policy, listener: socket.socket, down: socket.socket, up: socket.socket
    ) -> None:
        service = policy.site.service
        self._listener, self._down, self._up = listener, down, up
        self._inbox, self._outbox = Inbox(), Outbox(up)
        self._reader = ViewReader(policy.library)
        self._snapshot = Snapshot(
            service.tentative, service.snapshot_max_age, follower=_Teller(self._outbox)
        )
        self._decided: list[tuple[int, Decision]] = []
        self._answers = Answers(policy, self._snapshot, self._note)
        self._callers: dict[int, _Caller] = {}
        self._selector = selectors.DefaultSelector()
        self._linked = True
        self._busy_up = False

    def run(self) -> None:
        """Answer until the other process is gone."""
        gc.disable()  # its pauses grow with the cluster; what is thrown away here has no cycles
        for connection, action in (
            (self._listener, self._accept),
            (self._down, self._fill),
        ):
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ, action)
        self._up.setblocking(False)
        piece: bytes | None = None
        more = False
        while self._linked:
            events = self._selector.select(0 if piece or more else self._patience())
            for key, _ in events:
                key.data()
            self._tell()
            # Only one of these, then callers have their turn again.
            if piece:
                self._take(piece)
                more = True
            elif not events:
                more = self._answers.prepare()
            piece = self._inbox.next()
            self._hang_up_on_the_silent()

    def _patience(self) -> float | None:
        """Seconds until the first caller has been silent for too long."""
        first = next(iter(self._callers.values()), None)
        return None if first is None else max(0.0, first.until - time.monotonic())

    def _hang_up_on_the_silent(self) -> None:
        now = time.monotonic()
        for number, caller in list(self._callers.items()):
            if caller.until > now:
                return  # they stand in the order of their time
            self._end(number)

    def _accept(self) -> None:
        for _ in range(_CALLERS):
            try:
                connection, _ = self._listener.accept()
            except OSError:  # nobody is left, or there are no more files: they will be closed again
                return
            connection.setblocking(False)
            number = connection.fileno()
            self._callers[number] = _Caller(connection, time.monotonic() + _CLIENT_SECONDS)
            if self._hear(number):
                self._selector.register(
                    connection, selectors.EVENT_READ, partial(self._hear, number)
                )

    def _hear(self, number: int) -> bool:
        """Read what a caller says and answer a whole line; True if more must come."""
        caller = self._callers[number]
        try:
            piece = caller.connection.recv(MAX_LINE + 1)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            self._end(number)
            return False
        caller.said += piece
        line, end, _ = caller.said.partition(b"\n")
        # An overlong line is cut and answered as wrong, as is one that its sender did not end.
        if piece and not end and len(line) <= MAX_LINE:
            return True
        if line:
            self._say(caller.connection, encode(self._answers.answer(line)))
        self._end(number)
        return False

    def _say(self, connection: socket.socket, answer: bytes) -> None:
        with contextlib.suppress(OSError):  # the shim has given up; it knows what to do
            connection.send(answer)  # shorter than any socket's buffer

    def _end(self, number: int) -> None:
        caller = self._callers.pop(number)
        with contextlib.suppress(KeyError):
            self._selector.unregister(caller.connection)
        caller.connection.close()

    def _note(self, uid: int, decision: Decision) -> None:
        self._decided.append((uid, decision))

    def _tell(self) -> None:
        """What was decided, now that the answers are out."""
        for uid, decision in self._decided:
            record = describe(decision)
            self._outbox.put(dumps(("decided", (uid, decision.request, record))))
        self._decided.clear()
        left = self._outbox.flush()
        if left and not self._busy_up:
            self._selector.register(self._up, selectors.EVENT_WRITE, self._outbox.flush)
        elif self._busy_up and not left:
            self._selector.unregister(self._up)
        self._busy_up = left

    def _fill(self) -> None:
        self._linked = self._inbox.fill(self._down)

    def _take(self, piece: bytes) -> None:
        if not self._reader.halfway:
            gc.collect()  # what is left of the answers; the view is frozen and not looked at
        message = self._reader.take(piece)
        if message is None:
            return
        kind, value = message
        if kind == "view":
            self._snapshot.swap(value)
            gc.freeze()
        elif kind == "expected":
            self._snapshot.expect(value)
        elif kind == "granted":
            self._snapshot.debit(*value)
