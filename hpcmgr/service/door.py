"""The door: ordinary users ask about their jobs and what a request would become; nodes bring their
inventory.

Nothing here may delay a submission, which is answered by the same event loop: the loop only moves
bytes, at a bounded pace and for a bounded number of visitors; everything else (munge, the journal,
a quote, an inventory) runs in two threads of the door's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import pwd
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hpcmgr.admit import Policy, decide
from hpcmgr.errors import CredentialError, HpcmgrError, ServiceError, WireError
from hpcmgr.inventory.packed import digest_of
from hpcmgr.service.doorwire import (
    MAX_LINE,
    VERSION,
    Explain,
    Facts,
    LastInventory,
    Publish,
    Quote,
    Request,
    parts_of,
    read_request,
)
from hpcmgr.service.factswire import rows_of
from hpcmgr.service.intake import Intake, Refused
from hpcmgr.service.journal import describe, read, traces_of
from hpcmgr.service.snapshot import Snapshot
from hpcmgr.service.throttle import Throttle
from hpcmgr.settings import split_address
from hpcmgr.slurm import munge
from hpcmgr.submit.request import read_fields
from hpcmgr.submit.view import ClusterView

log = logging.getLogger(__name__)

_VISITORS, _VISITORS_PER_HOST = 64, 16
_VISIT_SECONDS = 5.0
_ACCEPTS_PER_SECOND = 200
_RETRY_SECONDS = 30.0
_MOST_RECORDS = 200
Answer = dict[str, object]


class Door:
    """One listener. ``journal``: the file of the decision journal."""

    def __init__(self, policy: Policy, snapshot: Snapshot, journal: Path) -> None:
        self._policy = policy
        self._snapshot = snapshot
        self._journal = journal
        self._admins = _admins(policy.site.slurm.user)
        self._intake = Intake(policy.site.inventory)
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="door")
        self._slots = asyncio.Semaphore(_VISITORS)
        self._inside: dict[str, int] = {}
        self._visits: set[asyncio.Task[None]] = set()
        # A login node is one host with many users, hence the generous first one.
        self._hosts = Throttle(per_second=20, burst=100)
        self._users = Throttle(per_second=2, burst=20)

    async def serve(self, address: str) -> None:
        """Serve until cancelled. An address that cannot be had is tried again, and logged."""
        try:
            while True:
                try:
                    with _listen(address) as listener:
                        log.warning("door for users on %s", address)
                        await self._accept(listener)
                except OSError as error:
                    log.error("door %s: %s", address, error.strerror or error)  # noqa: TRY400
                except Exception:
                    log.exception("door %s", address)
                await asyncio.sleep(_RETRY_SECONDS)
        finally:
            for visit in self._visits:
                visit.cancel()
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _accept(self, listener: socket.socket) -> None:
        """One visitor after the other; who comes while all places are taken waits in the kernel."""
        loop = asyncio.get_running_loop()
        while True:
            await self._slots.acquire()
            try:
                connection, peer = await loop.sock_accept(listener)
            except OSError as error:  # out of files: they will be closed again
                self._slots.release()
                log.warning("door: %s", error.strerror)
                await asyncio.sleep(1)
                continue
            except asyncio.CancelledError:
                self._slots.release()
                raise
            visit = asyncio.create_task(self._visit(connection, str(peer[0])))
            self._visits.add(visit)
            visit.add_done_callback(self._gone)
            await asyncio.sleep(1 / _ACCEPTS_PER_SECOND)

    def _gone(self, visit: asyncio.Task[None]) -> None:
        self._visits.discard(visit)
        self._slots.release()

    async def _visit(self, connection: socket.socket, host: str) -> None:
        """Count the visitor in and out."""
        inside = self._inside.get(host, 0)
        if inside >= _VISITORS_PER_HOST:
            connection.close()
            return
        self._inside[host] = inside + 1
        try:
            reader, writer = await asyncio.open_connection(sock=connection, limit=MAX_LINE)
            await self._converse(reader, writer, host)
        except OSError:
            connection.close()  # gone before it said a word
        except Exception:
            log.exception("door: a visit failed")
        finally:
            self._inside[host] -= 1
            if not self._inside[host]:
                del self._inside[host]

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str
    ) -> None:
        """Read a line, answer it, hang up; all within a few seconds."""
        writer.transport.set_write_buffer_limits(high=0)
        try:
            async with asyncio.timeout(_VISIT_SECONDS):
                answer = await self._answer(reader, host)
                writer.write(_encode(answer))
                await writer.drain()
            writer.close()
        except (TimeoutError, ConnectionError):
            writer.transport.abort()  # slow, or gone
        except BaseException:
            writer.transport.abort()
            raise

    async def _answer(self, reader: asyncio.StreamReader, host: str) -> Answer:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            line = error.partial
        except asyncio.LimitOverrunError:
            return _refusal("bad-request", f"line is longer than {MAX_LINE >> 10} KiB")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._handle, line, host)

    def _handle(self, line: bytes, host: str) -> Answer:
        """In a thread of the door: from the line to the answer."""
        try:
            credential, body = parts_of(line)
            if not self._hosts.allows(host):
                return _refusal("busy", "too many requests from this host; try again in a second")
            uid, payload = munge.decode(credential)
            # Every node comes as root: they are held by host alone.
            if uid not in self._admins and not self._users.allows(uid):
                return _refusal("busy", "too many requests of this user; try again in a second")
            return self._done(read_request(payload), uid, body, host)
        except CredentialError as error:
            log.info("door: %s: %s", host, error.message)
            return _refusal("credential", error.message, error.hint)
        except WireError as error:
            return _refusal("bad-request", error.message)
        except Refused as error:
            log.warning("door: %s: %s", host, error.message)
            return _refusal("refused", error.message, error.hint)
        except HpcmgrError as error:
            return _refusal("unavailable", error.message)
        except Exception:
            log.exception("door: a request failed")
            return _refusal("internal", "the service failed; its log says why")

    def _done(self, request: Request, uid: int, body: str, host: str) -> Answer:
        if isinstance(request, Explain):
            return self._explain(request, uid)
        if isinstance(request, Quote):
            return self._quote(request, uid)
        if isinstance(request, Facts):
            return {"facts": rows_of(self._current()[0])}
        return self._inventory(request, uid, body, host)

    def _explain(self, request: Explain, uid: int) -> Answer:
        traces = [request.trace] if request.trace else traces_of(self._journal, request.job)
        records = [r for trace in traces for r in read(self._journal, trace=trace)]
        owners = {record["uid"] for record in records if record["uid"] >= 0}
        if records and uid not in self._admins and owners != {uid}:
            return _refusal("forbidden", "the journal shows a job's records to its owner only")
        return {"records": records[-_MOST_RECORDS:]}

    def _quote(self, request: Quote, uid: int) -> Answer:
        """As sbatch of that user would be answered: account and QOS are those of his own jobs."""
        view, granted = self._current()
        fields: dict[str, object] = {**request.fields, "batch": True}
        with contextlib.suppress(KeyError):
            fields["user_name"] = pwd.getpwuid(uid).pw_name
        decision = decide(read_fields(fields), self._policy, view, granted, "quote")
        return {"quote": describe(decision), "age_s": round(self._snapshot.age or 0.0, 3)}

    def _current(self) -> tuple[ClusterView, dict[str, int]]:
        current = self._snapshot.current()
        if current is None:
            raise ServiceError("the service has no recent picture of the cluster")
        return current

    def _inventory(
        self, request: LastInventory | Publish, uid: int, body: str, host: str
    ) -> Answer:
        if self._policy.site.publish != "push":
            raise ServiceError("this site's nodes publish in a shared folder: site.yaml, publish")
        if uid not in self._admins:
            return _refusal("forbidden", "inventories are for root and SlurmUser")
        if isinstance(request, LastInventory):
            return self._intake.last(request.node)
        if digest_of(body) != request.sha256:
            return _refusal("bad-request", "the body is not the one of the credential")
        answer = self._intake.take(request.node, body, accept=request.accept)
        log.info("door: inventory of %s from %s", request.node, host)
        return answer


def _encode(answer: Answer) -> bytes:
    return json.dumps({"v": VERSION, **answer}, separators=(",", ":")).encode() + b"\n"


def _refusal(code: str, detail: str, hint: str = "") -> Answer:
    return {"error_code": code, "detail": detail, "hint": hint}


def _admins(slurm_user: str) -> frozenset[int]:
    """Who sees everything: root, SlurmUser, and whoever the service runs as."""
    with contextlib.suppress(KeyError):
        return frozenset({0, os.geteuid(), pwd.getpwnam(slurm_user).pw_uid})
    return frozenset({0, os.geteuid()})


def _listen(address: str) -> socket.socket:
    """A listening socket with a short queue: who floods it waits in vain, and we do not."""
    host, port = split_address(address)
    family, _, _, _, place = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.create_server(place[:2], family=family, backlog=64)
    listener.setblocking(False)
    return listener
