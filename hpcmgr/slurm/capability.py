"""What differs between Slurm's releases, in one table.

An entry says since when (and until when) something holds, and where that was learnt; the rest of
the project asks ``has(release, NAME)`` and never compares versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpcmgr.errors import HpcmgrError

OLDEST, NEWEST = "23.11", "26.05"


@dataclass(frozen=True, slots=True)
class Capability:
    """``since`` and ``until`` (exclusive) as ``YY.MM``; ``basis``: seen running, or read."""

    since: str
    until: str | None
    basis: str


TABLE = {
    "ENFORCE_ANY_NAME": Capability(
        "24.11",
        "25.05",
        "seen on 24.11.5: enforce-binding holds for any GRES name, on all sockets. On 26.05.5 a "
        "GRES without a plugin (npu) gets devices of the first socket only, others wait for ever",
    ),
    "ENFORCE_PER_SOCKET": Capability(
        "26.05",
        None,
        "seen on 26.05.5: tres_per_socket with sockets_per_node=1, one task and enforce-binding "
        "puts devices of any name and the cores on one socket. On 24.11.5 it takes devices of "
        "every socket",
    ),
    "ENFORCE_SEVERAL_TASKS": Capability(
        "26.05",
        None,
        "seen on 26.05.5: with -n2 the job gets its own cores. On 24.11.5 it gets all cores of the "
        "socket",
    ),
}
"""What was not tried (23.11, 24.05, 25.05, 25.11) counts as "does not hold"."""


def has(release: str, name: str) -> bool:
    """Whether ``release`` ("24.11.5") has the capability."""
    entry = TABLE[name]
    number = parse(release)
    return parse(entry.since) <= number and (entry.until is None or number < parse(entry.until))


def parse(release: str) -> tuple[int, int]:
    """``"24.11.5"`` → (24, 11).

    Raises:
        HpcmgrError: it is no release.
    """
    found = re.match(r"(\d+)\.(\d+)", release)
    if not found:
        raise HpcmgrError(f"{release!r} is no release of Slurm", "for example 24.11.5")
    return int(found[1]), int(found[2])


def refuse_unsupported(release: str) -> None:
    """Stop on a release that hpcmgr would be unsafe on.

    Raises:
        HpcmgrError: with the reason.
    """
    if parse(release) < parse(OLDEST):
        raise HpcmgrError(
            f"Slurm {release} is too old: a job moved to another device type would ask for both "
            f"types (before 23.02.6), and devices of other names than gpu are not confined (22.05)",
            f"hpcmgr needs Slurm {OLDEST} or newer",
        )
