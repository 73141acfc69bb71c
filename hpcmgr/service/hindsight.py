"""How good the estimates of late binding were, from the journal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from hpcmgr.errors import ServiceError
from hpcmgr.service.journal import records_since

_DAYS = 7
_FEW = 5
"""Fewer starts say nothing."""


def summary(journal: Path, now: float) -> str:
    """One sentence about the last days, "" where the journal cannot be read or holds too little."""
    if not os.access(journal, os.R_OK):
        return ""
    try:
        rows = records_since(journal, now - 86400.0 * _DAYS, ("start", "move"))
    except ServiceError:
        return ""
    moves = sum(kind == "move" for kind, _ in rows)
    errors = sorted(abs(error) for error in _errors(text for kind, text in rows if kind == "start"))
    if len(errors) < _FEW:
        return ""
    most = errors[len(errors) * 9 // 10]
    return (
        f"late binding made {moves} moves in {_DAYS} days; {len(errors)} jobs started, half of "
        f"them within {_minutes(median(errors))} of what was expected when they were first seen, "
        f"nine of ten within {_minutes(most)}"
    )


def _errors(texts: Iterable[str]) -> Iterable[float]:
    """Seconds from what was first expected to the start."""
    for text in texts:
        try:
            yield float(json.loads(text)["estimate"]["first"]["error_s"])
        except (ValueError, LookupError, TypeError):
            continue


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
