"""What a job must ask of its nodes so that Slurm takes none that cannot serve it: Slurm places by
device type, and nodes of one type may differ in features and drivers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from hpcmgr.slurm.hostlist import fold
from hpcmgr.submit.messages import text
from hpcmgr.submit.request import JobFields

_PLAIN = re.compile(r"[\w.-]+(?:[&,][\w.-]+)*")
_ALTERNATIVES = re.compile(r"[\w.&|()-]+")
_MOST = 16_384
"""Characters of a list of nodes that the shim takes."""


def require(
    fields: JobFields, features: Sequence[str], avoid: Iterable[str]
) -> tuple[dict[str, str | int], tuple[str, ...]]:
    """Fields that keep the job off other nodes, with what the user is told.

    ``features``: nodes must have them all; ``avoid``: names of nodes that it must not get.
    """
    values: dict[str, str | int] = {}
    notes: list[str] = []
    joined = join_features(fields.string("features"), features)
    if joined is None:
        notes.append(text("not_required", features="&".join(features)))
    elif joined != fields.string("features"):
        values["features"] = joined
    names = frozenset(avoid)
    if names:
        listed = ",".join(part for part in (fields.string("exc_nodes"), _folded(names)) if part)
        if len(listed) <= _MOST:
            values["exc_nodes"] = listed
        notes.append(text("left_out", nodes=len(names)))
    return values, tuple(notes)


def join_features(asked: str, wanted: Sequence[str]) -> str | None:
    """The user's constraint and the class's; None where Slurm cannot join them (counts, brackets).

    ``a|b`` and ``c`` → ``(a|b)&c``.
    """
    if not asked or _PLAIN.fullmatch(asked):
        mine = [word for word in re.split(r"[&,]", asked) if word]
        return "&".join(dict.fromkeys([*mine, *wanted])) if wanted else asked
    if not wanted or asked.endswith(f"&{'&'.join(wanted)}"):
        return asked
    outside = re.sub(r"\([^()]*\)", "", asked)
    if not _ALTERNATIVES.fullmatch(asked) or ("|" in outside and "(" in asked):
        return None  # brackets in brackets are no constraint for Slurm
    return "&".join([f"({asked})" if "|" in outside else asked, *wanted])


@lru_cache(64)
def _folded(names: frozenset[str]) -> str:
    return fold(names)
