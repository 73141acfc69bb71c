"""What a source found wrong or worth saying while it asked its tool, and values that several
tools write alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hpcmgr.discovery.host import Host
from hpcmgr.discovery.source import Answer, Collected, DeviceFacts, LinkFacts, ask, first_line
from hpcmgr.inventory import SourceReport

_BAD_WORDS = re.compile(
    r"\b(?:errors?|failed|failure|fail|unable|lost|cannot|can't|couldn't|not found|no devices?"
    r"|permission denied|not permitted)\b",
    re.IGNORECASE,
)
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)\s*([KMGT]?)i?B?(?![A-Za-z0-9%])", re.IGNORECASE)
_IN_MIB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}


@dataclass(slots=True)
class Findings:
    """``problems`` make the source broken, ``notes`` do not. After one hang nothing is asked."""

    host: Host
    name: str
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    hung: bool = False

    def ask(self, *argv: str) -> Answer:
        """Ask a tool; a failure is a problem, its text is kept."""
        if self.hung:
            return Answer("absent", why="not asked")
        answer = ask(self.host, argv)
        if answer.state == "broken":
            self.hung = answer.why.endswith("in time")
            self.problems.append(answer.why)
        return answer

    def detail(self, *argv: str) -> str:
        """Text of a question that not every release knows; only a hang is a problem."""
        if self.hung:
            return ""
        answer = ask(self.host, argv)
        if answer.state == "broken" and answer.why.endswith("in time"):
            self.hung = True
            self.problems.append(answer.why)
        return answer.text if answer.state == "present" else ""

    def read_around(self, text: str) -> None:
        """A complaint outside of all tables is a problem."""
        for line in text.splitlines():
            if "|" not in line and _BAD_WORDS.search(line):
                self.problems.append(f"said: {first_line(line)}")
                return

    def result(
        self, devices: Sequence[DeviceFacts], links: Iterable[LinkFacts] = (), said: str = ""
    ) -> Collected:
        """All of it. Without a device the source is broken, with ``said`` where it says no more."""
        if not devices and not self.problems:
            shown = first_line(said)
            self.problems.append("lists no device" + (f" but says {shown!r}" if shown else ""))
        detail = "; ".join(dict.fromkeys(self.problems + self.notes))
        state = "broken" if self.problems else "present"
        report = SourceReport(name=self.name, state=state, detail=detail)
        return Collected(
            report, tuple(devices), tuple(links), failed_empty=not devices and not self.hung
        )

    def absent(self, why: str) -> Collected:
        """The tool is not there."""
        return Collected(SourceReport(name=self.name, state="absent", detail=why))


def mebibytes(text: str | None) -> int | None:
    """``"96 GB"``, ``"15.7GiB"``, ``"23308 MiB"`` → MiB; vendors of memory count in 1024."""
    found = _SIZE.fullmatch((text or "").strip())
    if not found or not found[2]:
        return None
    return int(float(found[1]) * _IN_MIB[found[2].upper()]) or None


def total_mebibytes(text: str | None) -> int | None:
    """``"666/65536 MiB"``, ``"0 MiB/ 23308 MiB"`` → what stands behind the stroke."""
    return mebibytes((text or "").rpartition("/")[2]) if "/" in (text or "") else None
