"""``hpcmgr serve``: everything that is slow, beside the process that answers (answerer.py)."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import IO

from hpcmgr.admit import Policy
from hpcmgr.errors import HpcmgrError, ServiceError
from hpcmgr.service.accounts import AccountsPicture
from hpcmgr.service.answerer import start
from hpcmgr.service.binder import Binder, Shape, shape_of
from hpcmgr.service.door import Door
from hpcmgr.service.journal import Journal
from hpcmgr.service.knowledge import Knowledge
from hpcmgr.service.link import Link
from hpcmgr.service.rebinder import Rebinder
from hpcmgr.service.snapshot import Snapshot
from hpcmgr.service.sockets import control_path, listen
from hpcmgr.service.wire import (
    MAX_LINE,
    encode,
    wants_cycle,
)
from hpcmgr.slurm.backend import ReadCluster, open_reader
from hpcmgr.slurm.capability import why_unsupported
from hpcmgr.slurm.reader import read_cluster
from hpcmgr.submit.view import make_view

log = logging.getLogger(__name__)

_CLIENT_SECONDS = 5.0
_NICER = 10
_NO_CYCLE: dict[str, object] = {"error": "op is not 'rebind'"}
_LEARN_SECONDS = 5.0
"""So long the first picture of the cluster waits for the inventories."""


class Server:
    """All of the service but the answers, which ``link`` leads to: a snapshot that is refreshed, a
    journal, a binder of held jobs, late binding, the door."""

    def __init__(self, policy: Policy, link: Link, read: ReadCluster = read_cluster) -> None:
        settings = policy.site.service
        self._read = read
        self._policy = policy
        self._settings = settings
        self._link = link
        self._snapshot = Snapshot(settings.tentative, settings.snapshot_max_age, follower=link)
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
        self._lost = False

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT.

        Raises:
            ServiceError: the answering process has ended.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        control = control_path(self._settings.socket)
        server = await asyncio.start_unix_server(
            self._control, sock=listen(control), limit=MAX_LINE
        )
        threading.Thread(target=self._hear_answers, args=(loop,), daemon=True).start()
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
            self._link.close()
            await asyncio.gather(*tasks, return_exceptions=True)
            control.unlink(missing_ok=True)
            self._settings.socket.unlink(missing_ok=True)
            self._journal.close()
        if self._lost:
            raise ServiceError(
                "the process that answers job_submit.lua has ended", "the log above says why"
            )

    def _hear_answers(self, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread, until the answering process is gone, which ends this one too."""
        self._link.listen({"granted": self._snapshot.debit, "decided": self._decided})
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is interested
            loop.call_soon_threadsafe(self._gone)

    def _gone(self) -> None:
        self._lost = not self._stop.is_set()
        self._stop.set()

    async def _control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """``hpcmgr rebind`` asks for a cycle and is told what it did."""
        try:
            async with asyncio.timeout(_CLIENT_SECONDS):
                line = await _read_line(reader)
            if line:
                answer = await self._cycle_now() if wants_cycle(line) else _NO_CYCLE
                async with asyncio.timeout(_CLIENT_SECONDS):
                    writer.write(encode(answer))
                    await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, TimeoutError):
                await writer.wait_closed()

    def _decided(self, uid: int, request: str, record: dict[str, object]) -> None:
        """A submission was answered."""
        if record["error"]:
            # Perhaps for a limit that was just raised: the next one shall see it.
            self._accounts.hurry()
        trace = str(record["trace"])
        self._journal.note(trace, kind="submit", request=request, record=record, uid=uid)

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


def serve(policy: Policy) -> None:
    """Run the service in the foreground.

    Raises:
        ServiceError: it cannot start, or a part of it has ended.
        ConfigError: the reader that the site asks for cannot be used.
    """
    slurm, service = policy.site.slurm, policy.site.service
    with lock_state(service.state_dir):
        link = start(policy, listen(service.socket))
        # Where both want a core, answers come first.
        os.nice(_NICER)
        read = open_reader(slurm.reader, slurm.conf_dir)
        asyncio.run(_run(policy, link, read))


async def _run(policy: Policy, link: Link, read: ReadCluster) -> None:
    await Server(policy, link, read).run()
