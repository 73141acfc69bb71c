"""xpu_smi and xpu-smi of Kunlunxin.

Old releases print one line a card with its device node; new ones print a look-alike of nvidia-smi
and tell the minor with ``-q``. Card 1 can be /dev/xpu2. Intel has another tool called xpu-smi: what
is printed tells whose it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpcmgr.discovery import grid_table, key_blocks, smi_cards
from hpcmgr.discovery.findings import Findings, mebibytes, total_mebibytes
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.key_blocks import Block
from hpcmgr.discovery.node_places import NodePlaces
from hpcmgr.discovery.source import Answer, Collected, DeviceFacts, known, known_serial, whole
from hpcmgr.inventory import Health
from hpcmgr.inventory.pci_address import canonical

_BRAND = re.compile(r"XPU-RT Version|Runtime Version:", re.IGNORECASE)
_INTEL = re.compile(r"\bIntel\b|Level Zero", re.IGNORECASE)
_HEADING = re.compile(r"XPU\s+([0-9A-Fa-f:.]+)")
_OLD = frozenset({"devid", "pci addr", "model"})
_NODE = re.compile(r"/dev/xpu[0-9]{1,5}")


class KunlunSmi:
    """Kunlunxin's tool, under both of its names."""

    name = "xpu_smi"
    vendor: str | None = "kunlunxin"

    def collect(self, host: Host) -> Collected:
        """Ask it; a tool of that name that is Intel's counts as not installed."""
        findings = Findings(host, self.name)
        tool, answer = _ask(findings)
        if answer.state == "absent":
            return findings.absent(answer.why)
        rows = grid_table.parse(answer.text, _OLD)
        if rows is not None:
            findings.read_around(answer.text)
            return findings.result(_old(rows, answer.text, findings), said=answer.text)
        cards, banner = smi_cards.read(answer.text, "xpu", _BRAND, findings)
        blocks = key_blocks.parse(findings.detail(tool, "-q"), _HEADING) if cards else ()
        details = {canonical(block.heading[0]): block for block in blocks}
        places = NodePlaces(host, (_NODE.pattern,), ("xpu", "kunlun"))
        devices = []
        for index, card in sorted(cards.items()):
            pci = canonical(card.get("bus-id"))
            more = details.get(pci, Block(("",)))
            devices.append(_facts(index, card, more, banner, _files(more, pci, places, len(cards))))
        return findings.result(devices, said=answer.text)


def _ask(findings: Findings) -> tuple[str, Answer]:
    """The first of its names that is Kunlunxin's."""
    why = ""
    for tool in ("xpu_smi", "xpu-smi"):
        quiet = Findings(findings.host, findings.name)
        answer = quiet.ask(tool)
        if answer.state == "absent":
            why = why or answer.why
        elif tool == "xpu-smi" and not _is_kunlun(answer):
            why = "xpu-smi is not Kunlunxin's"
        else:
            findings.problems, findings.hung = quiet.problems, quiet.hung
            return tool, answer
    return "", Answer("absent", why=why)


def _is_kunlun(answer: Answer) -> bool:
    text = f"{answer.text} {answer.why}"
    return bool(_BRAND.search(text)) and not _INTEL.search(text)


def _files(more: Block, pci: str | None, places: NodePlaces, cards: int) -> tuple[str, ...]:
    minor = whole(more.get("Minor Number"))
    return (f"/dev/xpu{minor}",) if minor is not None else places.at(pci) or places.sole(cards)


def _facts(
    index: int, card: dict[str, str], more: Block, banner: str, files: tuple[str, ...]
) -> DeviceFacts:
    return DeviceFacts(
        ref=f"XPU{index}",
        vendor="kunlunxin",
        kind="npu",
        model=known(card.get("name")) or known(more.get("Product Name")),
        pci=canonical(card.get("bus-id")),
        index=index,
        files=files,
        uuid=known(more.get("XPU UUID")),
        serial=known_serial(more.get("Serial Number")),
        memory_mib=total_mebibytes(card.get("memory-usage"))
        or mebibytes(more.get("Memory Usage", "Total")),
        driver=smi_cards.version(banner, "Driver Version"),
        firmware=known(more.get("Firmware Version", "ALL Version")),
        runtime_version=smi_cards.version(banner, "XPU-RT Version"),
        health=_health(card, more),
    )


def _health(card: dict[str, str], more: Block) -> Health | None:
    """A card can answer every question and yet run no program: no complaint is no praise."""
    counts = (
        card.get("volatile uncorr. ecc"),
        more.get("ECC Errors", "Volatile", "DRAM Uncorrectable"),
    )
    if any((whole(count) or 0) > 0 for count in counts):
        reason = "uncorrectable ECC errors since the driver was loaded"
        return Health(state="degraded", reasons=(reason,))
    return None


@dataclass(frozen=True, slots=True)
class _Versions:
    driver: str | None
    runtime: str | None


def _old(rows: list[dict[str, str]], text: str, findings: Findings) -> list[DeviceFacts]:
    versions = _Versions(
        smi_cards.version(text, "Driver Version"), smi_cards.version(text, "Runtime Version")
    )
    cards: dict[int, DeviceFacts] = {}
    for row in rows:
        index = whole(row["devid"])
        if index is None:
            continue
        if index in cards:
            findings.problems.append(f"lists card {index} twice")
        cards.setdefault(index, _old_facts(index, row, versions))
    return list(cards.values())


def _old_facts(index: int, row: dict[str, str], versions: _Versions) -> DeviceFacts:
    node = row.get("inode", "")
    return DeviceFacts(
        ref=f"XPU{index}",
        vendor="kunlunxin",
        kind="npu",
        model=known(row.get("model")),
        pci=canonical(row.get("pci addr")),
        index=index,
        files=(node,) if _NODE.fullmatch(node) else (),
        serial=known_serial(row.get("sn")),
        memory_mib=total_mebibytes(row.get("memory")),
        driver=versions.driver,
        runtime_version=versions.runtime,
    )
