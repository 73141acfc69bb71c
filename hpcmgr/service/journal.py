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


class Journal:
    """Append-only. ``put`` never blocks and never fails."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: queue.Queue[tuple[Any, ...] | None] = queue.Queue(_BACKLOG)
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
            self._store([r for r in rows if r is not None])
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
                    [(*row[:-1], json.dumps(describe(row[-1]))) for row in rows],
                )
        except (sqlite3.Error, OSError) as error:
            self._lost += len(rows)
            log.error("journal %s: %s (%d records lost so far)", self._path, error, self._lost)  # noqa: TRY400


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


def _select(path: Path, query: str, value: str) -> list[tuple[Any, ...]]:
    try:
        if not path.exists():
            raise ServiceError(
                f"no journal at {path}", "is 'hpcmgr serve' of this site running here?"
            )
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return db.execute(query, (value,)).fetchall()
    except (sqlite3.Error, OSError) as error:
        raise ServiceError(f"journal {path}: {error}") from error
