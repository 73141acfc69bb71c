"""The cards of one look-alike of nvidia-smi, with all that is wrong with its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hpcmgr.discovery import smi_table, topo_matrix
from hpcmgr.discovery.findings import Findings
from hpcmgr.discovery.source import DeviceFacts, LinkFacts, known, whole
from hpcmgr.discovery.topo_matrix import TopoMatrix

_ATTACHED = re.compile(r"^Attached [GX]PUs\s*:\s*([0-9]{1,6})\s*$", re.MULTILINE)


def read(
    text: str, number: str, brand: re.Pattern[str], findings: Findings
) -> tuple[dict[int, dict[str, str]], str]:
    """Records by the tool's number, and the banner above them.

    A table without ``brand`` in its text is another vendor's and is not read.
    """
    if not brand.search(text):
        if "|" in text:
            findings.problems.append("prints what another tool prints")
        findings.read_around(text)
        return {}, ""
    table = smi_table.parse(text, number)
    cards: dict[int, dict[str, str]] = {}
    for record in table.records:
        index = int(record[number])
        if index in cards:
            findings.problems.append(f"lists card {index} twice")
        cards.setdefault(index, record)
    findings.problems += [f"the lines of card {index} are cut" for index in table.cut]
    findings.read_around(text)
    attached = _ATTACHED.search(text)
    if attached and int(attached[1]) != len(cards) and table.has_header:
        findings.problems.append(f"says {attached[1]} cards attached but lists {len(cards)}")
    return cards, table.banner


def version(banner: str, pattern: str) -> str | None:
    """``version(banner, "Driver Version")`` → the word behind it."""
    found = re.search(rf"{pattern}\s*:?\s*(\S+)", banner, re.IGNORECASE)
    return known(found[1]) if found else None


def links(
    matrix: TopoMatrix | None, devices: Sequence[DeviceFacts], findings: Findings
) -> tuple[LinkFacts, ...]:
    """Links of a matrix whose labels are the devices' refs."""
    if matrix is None:
        return ()
    refs = {device.ref for device in devices}
    prefix = next(iter(refs), "").rstrip("0123456789")
    if {x for x in matrix.labels if whole(x.removeprefix(prefix)) is not None} != refs:
        findings.notes.append("no links: topo shows other cards")
        return ()
    return tuple(
        LinkFacts(matrix.nics.get(a, a), matrix.nics.get(b, b), kind, topo_matrix.is_direct(kind))
        for (a, b), kind in matrix.links.items()
    )
