"""mx-smi: the table for the cards of MetaX, ``topo -n`` (with NICs) or ``topo -m`` for the links.

White labels print the same under other names: ht-smi says "Mars X201" and HPCC for MACA. The
matrix has a CPU affinity, too, that puts every card on node 0 where it does not know better.
"""

from __future__ import annotations

import re

from hpcmgr.discovery import drm_nodes, smi_cards, topo_matrix
from hpcmgr.discovery.drm_nodes import DrmNodes
from hpcmgr.discovery.findings import Findings, total_mebibytes
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.source import Collected, DeviceFacts, known
from hpcmgr.inventory import Health
from hpcmgr.inventory.pci_address import canonical

_BRAND = re.compile(r"\b(?:MX|HT)-SMI\b")


class MxSmi:
    """MetaX's tool."""

    name = "mx-smi"
    vendor: str | None = "metax"

    def collect(self, host: Host) -> Collected:
        """Ask it, or the white label's."""
        findings = Findings(host, self.name)
        tool = self.name
        answer = findings.ask(tool)
        if answer.state == "absent":
            tool = "ht-smi"
            answer = findings.ask(tool)
        if answer.state == "absent":
            return findings.absent(answer.why)
        cards, banner = smi_cards.read(answer.text, "gpu", _BRAND, findings)
        nodes = drm_nodes.read(host)
        devices = [_facts(index, card, banner, nodes) for index, card in sorted(cards.items())]
        links = smi_cards.links(_matrix(tool, findings), devices, findings) if devices else ()
        return findings.result(devices, links, answer.text)


def _facts(index: int, card: dict[str, str], banner: str, nodes: DrmNodes) -> DeviceFacts:
    pci = canonical(card.get("bus-id"))
    return DeviceFacts(
        ref=f"GPU{index}",
        vendor="metax",
        kind="gpu",
        model=known(card.get("name")),
        pci=pci,
        index=index,
        files=nodes.of.get(pci or "", ()),
        memory_mib=total_mebibytes(card.get("memory-usage")),
        driver=smi_cards.version(banner, "Kernel Mode Driver Version"),
        firmware=smi_cards.version(banner, "BIOS Version"),
        runtime_version=smi_cards.version(banner, "(?:MACA|HPCC) Version"),
        health=_health(known(card.get("gpu-state"))),
    )


def _health(state: str | None) -> Health | None:
    if state is None:
        return None
    if state.lower() == "available":
        return Health(state="ok")
    return Health(state="degraded", reasons=(f"mx-smi: {state}",))


def _matrix(tool: str, findings: Findings) -> topo_matrix.TopoMatrix | None:
    for option in ("-n", "-m"):
        matrix = topo_matrix.parse(findings.detail(tool, "topo", option), "GPU")
        if matrix is not None:
            return matrix
    return None
