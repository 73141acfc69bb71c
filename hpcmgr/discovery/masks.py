"""Finding and masking what names one machine: serials, uuids, MACs, GUIDs, host names.

First every text is searched, then all that was found is numbered in order and replaced everywhere.
So equal values get equal masks in all tools' answers, whoever printed them, and a mask says
nothing of the value. Lengths and alphabets stay, since tools' tables are read by their columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hpcmgr.discovery import amd_ids

_SHAPES = {
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "die": r"(?:[0-9a-f]{8}[ ]){4}[0-9a-f]{8}",
    "lladdr": r"(?:[0-9a-f]{2}:){19}[0-9a-f]{2}",
    "mac": r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}|(?:[0-9a-f]{2}-){5}[0-9a-f]{2}",
    "guid": r"(?:[0-9a-f]{4}:){3}[0-9a-f]{4}|0x[0-9a-f]{15,16}|GPU-[0-9a-f]{16}",
    "enx": r"(?<=\benx)[0-9a-f]{12}",
}
"""Values that their shape gives away: uuid, Ascend's die id, addresses of InfiniBand and Ethernet,
GUIDs of ports, switches and GPUs, interfaces that are named after their address."""

_NAMED = re.compile(
    r"""<(?:serial|uuid|pdi|host_id|[a-z_]*(?:serial_number|guid))>([^<]+)<
    |\b(?:[a-z]+_serial|serial(?:[ _]?(?:number|no))?|unique[ _]id|board_id|uuid|guid|sn)\b
     ["']?\s*[:=]\s*["']?([0-9a-z][0-9a-z_.+-]*[0-9a-z])
    |\b(?:unique|hive)_id\s+([0-9]+)""",
    re.IGNORECASE | re.VERBOSE,
)
_COLUMN = re.compile(r"(?<=[\s|])(?:SN|S/N|Serial|UUID)(?=[\s|])")
_WORD = re.compile(r"[0-9A-Za-z-]{8,}")
_SHORTEST = 6
"""Shorter values (``N/A``, ``0``, the number of a board's kind) name no machine."""


class Masks:
    """What is to be masked. ``hostname`` becomes ``node1`` in texts, not in paths."""

    def __init__(self, hostname: str = "") -> None:
        self._hostname = hostname
        self._found: dict[str, set[str]] = {}
        self._masks: dict[tuple[str, str], str] = {}
        self._values: re.Pattern[str] | None = None
        self._shapes = re.compile(
            "|".join(f"(?P<{name}>{shape})" for name, shape in _SHAPES.items()), re.IGNORECASE
        )

    def search(self, text: str) -> None:
        """Look for values in one text."""
        for match in self._shapes.finditer(text):
            if _alone(match):
                self._note(match.lastgroup or "", match[0])
        for match in _NAMED.finditer(text):
            self.name(next(group for group in match.groups() if group is not None))
        for value in _columns(text):
            self.name(value)

    def name(self, value: str) -> None:
        """A value that is known to name something; what only its kind says is left alone."""
        value = value.strip()
        if re.fullmatch(r"[0-9]{17,20}", value):
            self._note("chip", f"{int(value):016x}")
            return
        nothing = len(value) < _SHORTEST or not re.search(r"[1-9]", value)
        if not (nothing or self._shapes.search(value) or re.match(r"0x[0-9a-f]{,8}$", value)):
            self._note("serial", value)

    def number(self) -> None:
        """Give every value its mask; nothing is searched afterwards."""
        for group, values in self._found.items():
            for number, value in enumerate(sorted(values), start=1):
                self._masks[group, value] = _mask(group, value, number)
        # One number, which AMD's tools and the kernel spell in several ways.
        chips = {spelling for key in self._found.get("chip", ()) for spelling in _spellings(key)}
        serials = sorted({*self._found.get("serial", ()), *chips}, key=len, reverse=True)
        if serials:
            joined = "|".join(re.escape(value) for value in serials)
            self._values = re.compile(rf"(?<![0-9a-z])(?:{joined})(?![0-9a-z])", re.IGNORECASE)

    def text(self, text: str) -> str:
        """``text`` with everything masked."""
        masked = self.path(text)
        if self._hostname:
            name = re.escape(self._hostname)
            masked = re.sub(rf"(?<![\w-]){name}(?:\.[a-z][\w-]*)*(?![\w-])", "node1", masked)
        return masked

    def path(self, text: str) -> str:
        """The same without the host's name, which may be any word."""
        if self._values is not None:
            text = self._values.sub(self._valued, text)
        return self._shapes.sub(self._shaped, text)

    def _valued(self, match: re.Match[str]) -> str:
        value = match[0].casefold()
        mask = self._masks.get(("serial", value))
        if mask is None:
            key = f"{int(value):016x}" if len(value) > 16 else value.zfill(16)
            mask = amd_ids.spelt_like(value, int(self._masks["chip", key], 16))
        return mask

    def _shaped(self, match: re.Match[str]) -> str:
        group, key = _key(match.lastgroup or "", match[0])
        mask = self._masks.get((group, key))
        if mask is None or not _alone(match):
            return match[0]
        if group == "chip":
            return amd_ids.spelt_like(match[0], int(mask, 16))
        if match.lastgroup == "enx":
            return mask.replace(":", "")
        return mask.replace(":", "-") if group == "mac" and "-" in match[0] else mask

    def _note(self, group: str, value: str) -> None:
        group, key = _key(group, value)
        if re.search(r"[1-9a-f]", key.removeprefix("0x").removeprefix("gpu-")):
            self._found.setdefault(group, set()).add(key)


def _alone(match: re.Match[str]) -> bool:
    """Whether the match is no part of a longer word."""
    before, after = match.string[match.start() - 1 : match.start()], match.string[match.end() :][:1]
    return match.lastgroup == "enx" or not (before.isalnum() or after.isalnum())


def _key(group: str, value: str) -> tuple[str, str]:
    """Group and value as they are compared: case and separators do not count."""
    if group == "enx":
        return "mac", ":".join(re.findall("..", value.casefold()))
    unique = amd_ids.unique_of(value) if group in ("uuid", "guid", "serial") else None
    if unique is not None and unique >= 1 << 56:
        return "chip", f"{unique:016x}"
    return group, value.casefold().replace("-", ":") if group == "mac" else value.casefold()


def _spellings(key: str) -> tuple[str, ...]:
    """In decimal, and bare in hex; the others have a shape of their own."""
    return str(int(key, 16)), key


def _columns(text: str) -> Iterable[str]:
    """Words of a table that stand below a heading like ``SN``."""
    heading: re.Match[str] | None = None
    for line in text.splitlines():
        found = _COLUMN.search(line)
        if found:
            heading = found
        elif heading:
            for word in _WORD.finditer(line):
                if word.start() < heading.end() and word.end() > heading.start():
                    yield word[0]


def _mask(group: str, value: str, number: int) -> str:
    if group == "mac":
        return f"02:00:00:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
    if group == "chip":
        return f"{number:016x}"
    digits = f"{number:x}" if group != "serial" else f"{number}"
    prefix = next((p for p in ("0x", "gpu-") if value.startswith(p)), "")
    shape = re.sub(r"[a-z]", "A", re.sub(r"[0-9]", "0", value.removeprefix(prefix)))
    if group != "serial":
        shape = shape.replace("A", "0")
    # The number goes into the last places, past separators.
    places = [at for at, c in enumerate(shape) if c.isalnum()][-len(digits) :]
    spelt = list(shape)
    for at, digit in zip(places, digits, strict=False):
        spelt[at] = digit
    return ("GPU-" if prefix == "gpu-" else prefix) + "".join(spelt)
