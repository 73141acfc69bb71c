"""The documents that list sources and questions list what the code has."""

from __future__ import annotations

import re
from pathlib import Path

from hpcmgr.discovery.questions import CHIP_DETAILS, NPU_DETAILS, QUESTIONS
from hpcmgr.discovery.registry import ANSWERING, DEVICE_SOURCES, NODES, TOOLS
from hpcmgr.discovery.sysfs_pci import SysfsPci

DOCS = Path(__file__).parents[3] / "docs"


def rows(name: str, heading: str) -> list[list[str]]:
    """Cells of the table below a heading row."""
    lines = (DOCS / name).read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    table = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


def test_every_source_has_its_row() -> None:
    """In the order of trust, with its vendor."""
    told = [(row[0].strip("`"), row[1]) for row in rows("sources.md", "source")]

    assert told == [(s.name, s.vendor or "any") for s in (*DEVICE_SOURCES, SysfsPci())]


def test_the_registry_fits_together() -> None:
    """What must answer for a vendor is a source of that vendor."""
    vendors = {source.name: source.vendor for source in DEVICE_SOURCES}

    assert all(vendors[name] == vendor for vendor, name in TOOLS.items())
    assert all(vendors[name] == vendor for name, vendor in ANSWERING.items())
    assert set(ANSWERING) >= set(TOOLS.values())
    assert set(NODES) == set(TOOLS)


def test_every_question_of_a_recording_is_in_the_table() -> None:
    """And the table has no other."""
    told = set()
    for tool, asked in rows("recorded-hosts.md", "tool"):
        for word in ("plain", *re.findall(r"`([^`]+)`", asked)):
            if word != "plain" or re.search(r"\bplain\b", asked):
                told.add(tool if word == "plain" else f"{tool} {word}")
    a_card = {"npu-smi info -t board -i N", "npu-smi info -t board -i N -c C", "cnmon info -c N"}
    a_card |= {f"npu-smi info -t {detail} -i N -c C" for detail in CHIP_DETAILS}
    details = {f"npu-smi {detail}" for detail in NPU_DETAILS[1:]}

    assert told == {" ".join(argv) for argv in QUESTIONS} | a_card | details


def test_every_trap_has_its_tests() -> None:
    """Each that the document names is in the file that it names."""
    here, named = Path(__file__).parent, 0
    for line in (DOCS / "traps.md").read_text().splitlines():
        if not line.startswith("|") or "test_" not in line:
            continue
        text = ""
        for word in line.rstrip("| ").rpartition("|")[2].replace(",", " ").split():
            if word.endswith(".py:"):
                file = word.rstrip(":")
                place = DOCS.parent / file if "/" in file else here / file
                text = place.read_text()
                continue
            assert f"def {word}(" in text, f"{word} in {line}"
            named += 1

    assert named > 50
