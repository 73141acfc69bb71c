"""cnmon: its table and ``cnmon info`` for the cards of Cambricon.

Release 4 has no PCI address in its table, release 5 has; of two cards the key/value text may know
one only. Of ``cnmon topo -m`` only pictures and a description of its words are public (MLK is
MLU-Link, MUL and CPU are ways over PCIe): a row that does not fit its heading is not read.
"""

from __future__ import annotations

import re
from dataclasses import replace

from hpcmgr.discovery import key_blocks, smi_cards, topo_matrix
from hpcmgr.discovery.findings import Findings, mebibytes, total_mebibytes
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.key_blocks import Block
from hpcmgr.discovery.node_places import NodePlaces, placed
from hpcmgr.discovery.source import Collected, DeviceFacts, LinkFacts, known, known_serial
from hpcmgr.inventory import Health
from hpcmgr.inventory.pci_address import canonical

_BRAND = re.compile(r"\bCNMON\b")
_HEADING = re.compile(r"Card\s+([0-9]{1,5})")
_PCI = ("Domain ID", "Bus num", "Device", "Function")


class Cnmon:
    """Cambricon's tool."""

    name = "cnmon"
    vendor: str | None = "cambricon"

    def collect(self, host: Host) -> Collected:
        """Ask it; a card that only one of its answers knows is listed and makes it broken."""
        findings = Findings(host, self.name)
        answer = findings.ask(self.name)
        if answer.state == "absent":
            return findings.absent(answer.why)
        cards, banner = smi_cards.read(answer.text, "card", _BRAND, findings)
        cards = {index: card for index, card in cards.items() if not _is_virtual(card)}
        info = findings.detail(self.name, "info")
        details = {int(block.heading[0]): block for block in key_blocks.parse(info, _HEADING)}
        _compare(cards, details, findings)
        places = NodePlaces(host, (r"/dev/cambricon_dev[0-9]+",), ("cambricon_dev", "cambricon"))
        numbered = places.numbered({*cards, *details})
        facts = [
            _facts(index, cards.get(index, {}), details.get(index, Block(("",))), banner)
            for index in sorted({*cards, *details})
        ]
        settled, problem = placed(host, {"cabc"}, facts)
        if problem:
            findings.problems.append(problem)
        devices = []
        for fact in settled:
            node = (numbered[fact.index],) if fact.index in numbered else ()
            devices.append(replace(fact, files=places.at(fact.pci) or node))
        return findings.result(devices, _links(findings), said=answer.text)


def _links(findings: Findings) -> list[LinkFacts]:
    """Links by the cards' numbers; lines that frame a table are no part of it."""
    text = findings.detail("cnmon", "topo", "-m")
    matrix = topo_matrix.parse(text.replace("|", " "), "MLU")
    pairs = matrix.links.items() if matrix is not None else ()
    return [LinkFacts(a, b, kind, topo_matrix.is_direct(kind)) for (a, b), kind in pairs]


def _is_virtual(card: dict[str, str]) -> bool:
    """A virtual function has a number in the column VF, a card has a stroke."""
    return card.get("vf", "/").isdigit()


def _compare(
    cards: dict[int, dict[str, str]], details: dict[int, Block], findings: Findings
) -> None:
    if cards and details:
        lost = sorted(set(details) - set(cards))
        findings.problems += [f"shows card {index} with info alone" for index in lost]
    for index, block in details.items():
        told, other = canonical(cards.get(index, {}).get("bus-id")), _address(block)
        if told and other and told != other:
            findings.problems.append(f"puts card {index} at {told} and at {other}")


def _facts(index: int, card: dict[str, str], more: Block, banner: str) -> DeviceFacts:
    memory = total_mebibytes(card.get("memory-usage"))
    return DeviceFacts(
        ref=f"MLU{index}",
        vendor="cambricon",
        kind="npu",
        model=known(card.get("name")) or known(more.get("Product Name")),
        pci=canonical(card.get("bus-id")) or _address(more),
        index=index,
        uuid=known_serial(more.get("UUID")),
        serial=known_serial(more.get("SN")),
        memory_mib=memory or mebibytes(more.get("Physical Memory Usage", "Total")),
        driver=known(more.get("Driver"))
        or known(card.get("driver"))
        or smi_cards.version(banner, "Driver"),
        firmware=known(card.get("firmware")) or known(more.get("Firmware")),
        health=_health(more),
    )


def _address(block: Block) -> str | None:
    domain, bus, device, function = (block.get("PCI", key) for key in _PCI)
    if domain is None or bus is None or device is None or function is None:
        return None
    return canonical(f"{domain}:{bus}:{device}.{function}")


def _health(block: Block) -> Health | None:
    device = known(block.get("Health State", "Device"))
    driver = known(block.get("Health State", "Driver"))
    if device is None:
        return None
    if device.lower() != "good":
        return Health(state="failed", reasons=(f"cnmon: device {device}",))
    if driver is not None and driver.lower() != "running":
        return Health(state="degraded", reasons=(f"cnmon: driver {driver}",))
    return Health(state="ok")
