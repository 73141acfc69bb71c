"""What is said at the door: one JSON object a line each way, version 1 (docs/door.md).

A request line is ``{"v":1,"credential":"MUNGE:…:"}``; the request itself is the payload of the
credential, so that neither can be used without the other.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from hpcmgr.errors import WireError

VERSION = 1
MAX_LINE = 64 << 10
AUDIENCE = "hpcmgr-door"
"""Says in the payload what the credential is for; one that was made for Slurm is none of ours."""

QUOTE_FIELDS: dict[str, type[str] | type[int]] = {
    "tres_per_node": str, "tres_per_task": str, "partition": str, "features": str,
    "min_nodes": int, "num_tasks": int, "ntasks_per_node": int, "cpus_per_task": int,
    "min_mem_per_node": int, "min_mem_per_cpu": int,
}  # fmt: skip
"""Fields of job_desc that a quote may name, with their types."""

_LONGEST = 1024
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


def payload_of(request: dict[str, object]) -> str:
    """The text that goes into the credential."""
    return json.dumps(
        {"for": AUDIENCE, "v": VERSION, **request}, separators=(",", ":"), ensure_ascii=True
    )


def line_of(credential: str) -> bytes:
    """The line around a credential."""
    text = json.dumps({"v": VERSION, "credential": credential}, separators=(",", ":"))
    return text.encode() + b"\n"


def credential_in(line: bytes) -> str:
    """The credential of a request line.

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
    return credential


def read_request(payload: str) -> Explain | Quote:
    """The request in a credential's payload.

    Raises:
        WireError: not one of ours, or wrong.
    """
    data = _object(payload)
    if data.get("for") != AUDIENCE:
        raise WireError("the credential was made for something else")
    operation = data.get("op")
    if operation == "explain":
        return _explain(data)
    if operation == "quote":
        return _quote(data)
    raise WireError("op is neither 'explain' nor 'quote'")


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
