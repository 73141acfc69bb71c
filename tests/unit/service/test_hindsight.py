"""The doctor's sentence about estimates."""

from __future__ import annotations

import time
from pathlib import Path

from hpcmgr.service.hindsight import summary
from hpcmgr.service.journal import Journal


def test_half_of_them_and_nine_of_ten(tmp_path: Path) -> None:
    """Errors of 1 to 10 minutes, either way; two moves."""
    path = tmp_path / "j"
    journal = Journal(path)
    for minutes in range(1, 11):
        error = 60 * minutes * (-1) ** minutes
        journal.note(f"t-{minutes}", kind="start", request="compute:8",
                     record={"estimate": {"first": {"error_s": error}}})  # fmt: skip
    for trace in ("t-1", "t-2"):
        journal.note(trace, kind="move", request="compute:8", record={})
    journal.note("t-3", kind="start", request="compute:8", record={"estimate": None})
    journal.close()

    said = summary(path, time.time())

    assert said.startswith("late binding made 2 moves in 7 days; 10 jobs started, half of them")
    assert "within 6 min" in said
    assert said.endswith("nine of ten within 10 min")


def test_silence_where_there_is_nothing_to_say(tmp_path: Path) -> None:
    """No journal, or one with too little in it."""
    assert summary(tmp_path / "none", time.time()) == ""
    journal = Journal(tmp_path / "j")
    journal.note("t-1", kind="move", request="compute:8", record={})
    journal.close()

    assert summary(tmp_path / "j", time.time()) == ""
