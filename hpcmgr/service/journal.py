"""The decision journal: SQLite, written by a thread of its own, never on the submit path.

A full disk or a broken file loses records, is logged, and never stops an answer.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcmgr.admit import Decision
from hpcmgr.errors import ServiceError
from hpcmgr.submit.candidates import Candidate
from hpcmgr.submit.score import TERMS

log = logging.getLogger(__name__)

_TABLE = """
CREATE TABLE IF NOT EXISTS decision (
    trace TEXT, at REAL, kind TEXT, job_id TEXT, uid INTEGER, request TEXT, record TEXT
);
CREATE INDEX IF NOT EXISTS decision_trace ON decision (trace);
CREATE INDEX IF NOT EXISTS decision_job ON decision (job_id);
"""
_BACKLOG = 100_000


_OLDEST_QUARTER = """
SELECT at FROM decision ORDER BY at LIMIT 1 OFFSET (SELECT count(*) / 4 FROM decision)
"""


@dataclass(frozen=True, slots=True)
class _Prune:
    before: float
    most_bytes: int
    keep: frozenset[str]


class Journal:
    """Append-only. ``put`` never blocks and never fails."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: queue.Queue[tuple[Any, ...] | _Prune | None] = queue.Queue(_BACKLOG)
        self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
        self._lost = 0
        self._thread.start()

    def put(
        self, decision: Decision, *, kind: str = "submit", uid: int = -1, job_id: str = ""
    ) -> None:
        """Record a decision with all its candidates and their terms."""
        row = (decision.trace, time.time(), kind, job_id, uid, decision.request, decision)
        try:
            self._queue.put_nowait(row)
        except queue.Full:
            self._lost += 1

    def note(
        self,
        trace: str,
        *,
        kind: str,
        request: str,
        record: dict[str, object],
        uid: int = -1,
        job_id: str = "",
    ) -> None:
        """Record something that is no decision: a move, a start."""
        try:
            self._queue.put_nowait((trace, time.time(), kind, job_id, uid, request, record))
        except queue.Full:
            self._lost += 1

    def prune(self, before: float, most_bytes: int, keep: frozenset[str]) -> None:
        """Forget what was recorded before that time, and the oldest quarter where the file is
        larger than so many bytes; traces in ``keep`` stay. Done by the writing thread."""
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(_Prune(before, most_bytes, keep))

    def close(self, timeout: float = 5.0) -> None:
        """Write what is left, then stop."""
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)
        self._thread.join(timeout)

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            self._make_private()
            self._path.chmod(0o600)  # one that an earlier version left open
        while True:
            row = self._queue.get()
            rows = [row]
            with contextlib.suppress(queue.Empty):
                while len(rows) < 500:
                    rows.append(self._queue.get_nowait())
            last = None in rows
            self._store([r for r in rows if isinstance(r, tuple)])
            for row in rows:
                if isinstance(row, _Prune):
                    self._forget(row)
            if last:
                return

    def _make_private(self) -> None:
        # What others ask for is nobody else's business; the door shows each his own.
        os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600))

    def _store(self, rows: list[tuple[Any, ...]]) -> None:
        if not rows:
            return
        try:
            self._make_private()  # each time: it may have been deleted under us
            with contextlib.closing(sqlite3.connect(self._path, timeout=5)) as db, db:
                db.executescript(_TABLE)
                db.executemany(
                    "INSERT INTO decision VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [(*row[:-1], _text(row[-1])) for row in rows],
                )
        except (sqlite3.Error, OSError) as error:
            self._lost += len(rows)
            log.error("journal %s: %s (%d records lost so far)", self._path, error, self._lost)  # noqa: TRY400

    def _forget(self, what: _Prune) -> None:
        if not self._path.exists():
            return
        try:
            with contextlib.closing(sqlite3.connect(self._path, timeout=5)) as db:
                db.executescript(_TABLE)
                _delete(db, what.before, what.keep)
                if self._path.stat().st_size > what.most_bytes:
                    quarter = db.execute(_OLDEST_QUARTER).fetchone()
                    if quarter:
                        _delete(db, quarter[0], what.keep)
                    db.execute("VACUUM")  # only this gives the room back
        except (sqlite3.Error, OSError) as error:
            log.error("journal %s cannot be pruned: %s", self._path, error)  # noqa: TRY400


