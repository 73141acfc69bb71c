"""A recording that names nobody: masked values, no programs of users, of the kernel's log only
what it says about devices. PCI addresses, models, versions and NUMA nodes stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from hpcmgr.discovery.host import CommandResult
from hpcmgr.discovery.masks import Masks
from hpcmgr.discovery.questions import HL_SMI_FIELDS, Argv
from hpcmgr.discovery.recorded_files import Entry, Link
from hpcmgr.discovery.recorder import Recording, differences
from hpcmgr.errors import HostError
from hpcmgr.inventory import NodeInventory
from hpcmgr.profile import ProfileLibrary

_PCI = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\b", re.IGNORECASE)
_IP = re.compile(r"\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b")
_PROGRAMS = (
    (re.compile(r"(<process_name>)[^<]*"), r"\1program"),
    (re.compile(r'("(?:command|cmd|cmdline|process_name)"\s*:\s*")[^"]*', re.I), r"\1program"),
    (re.compile(r'("PID[0-9]+"\s*:\s*")[^",]*'), r"\1program"),
    (re.compile(r"(\bcmdline\s*:\s*)\S.*", re.IGNORECASE), r"\1program"),
    (re.compile(r"(\bname=)[^\s,]+"), r"\1program"),
)
_PROGRAM_TITLES = ("process name", "process", "command")
_LOOSE_HEADING = re.compile(r"\bPID\b.*\b(?:Process name|Command Line)\b", re.IGNORECASE)
_LOOSE_ROW = re.compile(r"[|\s]*[0-9]+\s+(?:\S+\s+)?[0-9]+\s+\S")
_WORD = re.compile(r"(?<![^\s|])(?![0-9.]+[KMGT]?i?B?(?![^\s|]))[^\s|/][^\s|]*")
"""A word of a table that is no number and no size."""
_PATH = re.compile(r"(?<=[\s\"'>|=])/(?!dev/|sys/|proc/|usr/|lib|etc/|bin/)[\w.+-]+(?:/[\w.+-]+)+")


def anonymized(recording: Recording, library: ProfileLibrary) -> Recording:
    """The same host under masks, which discovery must take for the same.

    Raises:
        HostError: the masked recording would be another machine.
    """
    masked = _masked(recording, recording.hostname)
    wrong = differences(masked, library)
    if wrong:
        # A host may be called like a word of the tools; then its name stays in their answers.
        masked = _masked(recording, "")
        wrong = differences(masked, library)
    if wrong:
        raise HostError(
            f"masking would change what is discovered: {', '.join(wrong)}",
            "record without --anonymize and mask by hand what must not be seen",
        )
    return masked


def _masked(recording: Recording, hostname: str) -> Recording:
    commands = {argv: _without_users(argv, r) for argv, r in recording.commands.items()}
    masks = Masks(hostname)
    for text in _texts(replace(recording, commands=commands)):
        masks.search(text)
    for device in recording.inventory.devices:
        for value in (device.serial, device.uuid, *(piece.uuid for piece in device.slices)):
            masks.name(value or "")
    for value in _columns_of_hl_smi(commands):
        masks.name(value)
    masks.number()
    return replace(
        recording,
        hostname="node1",
        commands={
            argv: replace(r, stdout=masks.text(r.stdout), stderr=masks.text(r.stderr))
            for argv, r in commands.items()
        },
        tree={masks.path(path): _entry(masks, entry) for path, entry in recording.tree.items()},
        nodes=recording.nodes
        and tuple(replace(node, path=masks.path(node.path)) for node in recording.nodes),
        inventory=_inventory(masks, recording.inventory),
        unread=tuple(masks.path(path) for path in recording.unread),
        anonymized=True,
    )


def _texts(recording: Recording) -> Iterator[str]:
    for result in recording.commands.values():
        yield result.stdout
        yield result.stderr
    for path, entry in recording.tree.items():
        yield path
        if isinstance(entry, bytes):
            yield entry.decode(errors="replace")


def _entry(masks: Masks, entry: Entry) -> Entry:
    if isinstance(entry, bytes):
        return masks.text(entry.decode(errors="replace")).encode()
    return Link(masks.path(entry.target)) if isinstance(entry, Link) else None


def _inventory(masks: Masks, inventory: NodeInventory) -> NodeInventory:
    return NodeInventory.model_validate(_strings(masks, inventory.model_dump(by_alias=True)))


def _strings(masks: Masks, value: Any) -> Any:
    """The same value with its texts masked; keys stay."""
    if isinstance(value, dict):
        return {key: _strings(masks, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_strings(masks, item) for item in value)
    return masks.text(value) if isinstance(value, str) else value


def _columns_of_hl_smi(commands: dict[Argv, CommandResult]) -> Iterable[str]:
    """Its CSV has no heading."""
    places = [HL_SMI_FIELDS.split(",").index(name) for name in ("serial", "uuid")]
    result = commands.get(("hl-smi", "-Q", HL_SMI_FIELDS, "-f", "csv,noheader"))
    for line in result.stdout.splitlines() if result else ():
        cells = line.split(",")
        yield from (cells[place] for place in places if place < len(cells))


def _without_users(argv: Argv, result: CommandResult) -> CommandResult:
    """Without what is running on the machine and whose it is."""
    text = _log(result.stdout) if argv == ("dmesg",) else result.stdout
    for pattern, program in _PROGRAMS:
        text = pattern.sub(program, text)
    text = _PATH.sub(lambda m: "/program".ljust(len(m[0])), text)
    return replace(result, stdout=_process_table(text))


def _log(text: str) -> str:
    """Lines about PCI devices, without IP addresses."""
    lines = (line for line in text.splitlines(keepends=True) if _PCI.search(line))
    return _IP.sub("0.0.0.0", "".join(lines))  # noqa: S104


def _process_table(text: str) -> str:
    """Names of programs in a drawn table that has a column for them, or one cell for all."""
    column, lines, loose = None, [], False
    for line in text.splitlines(keepends=True):
        cells = line.split("|")
        titles = [cell.strip().casefold() for cell in cells]
        named = next((title for title in _PROGRAM_TITLES if title in titles), None)
        loose = bool(_LOOSE_HEADING.search(line)) or (loose and bool(line.strip()))
        if named is not None:
            column, width, loose = titles.index(named), len(cells), False
        elif column is not None and len(cells) == width and cells[column].strip():
            cells[column] = " program".ljust(len(cells[column]))
            line = "|".join(cells)
        elif loose and _LOOSE_ROW.match(line):
            line = _WORD.sub(lambda found: "program".ljust(len(found[0])), line)
        lines.append(line)
    return "".join(lines)
