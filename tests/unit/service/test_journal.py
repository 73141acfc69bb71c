"""The journal keeps every decision, and never stops one."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path

import pytest

from hpcmgr.errors import ServiceError
from hpcmgr.service.journal import Journal, read
from tests.builders import A100, ASCEND, cluster, node, policy, submit

RULES = policy(A100, ASCEND)
STATE = cluster(node("a01", gres={"gpu:a100": 2}), node("n01", gres={"npu:ascend910b3": 2}))


def test_a_decision_is_read_back_with_all_its_candidates(tmp_path: Path) -> None:
    """By trace or by job; terms and reasons with it."""
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    journal.put(submit(STATE, RULES, "compute:cuda:8"), uid=2001)
    journal.put(submit(STATE, RULES, "compute:8"), kind="bind", job_id="7")
    journal.close()

    [first, _] = list(read(path, trace="t-1"))
    [second] = list(read(path, job_id="7"))

    assert first["request"] == "compute:cuda:8"
    assert first["candidates"][0]["terms"]["fit"] == 1.0
    assert first["candidates"][1]["refused"] == "not what was asked for"
    assert second["kind"] == "bind"


def test_a_journal_that_cannot_be_written_loses_records_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk or a broken file is logged; put() goes on."""
    path = tmp_path / "journal.sqlite"
    path.write_text("this is no database, but long enough to be taken for one" * 20)
    journal = Journal(path)
    journal.put(submit(STATE, RULES, "compute:8"))
    journal.close()

    assert "1 records lost" in caplog.text


def test_a_missing_or_broken_journal_is_said_in_words(tmp_path: Path) -> None:
    """explain tells where it looked."""
    broken = tmp_path / "broken.sqlite"
    broken.write_text("no database at all" * 100)

    with pytest.raises(ServiceError, match="no journal at"):
        list(read(tmp_path / "none.sqlite", trace="t-1"))
    with pytest.raises(ServiceError, match="broken"):
        list(read(broken, trace="t-1"))


def test_a_journal_that_is_deleted_comes_back_private(tmp_path: Path) -> None:
    """Whatever the umask: what others ask for is nobody else's business."""
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    before = os.umask(0)
    try:
        deadline = time.monotonic() + 10
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        path.unlink()
        journal.put(submit(STATE, RULES, "compute:8"))
        journal.close()
    finally:
        os.umask(before)

    assert path.stat().st_mode & 0o777 == 0o600


def test_it_forgets_what_is_old_and_keeps_what_lives(tmp_path: Path) -> None:
    """By age: the old record of a job that still waits stays. By size: the oldest quarter goes."""
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    for name in ("t-0001", "t-0002", "t-0003"):
        journal.note(name, kind="move", request="compute:8", record={"messages": [name]})
    journal.close()
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE decision SET at = 5 WHERE trace != 't-0003'")

    journal = Journal(path)
    journal.prune(100.0, 1 << 30, frozenset({"t-0002"}))
    journal.close()
    assert [len(list(read(path, trace=f"t-000{i}"))) for i in (1, 2, 3)] == [0, 1, 1]

    journal = Journal(path)
    for number in range(8):
        journal.note(f"s-000{number}", kind="move", request="", record={"text": "x" * 9000})
    journal.prune(0.0, 1 << 10, frozenset({"t-0002"}))
    journal.close()
    assert list(read(path, trace="s-0007"))
    assert not list(read(path, trace="t-0003"))
    assert list(read(path, trace="t-0002"))
    assert path.stat().st_size < 200 << 10