def _delete(db: sqlite3.Connection, before: float, keep: frozenset[str]) -> None:
    with db:
        db.execute("CREATE TEMP TABLE IF NOT EXISTS live (trace TEXT PRIMARY KEY)")
        db.executemany("INSERT OR IGNORE INTO live VALUES (?)", [(trace,) for trace in keep])
        db.execute("DELETE FROM decision WHERE at < ? AND trace NOT IN live", (before,))


def _text(record: Decision | dict[str, object]) -> str:
    return json.dumps(describe(record) if isinstance(record, Decision) else record)


def describe(decision: Decision) -> dict[str, object]:
    """A decision as plain data."""
    return {
        "trace": decision.trace,
        "request": decision.request,
        "error": decision.error,
        "binding": dict(decision.rewrite.binding) if decision.rewrite else None,
        "set": dict(decision.rewrite.set) if decision.rewrite else None,
        "messages": list(decision.rewrite.messages) if decision.rewrite else [],
        "terms": {
            name: {"weight": weight, "unit": TERMS[name]}
            for name, weight in decision.weights.items()
        },
        "candidates": [
            *(_candidate(c) for c in decision.ranked),
            *(_candidate(c) for c in decision.refused),
        ],
    }


def _candidate(candidate: Candidate) -> dict[str, object]:
    if candidate.refused:
        return {"profile": candidate.name, "refused": candidate.refused}
    return {
        "profile": candidate.name,
        "gres": candidate.gres,
        "devices": candidate.devices,
        "becomes": candidate.becomes,
        "units": candidate.units,
        "vram_gib": candidate.vram_gib,
        "nodes": candidate.node_count,
        "score": candidate.score,
        "terms": {name: round(value, 4) for name, value in candidate.terms.items()},
        "waits": candidate.waits,
        "estimated": list(candidate.estimated),
    }


def read(path: Path, *, trace: str = "", job_id: str = "") -> Iterator[dict[str, Any]]:
    """Records of one trace or job, oldest first.

    Raises:
        ServiceError: the journal cannot be read.
    """
    query = "SELECT trace, at, kind, job_id, uid, request, record FROM decision WHERE "
    query += "trace = ?" if trace else "job_id = ?"
    for row in _select(path, query + " ORDER BY at", trace or job_id):
        names = ("trace", "at", "kind", "job_id", "uid", "request")
        yield {**dict(zip(names, row, strict=False)), **json.loads(row[-1])}


def traces_of(path: Path, job_id: str) -> list[str]:
    """Traces whose records name a job; a submission's own record knows no job id yet.

    Raises:
        ServiceError: the journal cannot be read.
    """
    query = "SELECT trace FROM decision WHERE job_id = ? GROUP BY trace ORDER BY min(at)"
    return [row[0] for row in _select(path, query, job_id)]


def records_since(path: Path, at: float, kinds: tuple[str, ...]) -> list[tuple[str, str]]:
    """Kind and record, as written, of the last 10,000 records of these kinds since ``at``.

    Raises:
        ServiceError: the journal cannot be read.
    """
    marks = ",".join("?" * len(kinds))
    query = "SELECT kind, record FROM decision WHERE at >= ? "
    query += f"AND kind IN ({marks}) ORDER BY at DESC LIMIT 10000"
    return [(row[0], row[1]) for row in _select(path, query, at, *kinds)]


def _select(path: Path, query: str, *values: str | float) -> list[tuple[Any, ...]]:
    try:
        if not path.exists():
            raise ServiceError(
                f"no journal at {path}", "is 'hpcmgr serve' of this site running here?"
            )
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return db.execute(query, values).fetchall()
    except (sqlite3.Error, OSError) as error:
        raise ServiceError(f"journal {path}: {error}") from error
