"""xpu-smi, Intel's tool for its GPUs: ``discovery -j``, of each GPU ``discovery -d N -j``, and
``topology -m`` for the links.

Its number of a GPU is no card number: GPU 0 may be /dev/dri/card3. Another vendor's tool has the
same name, so an answer counts only if it is Intel's.
"""

from __future__ import annotations

import re
from collections import Counter

from hpcmgr.discovery import drm_nodes, xpu_smi_text
from hpcmgr.discovery.drm_nodes import DrmNodes
from hpcmgr.discovery.findings import Findings, mebibytes
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.node_places import placed
from hpcmgr.discovery.source import Collected, DeviceFacts, LinkFacts, known, known_serial, whole
from hpcmgr.discovery.sysfs_pci import ROOT
from hpcmgr.discovery.xpu_smi_text import Answer, Entry
from hpcmgr.inventory.pci_address import canonical

_INTEL = "8086"
_CARD = re.compile(r"/dev/dri/card[0-9]{1,6}")
_MOST = 64


class XpuSmi:
    """Intel's tool for GPUs."""

    name = "xpu-smi"
    vendor: str | None = "intel"

    def collect(self, host: Host) -> Collected:
        """Ask it."""
        findings = Findings(host, self.name)
        told = _ask(findings)
        matrix = findings.detail("xpu-smi", "topology", "-m")
        if told is None:
            if not xpu_smi_text.gpus(matrix):
                return findings.absent("not installed")
            told = Answer(tuple({"device_id": str(number)} for number in xpu_smi_text.gpus(matrix)))
            findings.problems.append("topology -m shows GPUs, discovery told nothing")
        if told.foreign:
            return findings.absent("another vendor's tool of the same name")
        if told.problem and told.entries:
            findings.problems.append(told.problem)
        findings.read_around(told.around)
        nodes = drm_nodes.read(host)
        facts = [
            _facts(_detailed(entry, findings), nodes, findings)
            for entry in told.entries
            if not _is_virtual(host, entry)
        ]
        twice = [ref for ref, count in Counter(fact.ref for fact in facts).items() if count > 1]
        if twice:
            findings.problems.append(f"lists GPU {', '.join(twice)} twice")
        devices, lost = placed(host, (_INTEL,), facts)
        if lost:
            findings.problems.append(lost)
        return findings.result(devices, _links(matrix), told.around)


def _ask(findings: Findings) -> Answer | None:
    """Release 2 may know no ``discovery -j``; then its table is read."""
    answer = findings.ask("xpu-smi", "discovery", "-j")
    told = xpu_smi_text.parse(answer.text)
    if answer.state == "present" and (told.entries or told.foreign):
        return told
    plain = findings.detail("xpu-smi")
    second = xpu_smi_text.parse(plain)
    if second.entries or second.foreign:
        if not findings.hung:
            findings.problems.clear()
        return second
    return told if answer.state != "absent" or plain else None


def _detailed(entry: Entry, findings: Findings) -> Entry:
    """The entry with what the GPU's own answer tells beside it."""
    number = whole(entry.get("device_id"))
    if number is None or number >= _MOST or "serial_number" in entry:
        return entry
    told = xpu_smi_text.parse(findings.detail("xpu-smi", "discovery", "-d", str(number), "-j"))
    more = told.entries[0] if len(told.entries) == 1 else {}
    return {**more, **entry} if more.get("device_id") == entry.get("device_id") else entry


def _is_virtual(host: Host, entry: Entry) -> bool:
    """A virtual function of a GPU that is here, too; in a guest it is all that there is."""
    pci = canonical(entry.get("pci_bdf_address"))
    virtual = entry.get("device_function_type", "").lower() == "virtual"
    return virtual and host.exists(f"{ROOT}/{pci}/physfn")


def _facts(entry: Entry, nodes: DrmNodes, findings: Findings) -> DeviceFacts:
    pci = canonical(entry.get("pci_bdf_address"))
    card = entry.get("drm_device", "").strip()
    known_nodes = nodes.of.get(pci or "", ())
    if card and known_nodes and card not in known_nodes:
        findings.problems.append(f"says {card} for {pci}, the kernel says {known_nodes[0]}")
    # The kernel knows the render node, too.
    files = () if known_nodes or not _CARD.fullmatch(card) else (card,)
    size = whole(entry.get("memory_physical_size_byte"))
    return DeviceFacts(
        ref=entry.get("device_id", ""),
        vendor="intel",
        kind="gpu",
        model=known(entry.get("device_name")),
        pci=pci,
        pci_id=_pci_id(entry.get("pci_device_id")),
        index=whole(entry.get("device_id")),
        files=files,
        uuid=_uuid(entry.get("uuid")),
        serial=known_serial(entry.get("serial_number")),
        memory_mib=size >> 20 if size else mebibytes(entry.get("memory")),
        driver=known(entry.get("driver_version")),
        firmware=known(entry.get("gfx_firmware_version")),
    )


def _pci_id(text: str | None) -> str | None:
    """``"0xe223"``, ``"0x20a"``, ``"56c0"``."""
    found = re.fullmatch(r"(?:0x)?([0-9a-f]{1,4})", (text or "").strip().lower())
    return f"{_INTEL}:{found[1].zfill(4)}" if found else None


def _uuid(text: str | None) -> str | None:
    """None where it holds the ids of vendor and device only: then every card has the same."""
    value = known(text)
    digits = (value or "").replace("-", "").lower()
    bare = re.fullmatch(r"0*[0-9a-f]{4}0*8086", digits)
    return None if bare else value


def _links(matrix: str) -> list[LinkFacts]:
    return [
        LinkFacts(str(a), str(b), kind, xpu_smi_text.is_fabric(kind))
        for (a, b), kind in xpu_smi_text.links(matrix).items()
    ]
