"""furiosa-smi (RNGD) and furiosactl (Warboy) of FuriosaAI, as JSON or as a table.

The tool's name of a device is the stem of its nodes: npu1 is /dev/rngd/npu1mgmt, npu1pe0 and so on,
or /dev/npu1 with its parts for Warboy. They have no PCI parent in sysfs.
"""

from __future__ import annotations

import re
from typing import Any

from hpcmgr.discovery import grid_table, json_answer
from hpcmgr.discovery.findings import Findings
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.source import Answer, Collected, DeviceFacts, known, known_serial, whole
from hpcmgr.inventory import Health
from hpcmgr.inventory.pci_address import canonical

_QUESTIONS = (
    ("furiosa-smi", "info", "--format", "json"),
    ("furiosa-smi", "info"),
    ("furiosactl", "info", "--full"),
    ("furiosactl", "info"),
)
_NAME = re.compile(r"npu([0-9]{1,5})")
# What JSON calls a fact, and what the tables of both tools call it.
_KEYS = {
    "name": ("dev_name", "device", "npu"),
    "arch": ("arch", "name"),
    "uuid": ("device_uuid", "uuid"),
    "serial": ("device_sn", "s/n"),
    "firmware": ("firmware",),
    "pci": ("pci_bdf", "pci-bdf"),
}


class FuriosaSmi:
    """FuriosaAI's tools."""

    name = "furiosa-smi"
    vendor: str | None = "furiosaai"

    def collect(self, host: Host) -> Collected:
        """Ask until one answer names devices."""
        findings = Findings(host, self.name)
        answer, records = _ask(findings)
        if answer.state == "absent":
            return findings.absent(answer.why)
        status = _status(findings) if records else {}
        cards: dict[str, dict[str, str]] = {}
        for record in records:
            values = {key: _first(record, names) for key, names in _KEYS.items()}
            name = values["name"].rpartition("/")[2]
            if _NAME.fullmatch(name):
                known_yet = cards.setdefault(name, values)
                cards[name] = {key: known_yet[key] or values[key] for key in values}
        devices = [_facts(host, n, values, status.get(n, {})) for n, values in cards.items()]
        devices.sort(key=lambda facts: facts.index or 0)
        return findings.result(devices, said=answer.text)


def _ask(findings: Findings) -> tuple[Answer, list[dict[str, str]]]:
    first: Answer | None = None
    for question in _QUESTIONS:
        quiet = Findings(findings.host, findings.name)
        answer = quiet.ask(*question)
        if answer.state == "absent":
            continue
        read = json_answer.parse(answer.text)
        records = [json_answer.texts(item) for item in json_answer.objects(read.value)]
        records = records or grid_table.parse(answer.text, frozenset({"pci-bdf"})) or []
        if records or quiet.hung:
            findings.problems, findings.hung = quiet.problems, quiet.hung
            findings.read_around(read.around if read.value is not None else answer.text)
            if read.value is not None and read.problem:
                findings.problems.append(read.problem)
            return answer, records
        first = first or answer
        findings.problems = findings.problems or quiet.problems
    return first or Answer("absent", why="not installed"), []


def _first(record: dict[str, str], names: tuple[str, ...]) -> str:
    return next((record[name] for name in names if record.get(name)), "")


def _facts(host: Host, name: str, values: dict[str, str], status: dict[str, Any]) -> DeviceFacts:
    memory = status.get("memory")
    dram = json_answer.texts(memory.get("DRAM")) if isinstance(memory, dict) else {}
    return DeviceFacts(
        ref=name,
        vendor="furiosaai",
        kind="npu",
        model=known(values["arch"]),
        pci=canonical(values["pci"]),
        index=int(name[3:]),
        files=_files(host, name),
        uuid=known_serial(values["uuid"]),
        serial=known_serial(values["serial"]),
        memory_mib=(whole(dram.get("total_size")) or 0) >> 20 or None,
        firmware=known(values["firmware"].partition(",")[0]),
        health=_health(json_answer.texts(status).get("liveness")),
    )


def _files(host: Host, name: str) -> tuple[str, ...]:
    stem = re.compile(rf"/dev/(?:rngd/)?{name}(?![0-9]).*")
    paths = [node.path for node in host.device_nodes() or () if stem.fullmatch(node.path)]
    return tuple(sorted(paths, key=lambda path: (not path.endswith("mgmt"), path)))


def _status(findings: Findings) -> dict[str, dict[str, Any]]:
    text = findings.detail("furiosa-smi", "status", "--format", "json")
    found = json_answer.objects(json_answer.parse(text).value)
    return {json_answer.texts(item).get("device", ""): item for item in found}


def _health(liveness: str | None) -> Health | None:
    if known(liveness) is None:
        return None
    if (liveness or "").lower() == "alive":
        return Health(state="ok")
    return Health(state="failed", reasons=(f"furiosa-smi: {liveness}",))
