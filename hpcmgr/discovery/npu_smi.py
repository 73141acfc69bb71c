"""npu-smi: ``info`` and ``info -m`` for the chips, ``-l`` and ``-t board`` for serials and
versions, ``-t health`` for reasons, ``-t topo`` for the links.

The topo table also has a CPU affinity. It is not read: npu-smi takes an unknown NUMA node for 0.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace

from hpcmgr.discovery import npu_smi_text, npu_vnpu, topo_matrix
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.npu_numbers import ChipNumbers, device_numbers, physical_ids
from hpcmgr.discovery.npu_smi_text import MappingRow, Table, TableRow
from hpcmgr.discovery.source import (
    Collected,
    DeviceFacts,
    LinkFacts,
    ask,
    first_line,
    key_values,
    known,
    known_serial,
    leading_number,
)
from hpcmgr.inventory import Health, SourceReport
from hpcmgr.inventory.pci_address import canonical

Chip = tuple[int, int]
"""NPU id and chip id."""

_HEALTH = {"ok": "ok", "warning": "degraded", "alarm": "degraded", "critical": "failed"}
_BAD_WORDS = re.compile(r"error|fail|unable|lost|not found", re.IGNORECASE)


class NpuSmi:
    """Huawei's tool for Ascend NPUs."""

    name = "npu-smi"
    vendor: str | None = "huawei"

    def collect(self, host: Host) -> Collected:
        """Ask it; a chip that only one of its answers knows is listed and makes it broken."""
        answer = ask(host, ("npu-smi", "info"))
        if answer.state == "absent":
            return Collected(SourceReport(name=self.name, state="absent", detail=answer.why))
        session = _Session(host, hung=answer.why.endswith("in time"))
        table = npu_smi_text.parse_table(answer.text)
        mapping = npu_smi_text.parse_mapping(session.text("-m"))
        rows = _distinct_rows(table, session)
        mapped = {(row.npu, row.chip): row for row in mapping}
        _judge(answer.why, answer.text, table, rows, mapped, session)
        chips = sorted({*rows, *mapped})
        if not chips:
            report = SourceReport(name=self.name, state="broken", detail=_told(session))
            return Collected(report, failed_empty=not session.hung)
        phys = _physical(host, chips, rows, mapped, session)
        details = _Details(session, chips)
        shared = Counter(row.pci for row in rows.values())
        devices = tuple(
            _facts(chip, rows.get(chip), mapped.get(chip), phys.get(chip), details, shared, table)
            for chip in chips
        )
        devices = _with_vnpus(host, devices, phys, session)
        links = _links(devices, mapped, phys, session)
        state = "broken" if session.problems else "present"
        report = SourceReport(name=self.name, state=state, detail=_told(session))
        return Collected(report, devices, links)


@dataclass(slots=True)
class _Session:
    """Questions to the tool and what was wrong; after one hang nothing more is asked."""

    host: Host
    hung: bool = False
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def text(self, *args: str) -> str:
        """Answer to ``npu-smi info ARGS``, empty if there is none. Not every release knows all."""
        if self.hung:
            return ""
        answer = ask(self.host, ("npu-smi", "info", *args))
        if answer.state == "broken" and answer.why.endswith("in time"):
            self.hung = True
            self.problems.append(answer.why)
        return answer.text if answer.state == "present" else ""

    def values(self, *args: str) -> dict[str, str]:
        """The same as keys and values; the first of a key counts."""
        found: dict[str, str] = {}
        for key, value in key_values(self.text(*args)):
            found.setdefault(key, value)
        return found


