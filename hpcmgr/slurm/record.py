"""``Key=value`` records, as ``scontrol -o`` prints them one a line."""

from __future__ import annotations

import re

_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z:/]*)=")


def parse_record(line: str) -> dict[str, str]:
    """``Key=value`` pairs of one line of ``scontrol -o``; values may hold spaces."""
    marks = list(_KEY.finditer(line))
    ends = [*(mark.start() for mark in marks[1:]), len(line)][: len(marks)]
    record: dict[str, str] = {}
    for mark, end in zip(marks, ends, strict=True):
        record.setdefault(mark[1], line[mark.end() : end].strip())
    return record


def number(text: str | None, default: int) -> int:
    """The whole number that ``text`` begins with."""
    if text and text.isdecimal():
        return int(text)
    found = re.match(r"\d+", text or "")
    return int(found[0]) if found else default


def known(text: str) -> str:
    """ "" for Slurm's words for nothing."""
    return "" if text in {"(null)", "N/A", "none"} else text


def parse_settings(text: str) -> dict[str, str]:
    """Lines of ``scontrol show config``: ``Key = value``."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key.strip(): value.strip() for key, sign, value in pairs if sign}


def seconds(text: str) -> int | None:
    """``1-02:03:04``, ``02:03:04``, ``03:04`` → seconds; None for what is no time."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if not found:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


UNLIMITED = 0xFFFFFFFF
"""A time limit of no end (INFINITE)."""


def time_limit(text: str) -> int | None:
    """What ``sbatch --time`` takes, in minutes, begun ones too: ``90``, ``1:30``, ``1:00:00``,
    ``1-12``, ``1-12:30``, ``1-12:30:00``, ``UNLIMITED`` (also 0); None for what is no time."""
    if text.upper() in {"UNLIMITED", "INFINITE", "-1"}:
        return UNLIMITED
    found = re.fullmatch(r"(?:(\d{1,5})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", text, re.A)
    if not found:
        return None
    parts = [int(part) for part in found.groups()[1:] if part is not None]
    if found[1] is not None:
        hours, minutes, rest = [*parts, 0, 0][:3]
        hours += 24 * int(found[1])
    else:
        # Without days one number is minutes, two are minutes and seconds.
        hours, minutes, rest = {1: [0, *parts, 0], 2: [0, *parts], 3: parts}[len(parts)]
    return min(hours * 60 + minutes + -(-rest // 60), UNLIMITED) or UNLIMITED
