"""JSON that a tool printed, perhaps after a progress bar or warnings, perhaps cut."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_START = re.compile(r'\[(?=\s*[\[{"\]])|\{(?=\s*["}])')


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """``value`` is None if the text holds none; ``around``: what else was said; ``problem``: why
    the value is not all that the tool meant to say."""

    value: Any = None
    around: str = ""
    problem: str = ""


def parse(text: str) -> JsonAnswer:
    """The object or list of the text; of a list that is cut, its whole items."""
    starts = [found.start() for found in _START.finditer(text)]
    for at in starts[:1] + [at for at in starts[1:] if at == 0 or text[at - 1] == "\n"]:
        try:
            value, end = json.JSONDecoder().raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        # What starts a line later on is the answer only if nothing follows it.
        if at == starts[0] or not text[end:].strip():
            return JsonAnswer(value, f"{text[:at]}\n{text[end:]}".strip())
    if not starts:
        return JsonAnswer(None, text.strip(), "printed no JSON")
    around = text[: starts[0]].strip()
    if text[starts[0]] == "[":
        return JsonAnswer(_whole_items(text, starts[0] + 1), around, "printed JSON that is cut")
    return JsonAnswer(None, around, "printed broken JSON")


def _whole_items(text: str, at: int) -> list[Any]:
    items = []
    while (at := text.find("{", at)) >= 0:
        try:
            item, at = json.JSONDecoder().raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        items.append(item)
    return items


def texts(value: Any) -> dict[str, str]:
    """The texts and numbers of an object as text; anything else is an empty one."""
    if not isinstance(value, dict):
        return {}
    return {
        str(key).strip(): str(item).strip()
        for key, item in value.items()
        if isinstance(item, str | int | float) and not isinstance(item, bool)
    }


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; anything else is an empty one."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
