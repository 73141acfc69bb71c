"""What is said at the door: one JSON object a line each way, version 1 (docs/door.md).

A request line is ``{"v":1,"credential":"MUNGE:…:"}``; the request itself is the payload of the
credential, so that neither can be used without the other. What is too long for a payload is the
line's ``body``, and the payload holds its digest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hpcmgr.errors import WireError
from hpcmgr.submit.request import NUMBERS, STRINGS

VERSION = 1
MAX_LINE = 64 << 10
AUDIENCE = "hpcmgr-door"
"""Says in the payload what the credential is for; one that was made for Slurm is none of ours."""

_NOT_ASKED = {"admin_comment", "comment", "default_account", "het_job_offset", "priority",
              "user_id", "user_name", "wckey"}  # fmt: skip
QUOTE_FIELDS: dict[str, type[str] | type[int]] = {
    **dict.fromkeys(sorted(STRINGS - _NOT_ASKED), str),
    **dict.fromkeys(sorted(NUMBERS - _NOT_ASKED), int),
}
"""Fields of job_desc that a quote may name, with their types: all by which a job is decided, but
not whose it is."""

_LONGEST = 1024
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,255}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TRACE = re.compile(r"[a-z]-[0-9a-f]{4,64}")
_JOB = re.compile(r"\d{1,10}")


@dataclass(frozen=True, slots=True)
class Explain:
    """Journal records of a trace, or of a job (``""``: not given)."""

    trace: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True)
class Quote:
    """What a job of these fields would become."""

    fields: dict[str, str | int]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of all nodes' devices: drivers, health, places."""


@dataclass(frozen=True, slots=True)
class LastInventory:
    """The inventory that a node published last."""

    node: str


@dataclass(frozen=True, slots=True)
class Publish:
    """The inventory in the body is this node's. ``accept``: a person has looked at it."""

    node: str
    sha256: str
    accept: bool = False


Request = Explain | Quote | Facts | LastInventory | Publish


def payload_of(request: dict[str, object]) -> str:
    """The text that goes into the credential."""
    return json.dumps(
        {"for": AUDIENCE, "v": VERSION, **request}, separators=(",", ":"), ensure_ascii=True
    )


def line_of(credential: str, body: str = "") -> bytes:
    """The line around a credential."""
    parts: dict[str, object] = {"v": VERSION, "credential": credential}
    if body:
        parts["body"] = body
    return json.dumps(parts, separators=(",", ":")).encode() + b"\n"


def parts_of(line: bytes) -> tuple[str, str]:
    """The credential of a request line, and its body.

    Raises:
        WireError: anything wrong with the line.
    """
    if len(line) > MAX_LINE:
        raise WireError(f"line is longer than {MAX_LINE >> 10} KiB")
    # Seen before any parsing: nested garbage costs a parser milliseconds, a flood of it the CPU.
    if line.count(b"{") != 1 or b"[" in line:
        raise WireError("no flat JSON object")
    data = _object(line)
    credential = data.get("credential")
    if not isinstance(credential, str):
        raise WireError("no credential")
    body = data.get("body", "")
    if not isinstance(body, str):
        raise WireError("body is no text")
    return credential, body


def read_request(payload: str) -> Request:
    """The request in a credential's payload.

    Raises:
        WireError: not one of ours, or wrong.
    """
    data = _object(payload)
    if data.get("for") != AUDIENCE:
        raise WireError("the credential was made for something else")
    operation = data.get("op")
    read = _OPERATIONS.get(operation) if isinstance(operation, str) else None
    if read is None:
        raise WireError(f"op is none of {', '.join(_OPERATIONS)}")
    return read(data)


def _explain(data: dict[str, Any]) -> Explain:
    trace, job = data.get("trace", ""), data.get("job", "")
    if isinstance(trace, str) and _TRACE.fullmatch(trace):
        return Explain(trace=trace)
    if isinstance(job, str) and _JOB.fullmatch(job):
        return Explain(job=job)
    raise WireError("explain needs a trace or a job id")


def _quote(data: dict[str, Any]) -> Quote:
    job = data.get("job")
    if not isinstance(job, dict):
        raise WireError("quote needs a job")
    fields: dict[str, str | int] = {}
    for name, value in job.items():
        if not _is_field(name, value):
            raise WireError(f"quote: {str(name)[:40]!r} is no field of the right type")
        if isinstance(value, str) and len(value) > _LONGEST:
            raise WireError(f"quote: {name} is longer than {_LONGEST} characters")
        fields[name] = value
    return Quote(fields)


def _last(data: dict[str, Any]) -> LastInventory:
    return LastInventory(_node(data))


def _publish(data: dict[str, Any]) -> Publish:
    sha256, accept = data.get("sha256"), data.get("accept", False)
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise WireError("publish needs the sha256 of the body")
    if not isinstance(accept, bool):
        raise WireError("accept is neither true nor false")
    return Publish(_node(data), sha256, accept)


def _node(data: dict[str, Any]) -> str:
    node = data.get("node")
    if not isinstance(node, str) or not _NODE.fullmatch(node):
        raise WireError("no name of a node")
    return node


_OPERATIONS: dict[str, Callable[[dict[str, Any]], Request]] = {
    "explain": _explain,
    "quote": _quote,
    "facts": lambda _: Facts(),
    "inventory": _last,
    "publish": _publish,
}


def _is_field(name: str, value: object) -> bool:
    # bool is an int to isinstance, and no number of nodes.
    kind = QUOTE_FIELDS.get(name)
    return kind is not None and isinstance(value, kind) and not isinstance(value, bool)


def _object(text: bytes | str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WireError("no valid JSON") from error
    if not isinstance(data, dict):
        raise WireError("no JSON object")
    if data.get("v") != VERSION or isinstance(data.get("v"), bool):
        raise WireError(f"version is not {VERSION}")
    return data
