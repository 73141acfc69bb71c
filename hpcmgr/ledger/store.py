"""The ledger's file: SQLite, one writer at a time, on a local disk of the controller."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from pathlib import Path

from hpcmgr.errors import LedgerError
from hpcmgr.ledger.record import COLUMNS, Event, Record

VERSION = 1
_SECONDS = 20.0
"""How long one update waits for another."""

_TYPES = {"id": "INTEGER PRIMARY KEY", "chip": "INTEGER", "numa": "INTEGER", "number": "INTEGER",
          "memory": "INTEGER", "moves": "INTEGER", "first": "REAL", "last": "REAL",
          "since": "REAL", "gone": "REAL"}  # fmt: skip
_TABLES = f"""
CREATE TABLE device ({", ".join(f"{name} {_TYPES.get(name, 'TEXT')}" for name in COLUMNS)});
CREATE TABLE event (device INTEGER NOT NULL, at REAL, what TEXT, node TEXT, text TEXT);
CREATE INDEX event_device ON event (device, at);
CREATE TABLE told (name TEXT PRIMARY KEY, value REAL);
PRAGMA user_version = {VERSION};
"""


class Ledger:
    """The ledger at ``path``. Every method opens it anew."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def records(self) -> list[Record]:
        """All devices, present ones first, by node and place.

        Raises:
            LedgerError: there is no ledger, or it cannot be read.
        """
        with self._reading() as db:
            rows = db.execute(f"SELECT {', '.join(COLUMNS)} FROM device").fetchall()  # noqa: S608
        records = [Record(*row) for row in rows]
        return sorted(records, key=lambda r: (r.gone is not None, r.node, r.key, r.id))

    def events(self, device: int) -> list[Event]:
        """What happened to a device, oldest first."""
        query = "SELECT at, what, node, text FROM event WHERE device = ? ORDER BY at, rowid"
        with self._reading() as db:
            return [Event(*row) for row in db.execute(query, (device,))]

    def updated(self) -> float | None:
        """When inventories were last taken in, seconds since 1970."""
        with self._reading() as db:
            row = db.execute("SELECT value FROM told WHERE name = 'updated'").fetchone()
        return None if row is None else float(row[0])

    @contextlib.contextmanager
    def writing(self) -> Iterator[Writer]:
        """One update: all of it or nothing, and no other at the same time.

        Raises:
            LedgerError: it cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(
                sqlite3.connect(self.path, timeout=_SECONDS, isolation_level=None)
            ) as db:
                db.execute("BEGIN IMMEDIATE")
                try:
                    _prepare(db, self.path)
                    yield Writer(db)
                except BaseException:
                    db.execute("ROLLBACK")
                    raise
                db.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(
                f"ledger {self.path}: {error}",
                "it is written on the controller, by root or SlurmUser; 'ledger' in site.yaml may "
                "name another place on a local disk",
            ) from error

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if not self.path.exists():
            raise LedgerError(
                f"no ledger at {self.path}",
                "on the controller run 'hpcmgr ledger --update'; elsewhere there is none",
            )
        try:
            with contextlib.closing(
                sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True,
                                timeout=_SECONDS)
            ) as db:  # fmt: skip
                _check_version(db, self.path)
                yield db
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(f"ledger {self.path}: {error}") from error


class Writer:
    """An update in progress."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def records(self) -> list[Record]:
        """All devices, in the order in which they were first seen."""
        query = f"SELECT {', '.join(COLUMNS)} FROM device ORDER BY id"  # noqa: S608
        return [Record(*row) for row in self._db.execute(query)]

    def add(self, record: Record) -> int:
        """A new device; its id."""
        marks = ", ".join("?" for _ in COLUMNS)
        done = self._db.execute(f"INSERT INTO device VALUES ({marks})", _values(record))  # noqa: S608
        record.id = done.lastrowid
        return int(done.lastrowid or 0)

    def replace(self, record: Record) -> None:
        """The same device, seen again."""
        pairs = ", ".join(f"{name} = ?" for name in COLUMNS)
        self._db.execute(
            f"UPDATE device SET {pairs} WHERE id = ?",  # noqa: S608
            (*_values(record), record.id),
        )

    def tell(self, device: int, events: Iterable[Event]) -> None:
        """What happened to a device."""
        self._db.executemany(
            "INSERT INTO event VALUES (?, ?, ?, ?, ?)",
            [(device, e.at, e.what, e.node, e.text) for e in events],
        )

    def done(self, now: float) -> None:
        """Note the time of this update."""
        self._db.execute("INSERT OR REPLACE INTO told VALUES ('updated', ?)", (now,))


def _values(record: Record) -> tuple[object, ...]:
    return astuple(record)[: len(COLUMNS)]


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    if _version(db) == 0 and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
        # executescript would end the transaction.
        for statement in _TABLES.split(";"):
            if statement.strip():
                db.execute(statement)
    _check_version(db, path)


def _check_version(db: sqlite3.Connection, path: Path) -> None:
    found = _version(db)
    if found != VERSION:
        raise LedgerError(
            f"ledger {path}: is of version {found}, this hpcmgr knows {VERSION}",
            "move it away and run 'hpcmgr ledger --update', or use the hpcmgr that wrote it",
        )


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
