"""TRES and GRES strings, as Slurm writes and reads them.

Source of the forms: slurm_opt.c and gres.c of 22.05 to 26.05 (``gres:name`` before 23.11,
``gres/name`` since; ``=`` before the count since 23.11; suffixes K, M, G, T, P as 1024^n).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ITEM = re.compile(
    r"""^(?:gres[/:])?(?P<name>[A-Za-z][A-Za-z0-9_.-]*)
        (?::(?P<type>[A-Za-z][A-Za-z0-9_.-]*))?
        (?:[:=](?P<count>[^:=]*))?$""",
    re.VERBOSE,
)
_COUNT = re.compile(r"^([0-9]{1,15})([KMGTP]?)(?:I?B)?$", re.IGNORECASE)
_SUFFIX = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


@dataclass(frozen=True, slots=True)
class GresItem:
    """One entry of a GRES list: ``name[:type][:count]``; ``count`` as written, None if absent."""

    name: str
    type: str | None
    count: str | None

    @property
    def number(self) -> int | None:
        """The count with its suffix worked out; 1 if absent; None if it is no whole number."""
        return 1 if self.count is None else parse_count(self.count)


def parse_count(text: str) -> int | None:
    """``"4"`` → 4, ``"2K"`` → 2048, ``"-1"``, ``"2.5"``, ``""`` → None."""
    found = _COUNT.match(text)
    if not found:
        return None
    factor: int = 1024 ** _SUFFIX[found[2].upper()]
    return int(found[1]) * factor


def parse_gres_list(text: str) -> list[GresItem]:
    """``"gres/gpu:a100:2,gres/compute:16"`` → items.

    Raises:
        ValueError: an entry is not of the form ``name[:type][:count]``; says which.
    """
    items = []
    for part in text.split(","):
        entry = part.strip()
        if entry in {"", "gres/", "gres:"}:
            continue  # "gpu:1," reads as an entry without a name
        found = _ITEM.match(entry)
        if not found:
            raise ValueError(f"{entry!r} is not of the form name[:type]:count")
        items.append(GresItem(found["name"], found["type"], found["count"]))
    return items


def format_tres(items: dict[str, int]) -> str:
    """``{"gpu:a100": 2, "compute": 16}`` → ``"gres/gpu:a100:2,gres/compute:16"``."""
    return ",".join(f"gres/{key}:{count}" for key, count in items.items())


def gres_id(word: str) -> int:
    """Slurm's 32-bit hash of a GRES name or type (gres.c, ``gres_build_id``)."""
    total = 0
    for i, letter in enumerate(word.encode()):
        total = (total + (letter << (8 * (i % 4)))) & 0xFFFFFFFF
    return total