class _Details:
    """What is asked card by card and chip by chip."""

    def __init__(self, session: _Session, chips: list[Chip]) -> None:
        self.listed = npu_smi_text.parse_list(key_values(session.text("-l")))
        self.cards = {
            npu: session.values("-t", "board", "-i", str(npu))
            for npu in dict.fromkeys(npu for npu, _ in chips)
        }
        self.chips = {
            (npu, chip): session.values("-t", "board", "-i", str(npu), "-c", str(chip))
            for npu, chip in chips
        }
        self.session = session

    def reasons(self, chip: Chip, said: str) -> tuple[str, ...]:
        """Why a chip is not well: the table's word and the tool's error codes."""
        values = self.session.values("-t", "health", "-i", str(chip[0]), "-c", str(chip[1]))
        errors = (known(values.get(key)) for key in ("Error Code", "Error Information"))
        return (f"npu-smi: {said}", *(error for error in errors if error))

    def memory(self, chip: Chip) -> int | None:
        """Capacity where the table has none."""
        values = self.session.values("-t", "usages", "-i", str(chip[0]), "-c", str(chip[1]))
        sizes = (leading_number(values.get(f"{kind} Capacity(MB)")) for kind in ("HBM", "DDR"))
        return next((size for size in sizes if size), None)


def _distinct_rows(table: Table, session: _Session) -> dict[Chip, TableRow]:
    rows: dict[Chip, TableRow] = {}
    for row in table.rows:
        if (row.npu, row.chip) in rows:
            session.problems.append(f"lists NPU {row.npu} chip {row.chip} twice")
        rows.setdefault((row.npu, row.chip), row)
    return rows


def _judge(
    why: str,
    text: str,
    table: Table,
    rows: dict[Chip, TableRow],
    mapped: dict[Chip, MappingRow],
    session: _Session,
) -> None:
    """What makes the answer incomplete, and what is only worth saying."""
    said = first_line(text)
    if why:
        session.problems.append(why)
    elif not table.has_header:
        session.problems.append("printed no table of NPUs" + (f" but {said!r}" if said else ""))
    elif not rows:
        session.problems.append("lists no NPU")
    elif not said.startswith(("+", "|")):
        bad = _BAD_WORDS.search(said)
        (session.problems if bad else session.notes).append(f"said before its table: {said}")
    session.problems += [f"the rows of NPU {npu} are cut" for npu in table.cut]
    if rows and mapped:
        lost = sorted(set(mapped) - set(rows))
        session.problems += [f"info does not show NPU {n} chip {c}, info -m does" for n, c in lost]


def _physical(
    host: Host,
    chips: list[Chip],
    rows: dict[Chip, TableRow],
    mapped: dict[Chip, MappingRow],
    session: _Session,
) -> dict[Chip, int]:
    numbers = []
    for npu, chip in chips:
        row, mapping = rows.get((npu, chip)), mapped.get((npu, chip))
        phy = mapping.phy if mapping and mapping.phy is not None else row.phy if row else None
        numbers.append(ChipNumbers(npu, chip, mapping.logic if mapping else None, phy))
    present = device_numbers(host)
    found = physical_ids(numbers, present)
    missing = [npu for npu, chip in chips if (npu, chip) not in found]
    if missing:
        session.notes.append(
            f"device node unknown of NPU {', '.join(str(npu) for npu in dict.fromkeys(missing))}"
        )
    elif present is not None and set(found.values()) < present:
        spare = sorted(present - set(found.values()))
        session.problems.append(
            f"lists no NPU for {', '.join(f'/dev/davinci{number}' for number in spare)}"
        )
    return found


