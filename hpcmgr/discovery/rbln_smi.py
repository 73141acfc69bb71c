"""rbln-smi (rbln-stat before) of Rebellions, as JSON or as a table.

It names the device node of each NPU itself. Several NPUs of one card share its serial number.
"""

from __future__ import annotations

import re
from typing import Any

from hpcmgr.discovery import grid_table, json_answer, smi_cards
from hpcmgr.discovery.findings import Findings, mebibytes, total_mebibytes
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.source import Answer, Collected, DeviceFacts, known, known_serial, whole
from hpcmgr.inventory import Health
from hpcmgr.inventory.pci_address import canonical

_QUESTIONS = (("rbln-smi", "-j"), ("rbln-stat", "-j"), ("rbln-smi",), ("rbln-stat",))
_TABLE = frozenset({"npu", "name", "device", "pci bus id"})
_NODE = re.compile(r"rbln[0-9]{1,5}")
_LEAST = 1 << 30
"""Bytes; JSON tells memory as a bare number of them."""


class RblnSmi:
    """Rebellions' tool."""

    name = "rbln-smi"
    vendor: str | None = "rebellions"

    def collect(self, host: Host) -> Collected:
        """Ask until one answer names devices."""
        findings = Findings(host, self.name)
        first: Answer | None = None
        for question in _QUESTIONS:
            quiet = Findings(host, self.name)
            answer = quiet.ask(*question)
            if answer.state == "absent":
                continue
            devices = _read(answer.text, quiet)
            if devices or quiet.hung:
                return quiet.result(devices, said=answer.text)
            first = first or answer
            findings.problems = findings.problems or quiet.problems
        if first is None:
            return findings.absent("not installed")
        return findings.result((), said=first.text)


def _read(text: str, findings: Findings) -> list[DeviceFacts]:
    read = json_answer.parse(text)
    if isinstance(read.value, dict):
        driver = known(json_answer.texts(read.value).get("KMD_version"))
        items = json_answer.objects(read.value.get("devices"))
        found = [_from_json(item, driver) for item in items]
        findings.read_around(read.around)
    else:
        driver = smi_cards.version(text, "KMD ver")
        found = [_from_row(row, driver) for row in grid_table.parse(text, _TABLE) or ()]
        findings.read_around(text)
    cards: dict[int, DeviceFacts] = {}
    for facts in found:
        if facts is not None and facts.index is not None:
            cards.setdefault(facts.index, facts)
    return [cards[index] for index in sorted(cards)]


def _from_json(item: dict[str, Any], driver: str | None) -> DeviceFacts | None:
    values, place = json_answer.texts(item), json_answer.texts(item.get("pci"))
    index = whole(values.get("npu"))
    if index is None:
        return None
    total = json_answer.texts(item.get("memory")).get("total")
    size = whole(total) or 0
    serial = known_serial(values.get("sid"))
    return DeviceFacts(
        ref=f"NPU{index}",
        vendor="rebellions",
        kind="npu",
        model=known(values.get("name")),
        pci=canonical(place.get("bus_id")),
        index=index,
        numa_node=whole(place.get("numa_node")),
        files=_files(values.get("device")),
        uuid=known(values.get("uuid")),
        serial=serial,
        board=serial,
        memory_mib=size >> 20 if size >= _LEAST else mebibytes(total),
        driver=driver,
        firmware=known(values.get("fw_ver")),
        health=_health(known(values.get("status"))),
    )


def _from_row(row: dict[str, str], driver: str | None) -> DeviceFacts | None:
    index = whole(row["npu"])
    if index is None:
        return None
    return DeviceFacts(
        ref=f"NPU{index}",
        vendor="rebellions",
        kind="npu",
        model=known(row["name"]),
        pci=canonical(row["pci bus id"]),
        index=index,
        files=_files(row["device"]),
        memory_mib=total_mebibytes(row.get("memory(used/total)")),
        driver=driver,
    )


def _files(device: str | None) -> tuple[str, ...]:
    return (f"/dev/{device}",) if device and _NODE.fullmatch(device) else ()


def _health(status: str | None) -> Health | None:
    if status is None:
        return None
    if status.lower() == "normal":
        return Health(state="ok")
    return Health(state="degraded", reasons=(f"rbln-smi: {status}",))
