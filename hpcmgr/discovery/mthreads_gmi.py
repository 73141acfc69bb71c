"""mthreads-gmi: the table for the cards of Moore Threads, ``-q`` for what the table lacks.

A card is two lines or three; the third (ECC) came with release 2.4.
"""

from __future__ import annotations

import re
from dataclasses import replace

from hpcmgr.discovery import drm_nodes, key_blocks, smi_cards
from hpcmgr.discovery.findings import Findings, mebibytes
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.key_blocks import Block
from hpcmgr.discovery.node_places import NodePlaces
from hpcmgr.discovery.source import Collected, DeviceFacts, known, known_serial
from hpcmgr.inventory.pci_address import canonical

_BRAND = re.compile(r"mthreads-gmi", re.IGNORECASE)
_HEADING = re.compile(r"GPU\s?([0-9]{1,5})\s+([0-9A-Fa-f:.]+)")
_TOTAL = re.compile(r"\(\s*([0-9.]+\s*[KMGT]i?B)\s*\)")


class MthreadsGmi:
    """Moore Threads' tool."""

    name = "mthreads-gmi"
    vendor: str | None = "mthreads"

    def collect(self, host: Host) -> Collected:
        """Ask it; a card that only one of its answers knows makes it broken."""
        findings = Findings(host, self.name)
        answer = findings.ask(self.name)
        if answer.state == "absent":
            return findings.absent(answer.why)
        cards, banner = smi_cards.read(answer.text, "id", _BRAND, findings)
        blocks = key_blocks.parse(findings.detail(self.name, "-q"), _HEADING)
        details = {int(block.heading[0]): block for block in blocks}
        lost = sorted(set(details) - set(cards))
        findings.problems += [f"shows card {index} with -q alone" for index in lost]
        places = NodePlaces(host, (r"/dev/mtgpu\.[0-9]+",), ("mtgpu",))
        # The driver's own nodes stand outside of the device tree in some releases; its vendor's
        # container tools take the numbers of the tool for theirs.
        numbered = places.numbered({*cards, *details})
        drm = drm_nodes.read(host)
        driver = smi_cards.version(banner, "Driver Version")
        devices = []
        for index in sorted({*cards, *details}):
            one = _facts(index, cards.get(index, {}), details.get(index, Block(("", ""))), driver)
            own = places.at(one.pci) or ((numbered[index],) if index in numbered else ())
            devices.append(replace(one, files=(*own, *drm.of.get(one.pci or "", ()))))
        return findings.result(devices, said=answer.text)


def _facts(index: int, card: dict[str, str], more: Block, driver: str | None) -> DeviceFacts:
    total = _TOTAL.search(card.get("mem", ""))
    return DeviceFacts(
        ref=f"GPU{index}",
        vendor="mthreads",
        kind="gpu",
        model=known(card.get("name")) or known(more.get("Product Name")),
        pci=canonical(card.get("pcie")) or canonical(more.heading[1]),
        index=index,
        uuid=known(more.get("GPU UUID")),
        serial=known_serial(more.get("Serial Number")),
        memory_mib=mebibytes(total[1])
        if total
        else mebibytes(more.get("FB Memory Usage", "Total")),
        driver=driver,
        firmware=known(more.get("MTBios Version")),
    )
