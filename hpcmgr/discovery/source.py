"""What a discovery source is and what it hands over.

A source collects the facts of one mechanism (a tool, a library, a part of sysfs) and says how it
went: *absent*, *broken* or *present*. It may be partial; it never guesses and never raises for
what a machine does. ``reconcile`` makes devices out of the facts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from hpcmgr.discovery.host import Host
from hpcmgr.inventory import Health, Slice, SourceReport

TOOL_TIMEOUT = 60.0
"""Seconds for one question to a vendor's tool. Eight GPUs that nobody holds open take half of it,
since each is started for the question."""

_SAID = 200
_UNKNOWN = re.compile(
    r"^\[?(?:n/?a|none|null|not found|unknown|unknown error|not supported|err!|error|-+|gpu is lost"
    r"|gpu requires reset|requested functionality has been deprecated"
    r"|insufficient permissions)\]?$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What one source knows of one device; None is unknown.

    ``ref`` names the device within its source (for links). ``board`` is the same for devices on
    one card, which may share a serial number. ``passthrough``: the driver bound to it hands it to
    a virtual machine.
    """

    ref: str
    vendor: str
    kind: str
    model: str | None = None
    pci: str | None = None
    pci_id: str | None = None
    chip: int | None = None
    index: int | None = None
    numa_node: int | None = None
    files: tuple[str, ...] = ()
    uuid: str | None = None
    serial: str | None = None
    board: str | None = None
    memory_mib: int | None = None
    driver: str | None = None
    firmware: str | None = None
    runtime_version: str | None = None
    nvlink_domain: str | None = None
    health: Health | None = None
    sliced: bool | None = None
    slices: tuple[Slice, ...] = ()
    bound: str | None = None
    passthrough: bool = False


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """A link between two ``ref`` of one source, or between a ``ref`` and an RDMA device."""

    a: str
    b: str
    kind: str
    direct: bool


@dataclass(frozen=True, slots=True)
class Collected:
    """All that one source has to say.

    ``failed_empty``: the tool gave an error and nothing else, which is also what it does on a
    machine without its hardware.
    """

    report: SourceReport
    devices: tuple[DeviceFacts, ...] = ()
    links: tuple[LinkFacts, ...] = ()
    failed_empty: bool = False


class Source(Protocol):
    """One mechanism; ``vendor`` is the brand that it knows, None if any."""

    name: str
    vendor: str | None

    def collect(self, host: Host) -> Collected:
        """Ask it all."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """A tool's answer: its text, and why it cannot be trusted (empty if it can)."""

    state: Literal["absent", "broken", "present"]
    text: str = ""
    why: str = ""


def ask(host: Host, argv: Sequence[str]) -> Answer:
    """Ask a tool. A non-zero exit is broken, but its text is kept: it may hold part of the data."""
    result = host.run(argv, TOOL_TIMEOUT)
    if result.state == "absent":
        return Answer("absent", why="not installed")
    if result.state == "timed_out":
        return Answer("broken", why=f"{' '.join(argv)} gave no answer in time")
    if result.exit != 0:
        said = first_line(result.stderr) or first_line(result.stdout)
        status = "did not start" if result.exit is None else f"exit {result.exit}"
        why = f"{' '.join(argv)}: {status}" + (f": {said}" if said else "")
        return Answer("broken", result.stdout, why)
    return Answer("present", result.stdout)


def first_line(text: str) -> str:
    """First line that says something, shortened and without control characters."""
    for line in text.splitlines():
        shown = "".join(c if c.isprintable() else "?" for c in line.replace("\t", " ")).strip()
        if shown:
            return shown if len(shown) <= _SAID else shown[: _SAID - 1] + "…"
    return ""


def known(text: str | None) -> str | None:
    """The value, None if the text only says that there is none (N/A, ERR!, [Unknown Error], -).

    Control characters are dropped: the value is shown on terminals later.
    """
    value = "".join(c for c in text or "" if c.isprintable()).strip()
    # A driver that lost its GPU prints the uuid as GPU-????????-…
    if not value or _UNKNOWN.match(value) or "??" in value:
        return None
    return value


def known_serial(text: str | None) -> str | None:
    """As ``known``; clouds and old boards print zeros where there is no serial number."""
    value = known(text)
    return value if value and value.strip("0-: ") else None


def whole(text: str | None) -> int | None:
    """A whole number without sign, else None."""
    value = (text or "").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) <= 15 else None


def leading_number(text: str | None) -> int | None:
    """``"81920 MiB"`` → 81920."""
    found = re.match(r"\s*([0-9]{1,15})(?:\s|$)", text or "")
    return int(found[1]) if found else None


def key_values(text: str) -> list[tuple[str, str]]:
    """``"  Serial Number      : 0123"`` lines, in order; everything else is passed over."""
    pairs = []
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip():
            pairs.append((key.strip(), value.strip()))
    return pairs
