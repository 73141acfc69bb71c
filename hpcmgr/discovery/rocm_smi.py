"""rocm-smi: ``--showallinfo`` for the GPUs, ``--showtopo`` for the links.

Hygon's machines have a tool of this name, too. A GPU is found by its address; where that is not
told (secondary partitions answer N/A to nearly everything) by its GUID in the driver's tree.
"""

from __future__ import annotations

from collections.abc import Mapping

from hpcmgr.discovery import amd_ids, kfd_tree, rocm_smi_text
from hpcmgr.discovery.findings import Findings
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.kfd_tree import KfdTree
from hpcmgr.discovery.node_places import placed
from hpcmgr.discovery.rocm_smi_text import first
from hpcmgr.discovery.source import Collected, DeviceFacts, LinkFacts, known_serial, whole
from hpcmgr.discovery.sysfs_pci import id_of
from hpcmgr.inventory.pci_address import canonical

_AMD, _HYGON = "1002", "1d94"
_NUMA_NODES = 1 << 10

Card = Mapping[str, str]


class RocmSmi:
    """AMD's older tool."""

    name = "rocm-smi"
    vendor: str | None = "amd"

    def collect(self, host: Host) -> Collected:
        """Ask it."""
        findings = Findings(host, self.name)
        answer = findings.ask("rocm-smi", "--showallinfo", "--json")
        if answer.state == "absent":
            return findings.absent(answer.why)
        told = rocm_smi_text.parse(answer.text)
        if told.foreign:
            return findings.absent("Hygon's tool of the same name")
        if told.problem:
            findings.problems.append(told.problem)
        if not told.cards:
            return findings.result((), said=told.around or answer.text)
        findings.read_around(told.around)
        if told.errors and not findings.problems:
            findings.notes.append(told.errors[0])
        devices = _devices(host, told, findings)
        topology = rocm_smi_text.parse(findings.detail("rocm-smi", "--showtopo", "--json"))
        links = [
            LinkFacts(str(a), str(b), kind, direct=kind == "XGMI")
            for (a, b), kind in topology.links().items()
            if kind in ("XGMI", "PCIE")
        ]
        return findings.result(devices, links)


def _devices(host: Host, told: rocm_smi_text.Answer, findings: Findings) -> tuple[DeviceFacts, ...]:
    tree = kfd_tree.read(host)
    driver = first(told.system, "driver version")
    addresses = {number: _address(card, tree) for number, card in told.cards.items()}
    places = amd_ids.places(address for address in addresses.values() if address)
    facts = [
        _facts(host, number, card, places.get(addresses[number] or "", (None, None)), driver)
        for number, card in sorted(told.cards.items())
    ]
    devices, lost = placed(host, (_AMD,), facts)
    if lost:
        findings.problems.append(lost)
    return devices


def _address(card: Card, tree: KfdTree | None) -> str | None:
    """A partition is told as a function of its parent, or not at all."""
    node = tree.at(gpu_id=first(card, "guid"), node=first(card, "node id")) if tree else None
    if node is not None and node.pci is not None:
        return node.pci if node.partition is None else f"{node.pci[:-1]}{node.partition}"
    address = first(card, "pci bus")
    return address if canonical(address) else None


def _facts(
    host: Host,
    number: int,
    card: Card,
    place: tuple[str | None, int | None],
    driver: str | None,
) -> DeviceFacts:
    pci, chip = place
    pci_id = id_of(host, pci) if pci else None
    device = rocm_smi_text.device_id(card)
    vendor = "hygon" if pci_id and pci_id[:4] == _HYGON else "amd"
    numa = whole(first(card, "(topology) numa node"))
    size = whole(first(card, "vram total memory (b)"))
    return DeviceFacts(
        ref=str(number),
        vendor=vendor,
        kind="gpu",
        model=rocm_smi_text.model(card),
        pci=pci,
        pci_id=f"{_AMD}:{device}" if device and vendor == "amd" else None,
        chip=chip,
        numa_node=numa if numa is not None and numa < _NUMA_NODES else None,
        uuid=amd_ids.nonzero(card.get("unique id")),
        serial=known_serial(card.get("serial number")),
        board=pci,
        memory_mib=size >> 20 if size else None,
        driver=driver,
        firmware=first(card, "vbios version"),
    )
