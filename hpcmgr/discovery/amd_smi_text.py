"""amd-smi's answers, as JSON or as the indented text of the same keys.

    GPU: 0
        ASIC:
            MARKET_NAME: MI300A

A part is one GPU's answer to one question: nested keys in lower case. On APUs blocks of processors
stand before the GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpcmgr.discovery import json_answer
from hpcmgr.discovery.source import known, whole

_GPU = re.compile(r"^GPU\s*:?\s*([0-9]{1,4})\s*:?$", re.IGNORECASE)
_CPU = re.compile(r"^(?:CPU|CORE)\s*:?\s*[0-9]+\s*:?$", re.IGNORECASE)
_LINE = re.compile(r"^([A-Za-z][A-Za-z0-9_ /()-]{0,60}?)\s*:(?:\s+(.*))?$")
_ROW = re.compile(r"^([0-9]{1,4})\s+\S")


@dataclass(frozen=True, slots=True)
class Part:
    """What one answer says of one GPU."""

    gpu: int
    values: Mapping[str, Any]

    def get(self, *path: str) -> str | None:
        """The value at ``path``, None if it is unknown. ``{"value": 64, "unit": "MB"}`` is
        ``"64 MB"``."""
        value: Any = self.values
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, dict) and "value" in value:
            value = f"{value['value']} {value.get('unit', '')}"
        return None if isinstance(value, dict | list | bool | None) else known(str(value))


@dataclass(frozen=True, slots=True)
class Parts:
    """All GPUs of one answer; ``around``: what was said beside it, ``problem``: what is cut."""

    parts: tuple[Part, ...]
    around: str = ""
    problem: str = ""


def parse(text: str) -> Parts:
    """The GPUs of an answer in either form."""
    found = json_answer.parse(text)
    if found.value is None:
        parts, around = _from_text(text)
        return Parts(tuple(parts), around, "" if parts else found.problem)
    parts = []
    for entry in _entries(_lower(found.value)):
        number = whole(str(entry.get("gpu", entry.get("gpu_id", ""))))
        if number is not None:
            parts.append(Part(number, entry))
    return Parts(tuple(parts), found.around, found.problem)


def _entries(value: Any) -> list[dict[str, Any]]:
    """Newer releases have the list inside an object (``gpu_data``, beside ``cpu_data``)."""
    if isinstance(value, dict):
        return [entry for inner in value.values() for entry in json_answer.objects(inner)]
    return json_answer.objects(value)


def _lower(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key).strip().lower(): _lower(inner) for key, inner in value.items()}
    return [_lower(inner) for inner in value] if isinstance(value, list) else value


def _from_text(text: str) -> tuple[list[Part], str]:
    """Parts, and the lines before the first block."""
    parts: list[Part] = []
    around: list[str] = []
    stack: list[tuple[int, dict[str, Any]]] = []
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped:
            continue
        gpu = _GPU.match(stripped)
        if gpu:
            values: dict[str, Any] = {}
            parts.append(Part(int(gpu[1]), values))
            # Some releases do not indent what stands below: nothing is above this block.
            stack = [(-1, values)]
        elif _CPU.match(stripped):
            stack = [(-1, {})]
        elif stack:
            _add(line, stripped, stack)
        else:
            around.append(line)
    # A table of partitions names the GPUs, too, before their blocks.
    known_gpus = {part.gpu for part in parts}
    rows = [_ROW.match(line.strip()) for line in around if "GPU_ID" in "\n".join(around)]
    parts += [Part(int(r[1]), {}) for r in rows if r and int(r[1]) not in known_gpus]
    return parts, "\n".join(around)


def _add(line: str, stripped: str, stack: list[tuple[int, dict[str, Any]]]) -> None:
    found = _LINE.match(stripped)
    if not found:
        return
    indent = len(line) - len(line.lstrip())
    while len(stack) > 1 and stack[-1][0] >= indent:
        stack.pop()
    key, value = found[1].strip().lower(), (found[2] or "").strip()
    if value:
        stack[-1][1].setdefault(key, value)
    else:
        inner = stack[-1][1].setdefault(key, {})
        if isinstance(inner, dict):
            stack.append((indent, inner))
