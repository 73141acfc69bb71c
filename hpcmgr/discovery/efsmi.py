"""efsmi: the cards of Enflame. Its PCI domain has two digits."""

from __future__ import annotations

import re

from hpcmgr.discovery import smi_cards
from hpcmgr.discovery.findings import Findings, mebibytes
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.node_places import NodePlaces
from hpcmgr.discovery.source import Collected, DeviceFacts, known, known_serial
from hpcmgr.inventory.pci_address import canonical

_BRAND = re.compile(r"\bEFSMI\b|Enflame")


class EfSmi:
    """Enflame's tool."""

    name = "efsmi"
    vendor: str | None = "enflame"

    def collect(self, host: Host) -> Collected:
        """Ask it."""
        findings = Findings(host, self.name)
        answer = findings.ask(self.name)
        if answer.state == "absent":
            return findings.absent(answer.why)
        cards, banner = smi_cards.read(answer.text, "dev", _BRAND, findings)
        places = NodePlaces(host, (r"/dev/gcu[0-9]+",), ("gcu", "enflame"))
        driver = smi_cards.version(banner, "Driver Ver")
        devices = []
        for index, card in sorted(cards.items()):
            pci = canonical(card.get("bus-id"))
            devices.append(
                DeviceFacts(
                    ref=f"GCU{index}",
                    vendor="enflame",
                    kind="npu",
                    model=known(card.get("name")),
                    pci=pci,
                    index=index,
                    files=places.at(pci) or places.sole(len(cards)),
                    uuid=known(card.get("uuid")),
                    serial=known_serial(card.get("sn")),
                    memory_mib=mebibytes(card.get("mem")),
                    driver=driver,
                    firmware=known(card.get("fw ver")),
                )
            )
        return findings.result(devices, said=answer.text)
