"""hl-smi, the tool of Intel's Gaudi: ``-Q … -f csv`` for numbers and identities, the plain table
for errors.

``index`` is a number that a container's runtime counts and that starts anew inside it; what a
process is told (HABANA_VISIBLE_MODULES) is the module, its slot on the board. That one is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hpcmgr.discovery import smi_table
from hpcmgr.discovery.findings import Findings, mebibytes, total_mebibytes
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.node_places import placed
from hpcmgr.discovery.questions import HL_SMI_FIELDS
from hpcmgr.discovery.source import Collected, DeviceFacts, known, known_serial, whole
from hpcmgr.inventory import Health
from hpcmgr.inventory.pci_address import canonical

_FIELDS = tuple(HL_SMI_FIELDS.split(","))
_HABANA = "1da3"
_VERSION = re.compile(r"^Driver Version:\s*(\S+)", re.MULTILINE)
_FIRMWARE = re.compile(r"-fw-(\S+)")
_ERRORS = re.compile(r"^(?:volatile )?uncor", re.IGNORECASE)

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Table:
    """The plain table: rows by index, versions of driver and firmware."""

    rows: dict[str, dict[str, str]]
    driver: str | None
    firmware: str | None
    cut: tuple[int, ...]


class HlSmi:
    """Gaudi's tool."""

    name = "hl-smi"
    vendor: str | None = "habana"

    def collect(self, host: Host) -> Collected:
        """Ask it; what only one of its answers knows is listed, and makes it broken."""
        findings = Findings(host, self.name)
        plain = findings.ask("hl-smi")
        csv = findings.ask("hl-smi", "-Q", HL_SMI_FIELDS, "-f", "csv,noheader")
        if plain.state == csv.state == "absent":
            return findings.absent(plain.why)
        table = parse_table(plain.text)
        rows, bad = parse_csv(csv.text)
        if bad and rows:
            findings.problems.append(f"a row has other values than were asked for: {bad}")
        elif bad:
            findings.read_around(bad)
        findings.problems += [f"the rows of AIP {number} are cut" for number in table.cut]
        _compare(table.rows, rows, findings)
        facts = [
            _facts(number, rows.get(number, {}), table.rows.get(number, {}), table)
            for number in sorted({*table.rows, *rows}, key=int)
        ]
        devices, lost = placed(host, (_HABANA,), facts)
        if lost:
            findings.problems.append(lost)
        return findings.result(devices, said=plain.text or csv.text)


def parse_csv(text: str) -> tuple[dict[str, dict[str, str]], str]:
    """Rows by index, and the first line that is none. Without a heading the fields are as asked."""
    fields: tuple[str, ...] = _FIELDS
    rows: dict[str, dict[str, str]] = {}
    bad = ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        names = tuple(re.sub(r"\s*\[.*\]$", "", cell).strip().lower() for cell in cells)
        if "index" in names:
            fields = names
        elif (
            len(cells) == len(fields)
            and whole(dict(zip(fields, cells, strict=True)).get("index")) is not None
        ):
            row = dict(zip(fields, cells, strict=True))
            rows.setdefault(row["index"], row)
        elif line.strip():
            bad = bad or line.strip()
    return rows, bad


def parse_table(text: str) -> Table:
    """The table in the manner of nvidia-smi; a third line of versions came with release 1.20."""
    table = smi_table.parse(text, "aip")
    driver, firmware = _VERSION.search(table.banner), _FIRMWARE.search(table.banner)
    return Table(
        {record["aip"]: record for record in table.records},
        driver[1] if driver else None,
        firmware[1] if firmware else None,
        table.cut,
    )


def _compare(table: Mapping[str, Row], rows: Mapping[str, Row], findings: Findings) -> None:
    for name, one, other in (("the table", table, rows), ("-Q", rows, table)):
        lost = sorted(set(other) - set(one), key=int)
        if one and lost:
            findings.problems.append(f"{name} does not show AIP {', '.join(lost)}")


def _facts(number: str, row: Row, shown: Row, table: Table) -> DeviceFacts:
    return DeviceFacts(
        ref=number,
        vendor="habana",
        kind="npu",
        model=known(row.get("name")) or known(shown.get("name")),
        pci=canonical(row.get("bus_id")) or canonical(shown.get("bus-id")),
        index=whole(row.get("module_id")),
        uuid=known(row.get("uuid")),
        serial=known_serial(row.get("serial")),
        memory_mib=mebibytes(row.get("memory.total")) or total_mebibytes(shown.get("memory-usage")),
        driver=known(row.get("driver_version")) or table.driver,
        firmware=table.firmware,
        health=_health(shown),
    )


def _health(shown: Row) -> Health | None:
    """By the column of uncorrectable events, which was renamed."""
    label = next((label for label in shown if _ERRORS.match(label)), None)
    count = whole(shown.get(label or ""))
    if count is None:
        return None
    if count:
        reason = "uncorrectable errors since the driver was loaded"
        return Health(state="degraded", reasons=(reason,))
    return Health(state="ok")
