"""Lists of CPU ids as the kernel writes them: ``0-15,32-47``."""

from __future__ import annotations

import re
from collections.abc import Iterable

_MOST = 65_536
_ID = re.compile(r"^[0-9]{1,6}$")


def parse(text: str | None) -> frozenset[int] | None:
    """Ids of the list; None if it is no such list."""
    found: set[int] = set()
    for part in (text or "").strip().split(","):
        if not part:
            continue
        low, dash, high = part.partition("-")
        if not (_ID.match(low) and (not dash or _ID.match(high))):
            return None
        first, last = int(low), int(high or low)
        if last < first or last >= _MOST:
            return None
        found.update(range(first, last + 1))
    return frozenset(found)


def text_of(ids: Iterable[int]) -> str:
    """The shortest list of these ids."""
    parts: list[str] = []
    run: list[int] = []
    for cpu in [*sorted(set(ids)), None]:
        if run and (cpu is None or cpu != run[-1] + 1):
            parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
            run = []
        if cpu is not None:
            run.append(cpu)
    return ",".join(parts)
