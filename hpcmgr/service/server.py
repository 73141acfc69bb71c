"""``hpcmgr serve``: answers the shim from memory; everything slow happens beside it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import IO

from hpcmgr.admit import Policy, decide
from hpcmgr.errors import HpcmgrError, ServiceError, WireError
from hpcmgr.service.accounts import AccountsPicture
from hpcmgr.service.binder import Binder, Shape, shape_of
from hpcmgr.service.door import Door
from hpcmgr.service.journal import Journal
from hpcmgr.service.knowledge import Knowledge
from hpcmgr.service.rebinder import Rebinder
from hpcmgr.service.snapshot import Snapshot, devices_of
from hpcmgr.service.wire import (
    MAX_LINE,
    Submission,
    answer_of,
    decode,
    encode,
    error_answer,
    hold_answer,
    wants_cycle,
)
from hpcmgr.slurm.backend import ReadCluster, open_reader
from hpcmgr.slurm.capability import why_unsupported
from hpcmgr.slurm.reader import read_cluster
from hpcmgr.submit.view import make_view

log = logging.getLogger(__name__)

_CLIENT_SECONDS = 5.0
_LEARN_SECONDS = 5.0
"""So long the first picture of the cluster waits for the inventories."""


class Server:
    """One service: a socket, a snapshot that is refreshed, a journal, a binder of held jobs."""

    def __init__(self, policy: Policy, read: ReadCluster = read_cluster) -> None:
        settings = policy.site.service
        self._read = read
        self._policy = policy
        self._settings = settings
        self._snapshot = Snapshot(settings.tentative, settings.snapshot_max_age)
        self._journal = Journal(settings.state_dir / "journal.sqlite")
        self._binder = Binder(policy, self._snapshot, self._journal)
        self._rebinder = Rebinder(policy, self._snapshot, self._journal)
        self._wake = asyncio.Event()
        self._shape: Shape = ()
        self._door = Door(policy, self._snapshot, settings.state_dir / "journal.sqlite")
        self._knowledge = Knowledge(policy.site, policy.library)
        self._accounts = AccountsPicture()
        self._stop = asyncio.Event()
        self._learnt = asyncio.Event()
        self._failing = ""

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        server = await asyncio.start_unix_server(
            self._client, sock=_listen(self._settings.socket), limit=MAX_LINE
        )
        works = [self._learn(), self._refresh(), self._rebind()]
        if self._policy.site.accounting:
            works.append(self._refresh_accounts())
        tasks = [asyncio.create_task(work) for work in works]
        if self._settings.door:
            tasks.append(asyncio.create_task(self._door.serve(self._settings.door)))
        try:
            log.info("serving on %s", self._settings.socket)
            await self._stop.wait()
        finally:
            for task in tasks:
                task.cancel()
            server.close()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._settings.socket.unlink(missing_ok=True)
            self._journal.close()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_CLIENT_SECONDS):
                line = await _read_line(reader)
            answer = await self._cycle_now() if wants_cycle(line) else None
            async with asyncio.timeout(_CLIENT_SECONDS):
                if line:
                    writer.write(encode(answer or self._answer(line)))
                    await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            pass  # the shim has given up or never spoke; it knows what to do
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, TimeoutError):
                await writer.wait_closed()

    def _answer(self, line: bytes) -> dict[str, object]:
        try:
            submission = decode(line)
        except WireError as error:
            log.warning("bad line: %s", error.message)
            return error_answer(error)
        try:
            return self._decide(submission)
        except Exception:
            # A fault of ours must not lose the job: the shim holds it, the log tells us.
            log.exception("decision failed")
            return hold_answer("the service failed")

    def _decide(self, submission: Submission) -> dict[str, object]:
        current = self._snapshot.current()
        if current is None:
            return hold_answer("no recent picture of the cluster")
        view, granted = current
        decision = decide(submission.fields, self._policy, view, granted)
        neutral = decision.request not in {"", "direct"}
        lacking = view.lacks(submission.fields) if neutral else ""
        if lacking:
            return hold_answer(f"{lacking} is not in the picture yet")
        if decision.rewrite and decision.ranked:
            self._snapshot.grant(devices_of(decision, submission.fields))
        if decision.error:
            # Perhaps for a limit that was just raised: the next one shall see it.
            self._accounts.hurry()
        if decision.rewrite or decision.error:
            self._journal.put(decision, uid=submission.uid)
        return answer_of(decision)

    async def _learn(self) -> None:
        """Look at the inventories, time and again."""
        while not self._stop.is_set():
            try:
                await asyncio.to_thread(self._knowledge.look)
            except Exception:
                log.exception("reading inventories failed")
            self._learnt.set()
            await asyncio.sleep(self._settings.inventory_refresh)

    async def _refresh(self) -> None:
        # Thousands of inventories take longer: until then drivers and health are not known.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._learnt.wait(), _LEARN_SECONDS)
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                await asyncio.to_thread(self._cycle, started)
            except HpcmgrError as error:
                self._complain(error.message)
            except Exception:
                log.exception("refresh failed")
            else:
                self._complain("")
                self._look_at_shape()
            spent = time.monotonic() - started
            await asyncio.sleep(max(0.1, self._settings.refresh - spent))

    async def _refresh_accounts(self) -> None:
        """Beside the other: slurmdbd may be away for long."""
        while not self._stop.is_set():
            try:
                await asyncio.to_thread(self._accounts.refresh)
            except Exception:
                log.exception("reading the accounts failed")
            await asyncio.sleep(self._settings.refresh)

    def _cycle(self, started: float) -> None:
        state = self._read(started)
        state = replace(state, accounts=self._accounts.latest)
        view = make_view(state, self._policy.library, self._knowledge.known)
        unsupported = why_unsupported(view.release)
        if unsupported:
            raise ServiceError(unsupported)
        self._snapshot.swap(view)
        self._binder.bind_held()

    def _look_at_shape(self) -> None:
        """Devices that went out of service free their jobs at once."""
        current = self._snapshot.current()
        shape = shape_of(current[0]) if current else ()
        if self._shape and shape != self._shape:
            self._wake.set()
        self._shape = shape

    async def _rebind(self) -> None:
        """Cycles of late binding; a long one is followed by a longer pause."""
        rules, failing = self._policy.site.rebind, ""
        await asyncio.to_thread(self._rebinder.prepare)
        while True:
            started, why = time.monotonic(), ""
            try:
                await asyncio.to_thread(self._rebinder.run, moving=rules.enabled)
            except HpcmgrError as error:
                why = error.message
            except Exception:
                log.exception("late binding failed")
            if why and why != failing:
                log.warning("late binding: %s", why)
            failing = why
            spent = time.monotonic() - started
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), max(rules.interval, 10 * spent) - spent)
            self._wake.clear()

    async def _cycle_now(self) -> dict[str, object]:
        """For ``hpcmgr rebind``: one cycle, and what it did."""
        try:
            cycle = await asyncio.to_thread(self._rebinder.run, moving=True)
        except HpcmgrError as error:
            return {"error": error.message}
        except Exception:
            log.exception("late binding failed")
            return {"error": "the service failed; its log says why"}
        return {"jobs": list(cycle.rows())}

    def _complain(self, text: str) -> None:
        """Say once that Slurm cannot be read, and once that it can again."""
        if text and text != self._failing:
            log.warning("cannot read the cluster: %s", text)
        elif self._failing and not text:
            log.info("the cluster can be read again")
        self._failing = text


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """One line; an overlong one is returned cut, so that it is answered as wrong."""
    try:
        return await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError:
        return b"x" * (MAX_LINE + 1)


def _listen(path: Path) -> socket.socket:
    """A listening socket that only its owner may use.

    Raises:
        ServiceError: another service answers there, or the place cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        probe = socket.socket(socket.AF_UNIX)
        with contextlib.closing(probe), contextlib.suppress(OSError):
            probe.settimeout(1)
            probe.connect(str(path))
            raise ServiceError(
                f"another service answers on {path}", "stop it first, or set service.socket"
            )
        path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError as error:
        raise ServiceError(f"{path}: {error.strerror}", "set service.socket") from error
    finally:
        os.umask(before)
    listener.listen(512)
    return listener


def lock_state(directory: Path) -> IO[str]:
    """Hold the service's state for this process; kept open as long as it runs.

    Raises:
        ServiceError: a second service, or the directory cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / "lock").open("w")
    except OSError as error:
        raise ServiceError(
            f"{directory}: {error.strerror}", "it must belong to the user that runs the service"
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ServiceError(
            f"another service uses {directory}", "two services would bind jobs twice"
        ) from error
    return file


_SWITCH_SECONDS = 0.0005


def serve(policy: Policy) -> None:
    """Run the service in the foreground.

    Raises:
        ServiceError: it cannot start.
        ConfigError: the reader that the site asks for cannot be used.
    """
    slurm = policy.site.slurm
    read = open_reader(slurm.reader, slurm.conf_dir)
    # While the refresh reads thousands of nodes, an answer waits this long for its turn, not 5 ms.
    sys.setswitchinterval(_SWITCH_SECONDS)
    with lock_state(policy.site.service.state_dir):
        asyncio.run(_run(policy, read))


async def _run(policy: Policy, read: ReadCluster) -> None:
    await Server(policy, read).run()
