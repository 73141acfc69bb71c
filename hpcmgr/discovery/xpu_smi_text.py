"""xpu-smi's answers: JSON, a table of ``Key: value`` lines, or (release 2) a table in the manner of
nvidia-smi; and its matrix of links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from hpcmgr.discovery import json_answer, smi_table
from hpcmgr.discovery.source import whole

Entry = Mapping[str, str]
"""Values of one GPU by the keys of the JSON answer."""

_KEYS = {
    "device id": "device_id",
    "device name": "device_name",
    "vendor name": "vendor_name",
    "uuid": "uuid",
    "serial number": "serial_number",
    "driver version": "driver_version",
    "pci bdf address": "pci_bdf_address",
    "pci device id": "pci_device_id",
    "drm device": "drm_device",
    "function type": "device_function_type",
    "memory physical size": "memory",
    "firmware version": "gfx_firmware_version",
}
_INTEL = re.compile(r"\bIntel\b", re.IGNORECASE)
_DRIVER = re.compile(r"\bDriver:\s*(\S+)")
_LABEL = re.compile(r"GPU\s+([0-9]{1,4})/([0-9]{1,3})")
_CELL = re.compile(r"[A-Z][A-Z0-9*+]*")


@dataclass(frozen=True, slots=True)
class Answer:
    """``foreign``: the answer is not Intel's; another vendor has a tool of this name."""

    entries: tuple[Entry, ...] = ()
    around: str = ""
    problem: str = ""
    foreign: bool = False


def parse(text: str) -> Answer:
    """The GPUs of an answer in any form."""
    found = json_answer.parse(text)
    if found.value is not None:
        listed = found.value.get("device_list") if isinstance(found.value, dict) else found.value
        single = (
            [found.value] if isinstance(found.value, dict) and "device_id" in found.value else []
        )
        entries = [json_answer.texts(item) for item in json_answer.objects(listed) or single]
        return Answer(
            tuple(_of_intel(entries)), found.around, found.problem, foreign=_else(entries)
        )
    if smi_table.parse(text, "xpu").has_header:
        # Kunlunxin's.
        return Answer(foreign=True)
    look_alike = smi_table.parse(text, "gpu")
    if look_alike.has_header:
        return _look_alike(look_alike)
    entries = list(_key_table(text))
    outside = "\n".join(line for line in text.splitlines() if not line.startswith(("|", "+")))
    return Answer(tuple(_of_intel(entries)), outside, foreign=_else(entries))


def _of_intel(entries: list[dict[str, str]]) -> list[dict[str, str]]:
    return [e for e in entries if not e.get("vendor_name") or _INTEL.search(e["vendor_name"])]


def _else(entries: list[dict[str, str]]) -> bool:
    return bool(entries) and not _of_intel(entries)


def _look_alike(table: smi_table.SmiTable) -> Answer:
    if not _INTEL.search(table.banner):
        return Answer(foreign=True)
    driver = _DRIVER.search(table.banner)
    entries = []
    for record in table.records:
        memory = record.get("memory-usage", "").rpartition("/")[2].strip()
        entry = {
            "device_id": record["gpu"],
            "device_name": record.get("name", ""),
            "pci_bdf_address": record.get("bus-id", ""),
            "memory": memory,
            "driver_version": driver[1] if driver else "",
        }
        entries.append(entry)
    problem = f"the rows of GPU {', '.join(str(n) for n in table.cut)} are cut" if table.cut else ""
    return Answer(tuple(entries), problem=problem)


def _key_table(text: str) -> list[dict[str, str]]:
    """``| 0 | Device Name: … |`` and the lines below it."""
    entries: list[dict[str, str]] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 2 or not line.strip().startswith("|"):
            continue
        if whole(cells[0]) is not None:
            entries.append({"device_id": cells[0]})
        key, colon, value = cells[1].partition(":")
        name = _KEYS.get(key.strip().lower())
        if entries and colon and name:
            entries[-1].setdefault(name, value.strip())
    return entries


def links(text: str) -> dict[tuple[int, int], str]:
    """Kind of the way between two GPUs, by their numbers; of several tiles the best one.

    A row's own place has an ``S``. So the columns are known by their rows, even without a header.
    """
    rows = list(_rows(text))
    columns = {cells.index("S"): place for place, cells in rows}
    if len(columns) != len(rows):
        return {}
    found: dict[tuple[int, int], str] = {}
    for (gpu, _), cells in rows:
        for number, kind in enumerate(cells):
            other = columns.get(number)
            if other is None or other[0] == gpu:
                continue
            pair = (min(gpu, other[0]), max(gpu, other[0]))
            if pair not in found or (is_fabric(kind) and not is_fabric(found[pair])):
                found[pair] = kind
    return found


def gpus(text: str) -> tuple[int, ...]:
    """Numbers of the GPUs whose rows the matrix has."""
    return tuple(dict.fromkeys(gpu for (gpu, _), _ in _rows(text)))


def _rows(text: str) -> Iterator[tuple[tuple[int, int], list[str]]]:
    """GPU and tile of each row, and the words of its links up to the processors."""
    for line in text.splitlines():
        label = _LABEL.match(line.strip())
        if not label:
            continue
        words = line.strip()[label.end() :].split()
        cells = list(takewhile(lambda word: _CELL.fullmatch(word) is not None, words))
        if cells.count("S") == 1:
            yield (int(label[1]), int(label[2])), cells


def is_fabric(kind: str) -> bool:
    """Whether the word means Xe Link (``XL8``, ``XL*``)."""
    return kind.startswith("XL")
