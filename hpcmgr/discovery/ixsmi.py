"""ixsmi: the cards of Iluvatar.

Its table looks like nvidia-smi's and even names a CUDA version, which is a constant. The number of
a device node is the driver's minor, which the table does not tell.
"""

from __future__ import annotations

import re

from hpcmgr.discovery import smi_cards
from hpcmgr.discovery.findings import Findings, total_mebibytes
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.node_places import NodePlaces
from hpcmgr.discovery.source import Collected, DeviceFacts, known
from hpcmgr.inventory.pci_address import canonical

_BRAND = re.compile(r"\bIX-ML\b")


class IxSmi:
    """Iluvatar's tool."""

    name = "ixsmi"
    vendor: str | None = "iluvatar"

    def collect(self, host: Host) -> Collected:
        """Ask it."""
        findings = Findings(host, self.name)
        answer = findings.ask(self.name)
        if answer.state == "absent":
            return findings.absent(answer.why)
        cards, banner = smi_cards.read(answer.text, "gpu", _BRAND, findings)
        places = NodePlaces(host, (r"/dev/iluvatar[0-9]+",), ("iluvatar",))
        driver = smi_cards.version(banner, "Driver Version")
        devices = []
        for index, card in sorted(cards.items()):
            pci = canonical(card.get("bus-id"))
            devices.append(
                DeviceFacts(
                    ref=f"GPU{index}",
                    vendor="iluvatar",
                    kind="gpu",
                    model=known(card.get("name")),
                    pci=pci,
                    index=index,
                    files=places.at(pci) or places.sole(len(cards)),
                    memory_mib=total_mebibytes(card.get("memory-usage")),
                    driver=driver,
                )
            )
        return findings.result(devices, said=answer.text)
