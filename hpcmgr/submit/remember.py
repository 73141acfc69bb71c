"""What admin_comment keeps of a request, so that it can be bound once more later.

Slurm's own record cannot tell what its user gave from what was set for him, and the original
request is gone from it. Fields that a user may still change (partition, account, nodes) are read
from the job as it is by then.
"""

from __future__ import annotations

from collections.abc import Mapping

from hpcmgr.submit.request import (
    DISABLE_BIND,
    ENFORCE_BIND,
    NTASKS_SET,
    Ask,
    JobFields,
    read_fields,
)

PIN = "hpcmgr:pin"
"""The word in a job's comment that keeps it where it is; its owner may write it."""

_KEPT = (
    "cores_per_socket", "cpus_per_task", "max_nodes", "min_cpus", "min_mem_per_cpu",
    "min_mem_per_node", "min_nodes", "ntasks_per_node", "ntasks_per_socket", "num_tasks",
    "pn_min_cpus", "shared", "sockets_per_node", "threads_per_core",
)  # fmt: skip
_WORDS = ("exc_nodes", "features")
"""To these the class and the device type add; the rest of the job's words is read as it is."""
_BITS = ENFORCE_BIND | NTASKS_SET | DISABLE_BIND


def remember(ask: Ask, fields: JobFields) -> dict[str, object]:
    """The part of admin_comment that says what was given beside the devices."""
    given = {name: value for name in _KEPT if (value := fields.number(name)) is not None}
    bits = (fields.number("bitflags") or 0) & _BITS
    if bits:
        given["bitflags"] = bits
    words = {name: text for name in _WORDS if (text := fields.string(name))}
    kept: dict[str, object] = {"given": {**given, **words}}
    if ask.others:
        kept["others"] = list(ask.others)
    return kept


def recall(comment: Mapping[str, object], today: Mapping[str, object]) -> JobFields | None:
    """The request behind a bound job: what was given then, and ``today`` what may have changed
    since. None if the comment does not tell (bound by an earlier version)."""
    given, request = comment.get("given"), comment.get("request")
    if not isinstance(given, dict) or not isinstance(request, str):
        return None
    others = comment.get("others")
    parts = [request, *(others if isinstance(others, list) else [])]
    values = {**given, "tres_per_node": ",".join(map(str, parts)), **today}
    try:
        return read_fields(values)
    except ValueError:
        return None


def is_pinned(comment: str) -> bool:
    """Whether a job's comment holds the pin, as a word of its own."""
    return PIN in comment.split()
