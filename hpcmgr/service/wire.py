"""One JSON object a line, version 1 (docs/wire.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hpcmgr.admit import Decision
from hpcmgr.errors import WireError
from hpcmgr.submit.request import JobFields, read_fields

VERSION = 1
MAX_LINE = 64 << 10


class VersionError(WireError):
    """The line speaks a version that this service does not."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A request line; ``uid`` is the submitting user's."""

    uid: int
    fields: JobFields


def decode(line: bytes) -> Submission:
    """Read a request line.

    Raises:
        VersionError: another version.
        WireError: anything else that is wrong with it.
    """
    if len(line) > MAX_LINE:
        raise WireError(f"line is longer than {MAX_LINE >> 10} KiB")
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WireError(f"no valid JSON: {error}") from error
    if not isinstance(data, dict):
        raise WireError("no JSON object")
    version = data.get("v")
    if not isinstance(version, int) or isinstance(version, bool):
        raise WireError("no version")
    if version != VERSION:
        raise VersionError(f"version {version}, this service speaks {VERSION}")
    if data.get("op") != "submit":
        raise WireError("op is not 'submit'")
    uid = data.get("uid", -1)
    if (
        not isinstance(uid, int | float)
        or isinstance(uid, bool)
        or uid != uid
        or abs(uid) > 1 << 32
    ):
        raise WireError("uid is no number")
    try:
        return Submission(int(uid), read_fields(data.get("job")))
    except (ValueError, OverflowError) as error:
        raise WireError(str(error)) from error


def wants_cycle(line: bytes) -> bool:
    """Whether the line asks for a cycle of late binding, as ``hpcmgr rebind`` does."""
    if b'"op":"rebind"' not in line:
        return False
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and data.get("op") == "rebind" and data.get("v") == VERSION


def encode(answer: dict[str, object]) -> bytes:
    """An answer line."""
    return json.dumps({"v": VERSION, **answer}, separators=(",", ":")).encode() + b"\n"


def answer_of(decision: Decision) -> dict[str, object]:
    """What the shim is told."""
    if decision.error:
        return {"trace": decision.trace, "error": decision.error}
    if decision.rewrite is None:
        return {"trace": decision.trace, "pass": True}
    return {
        "trace": decision.trace,
        "set": dict(decision.rewrite.set),
        "enforce_binding": decision.rewrite.enforce,
        "message": list(decision.rewrite.messages),
    }


def hold_answer(reason: str) -> dict[str, object]:
    """The service cannot decide now: the shim does as if it were away."""
    return {"hold": True, "reason": reason}


def error_answer(error: WireError) -> dict[str, object]:
    """What a wrong line is told."""
    code = "version" if isinstance(error, VersionError) else "bad-request"
    return {"error_code": code, "detail": error.message}
