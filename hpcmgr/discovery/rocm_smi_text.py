"""rocm-smi's answers: JSON with a ``cardN`` a GPU, lines ``GPU[0] : Key: value``, or a table.

Keys changed their case, name and even meaning over the releases: "GPU ID" was the PCI device id,
"Card model" was the id of the subsystem and is now that of the device.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hpcmgr.discovery import json_answer
from hpcmgr.discovery.source import known

_CARD = re.compile(r"^card([0-9]{1,4})$")
_GPU_LINE = re.compile(r"^(?:ERROR:\s*)?GPU\[([0-9]{1,4})\]\s*:\s*(.+)$")
_TABLE = re.compile(r"^(?:Device|GPU)\s+.*\b(?:Temp|Perf)\b")
_LOOK_ALIKE = re.compile(r"^(?:DCU|HCU)\s", re.MULTILINE)
_DEVICE_ID = re.compile(r"^0x[0-9a-f]{4}$", re.IGNORECASE)
_HEX = re.compile(r"^0x[0-9a-f]+$", re.IGNORECASE)
_LINK = re.compile(r"link type between drm devices ([0-9]{1,4}) and ([0-9]{1,4})$")


@dataclass(slots=True)
class Answer:
    """``cards``: keys in lower case and values by the tool's number; ``system``: what is said of
    all; ``errors``: lines that say what could not be had; ``foreign``: it is Hygon's tool."""

    cards: dict[int, dict[str, str]] = field(default_factory=dict)
    system: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    around: str = ""
    problem: str = ""
    foreign: bool = False

    def links(self) -> dict[tuple[int, int], str]:
        """Kind of the link of each pair."""
        found = {}
        for key, value in self.system.items():
            pair = _LINK.search(key)
            if pair:
                found[int(pair[1]), int(pair[2])] = value
        return found


def parse(text: str) -> Answer:
    """Whatever form the answer has."""
    found = json_answer.parse(text)
    if not isinstance(found.value, dict):
        return _from_text(text)
    answer = Answer(around=found.around, problem=found.problem)
    for key, value in found.value.items():
        card = _CARD.match(str(key).strip().lower())
        values = {k.lower().rstrip(":"): v for k, v in json_answer.texts(value).items()}
        if card:
            answer.cards[int(card[1])] = values
        elif str(key).lower() == "system":
            answer.system = values
    return answer


def first(card: Mapping[str, str], *keys: str) -> str | None:
    """The first known value."""
    return next((value for key in keys if (value := known(card.get(key)))), None)


def model(card: Mapping[str, str]) -> str | None:
    """The name; older releases print an id in its place."""
    for key in ("device name", "card series", "card model", "name"):
        value = known(card.get(key))
        if value and not _HEX.match(value):
            return value
    return None


def device_id(card: Mapping[str, str]) -> str | None:
    """PCI device id as four digits. Where the newer keys are, "Card Model" is that, too."""
    keys = ["device id", "gpu id"]
    if "gfx version" in card or "guid" in card:
        keys.append("card model")
    for key in keys:
        value = card.get(key, "").strip()
        if _DEVICE_ID.match(value):
            return value[2:].lower()
    return None


def _from_text(text: str) -> Answer:
    answer = Answer(foreign=bool(_LOOK_ALIKE.search(text)))
    labels, last = "", -1
    for line in text.splitlines():
        stripped = line.strip()
        gpu = _GPU_LINE.match(stripped)
        if gpu:
            _add_line(answer, int(gpu[1]), gpu[2], failed=stripped.startswith("ERROR"))
        elif _TABLE.match(stripped):
            labels = stripped
        elif stripped.startswith("==") and answer.cards:
            labels = ""
        elif labels:
            last = _add_row(answer, stripped, labels, last)
        elif re.match(r"^(?:ERROR|WARNING|Exception|.*\bfailed\b)", stripped):
            answer.errors.append(stripped)
    answer.around = "\n".join(answer.errors)
    return answer


def _add_line(answer: Answer, number: int, said: str, *, failed: bool) -> None:
    card = answer.cards.setdefault(number, {})
    key, colon, value = said.partition(":")
    if failed or not colon:
        answer.errors.append(f"GPU[{number}]: {said.strip()}")
    else:
        card.setdefault(key.strip().lower(), value.strip())


def _add_row(answer: Answer, stripped: str, labels: str, last: int) -> int:
    """A row begins with the number; in one layout the name follows on a line of its own."""
    words = stripped.split()
    if words and words[0].isascii() and words[0].isdigit() and len(words) > 2:
        number = int(words[0])
        card = answer.cards.setdefault(number, {})
        if "[Model" in labels:
            bracket = re.match(r"^[0-9]+\s+\[(0x[0-9a-fA-F]+)\s*:", stripped)
            card["device id"] = bracket[1] if bracket else ""
        elif "IDs" in labels.split():
            ids = re.search(r"\b(0x[0-9a-fA-F]{4}),\s*([0-9]+)\b", stripped)
            card.update({"device id": ids[1], "guid": ids[2]} if ids else {})
            if "Node" in labels.split() and len(words) > 1:
                card["node id"] = words[1]
        return number
    if last >= 0 and words and "[Model" in labels and not stripped.startswith(("=", "Name")):
        answer.cards[last].setdefault("name", stripped)
    return -1 if words and words[0].startswith("=") else last