def _facts(
    chip: Chip,
    row: TableRow | None,
    mapping: MappingRow | None,
    phy: int | None,
    details: _Details,
    shared: Counter[str | None],
    table: Table,
) -> DeviceFacts:
    card, own = details.cards[chip[0]], details.chips[chip]
    listed = details.listed.get(chip[0], {})
    pci = (
        row.pci
        if row
        else canonical(own.get("PCIe Bus Info")) or canonical(card.get("PCIe Bus Info"))
    )
    memory = row.memory_mib if row else None
    return DeviceFacts(
        ref=_ref(chip),
        vendor="huawei",
        kind="npu",
        model=(row.name if row else None) or (mapping.name if mapping else None),
        pci=pci,
        pci_id=_pci_id(card.get("PCI Vendor ID"), card.get("PCI Device ID")),
        chip=chip[1] if shared[pci] > 1 else None,
        index=mapping.logic if mapping else None,
        files=() if phy is None else (f"/dev/davinci{phy}",),
        uuid=known(own.get("VDie ID")),
        serial=known_serial(listed.get("Serial Number")) or known_serial(card.get("Serial Number")),
        board=str(chip[0]),
        memory_mib=details.memory(chip) if memory is None else memory,
        driver=known(card.get("Software Version")) or table.version,
        firmware=known(own.get("Firmware Version")) or known(card.get("Firmware Version")),
        health=_health(chip, row.health if row else None, details),
    )


def _with_vnpus(
    host: Host, devices: tuple[DeviceFacts, ...], phys: dict[Chip, int], session: _Session
) -> tuple[DeviceFacts, ...]:
    """The tool is asked only about chips that have device nodes of vNPUs."""
    found = []
    for device in devices:
        npu, _, chip = device.ref.removeprefix("NPU").partition(".")
        present = npu_vnpu.numbers(host, phys.get((int(npu), int(chip))))
        if present:
            named = npu_vnpu.parse(session.text("-t", "info-vnpu", "-i", npu, "-c", chip))
            untold = sorted(present - set(named))
            session.problems += [f"does not tell what /dev/vdavinci{n} is" for n in untold]
            pieces = npu_vnpu.slices(present, named)
            device = replace(device, sliced=True, slices=pieces)
        found.append(device)
    return tuple(found)


def _health(chip: Chip, said: str | None, details: _Details) -> Health:
    if said is None:
        return Health(state="unknown", reasons=("npu-smi does not tell its health",))
    if said.lower() == "ok":
        return Health(state="ok")
    reasons = details.reasons(chip, said)
    state = _HEALTH.get(said.lower(), "degraded")
    return Health.model_validate({"state": state, "reasons": reasons})


def _links(
    devices: tuple[DeviceFacts, ...],
    mapped: dict[Chip, MappingRow],
    phys: dict[Chip, int],
    session: _Session,
) -> tuple[LinkFacts, ...]:
    """Labels of the matrix are NPU ids, or, with several chips a card, another numbering."""
    text = session.text("-t", "topo")
    matrix = topo_matrix.parse(text, "NPU")
    if matrix is None:
        return ()
    labels = {label: int(label[3:]) for label in matrix.labels if label.startswith("NPU")}
    chips = [
        (int(npu), int(chip)) for npu, chip in (device.ref[3:].split(".") for device in devices)
    ]
    numberings = (
        {npu: (npu, chip) for npu, chip in chips},
        {number: chip for chip, number in phys.items()},
        {row.logic: chip for chip, row in mapped.items() if row.logic is not None},
    )
    for numbers in numberings:
        if len(numbers) == len(chips) and set(numbers) == set(labels.values()):
            refs = {label: _ref(numbers[number]) for label, number in labels.items()}
            return tuple(
                LinkFacts(refs.get(a, a), refs.get(b, b), kind, topo_matrix.is_direct(kind))
                for (a, b), kind in matrix.links.items()
            )
    session.notes.append("no links: info -t topo numbers the NPUs in an unknown way")
    return ()


def _ref(chip: Chip) -> str:
    return f"NPU{chip[0]}.{chip[1]}"


def _told(session: _Session) -> str:
    return "; ".join(dict.fromkeys(session.problems + session.notes))


def _pci_id(vendor: str | None, device: str | None) -> str | None:
    found = [re.fullmatch(r"0x([0-9a-fA-F]{4})", text or "") for text in (vendor, device)]
    return ":".join(match[1].lower() for match in found if match) if all(found) else None
