"""ppu-smi: T-Head's PPU, after the layout of its vendor's public guide.

The number of /dev/alixpu_ppuN starts from 1 where the tool's starts from 0, and nothing says that
it always does.
"""

from __future__ import annotations

import re

from hpcmgr.discovery import smi_cards
from hpcmgr.discovery.findings import Findings, total_mebibytes
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.node_places import NodePlaces
from hpcmgr.discovery.source import Collected, DeviceFacts, known
from hpcmgr.inventory.pci_address import canonical

_BRAND = re.compile(r"\bPPU-SMI\b")
_LISTED = re.compile(r"^PPU ([0-9]{1,5}): .*\(UUID: ([^)\s]+)\)\s*$", re.MULTILINE)


class PpuSmi:
    """T-Head's tool."""

    name = "ppu-smi"
    vendor: str | None = "thead"

    def collect(self, host: Host) -> Collected:
        """Ask it; ``-L`` tells the uuids."""
        findings = Findings(host, self.name)
        answer = findings.ask(self.name)
        if answer.state == "absent":
            return findings.absent(answer.why)
        cards, banner = smi_cards.read(answer.text, "ppu", _BRAND, findings)
        places = NodePlaces(host, (r"/dev/alixpu_ppu[0-9]+",), ("alixpu",))
        uuids = dict(_LISTED.findall(findings.detail(self.name, "-L"))) if cards else {}
        devices = []
        for index, card in sorted(cards.items()):
            pci = canonical(card.get("bus-id"))
            devices.append(
                DeviceFacts(
                    ref=f"PPU{index}",
                    vendor="thead",
                    kind="gpu",
                    model=known(card.get("name")),
                    pci=pci,
                    index=index,
                    files=places.at(pci) or places.sole(len(cards)),
                    uuid=known(uuids.get(str(index))),
                    memory_mib=total_mebibytes(card.get("memory-usage")),
                    driver=smi_cards.version(banner, "Driver Version"),
                    runtime_version=smi_cards.version(banner, "HGGC Version"),
                )
            )
        return findings.result(devices, said=answer.text)
