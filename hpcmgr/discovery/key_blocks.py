"""Indented ``key : value`` texts (``cnmon info``, ``mthreads-gmi -q``, ``xpu-smi -q``): a block a
card, in which the same key means different things below different headings."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One card: the groups of its heading, and its values by the headings above them."""

    heading: tuple[str, ...]
    values: dict[Path, str] = field(default_factory=dict)

    def get(self, *path: str) -> str | None:
        """The value at ``path``."""
        return self.values.get(path)


def parse(text: str, heading: re.Pattern[str]) -> tuple[Block, ...]:
    """The blocks whose first line is ``heading``; of a key that is there twice the first counts."""
    blocks: list[Block] = []
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped:
            continue
        found = heading.fullmatch(stripped)
        if found:
            blocks.append(Block(tuple(group or "" for group in found.groups())))
            above = []
            continue
        indent = len(line) - len(line.lstrip())
        while above and above[-1][0] >= indent:
            above.pop()
        key, _, value = (part.strip() for part in stripped.partition(":"))
        if not value:
            above.append((indent, key))
        elif blocks:
            path = (*(name for _, name in above), key)
            blocks[-1].values.setdefault(path, value)
    return tuple(blocks)
