"""hy-smi: Hygon's table of its cards.

    HCU     Temp     AvgPwr     Perf     PwrCap     VRAM%      HCU%      Dec%      Enc%      Mode

It tells neither model, address nor identity. So it counts: as many rows as cards that the kernel
has, or a card is lost. What the cards are, sysfs and KFD say.
"""

from __future__ import annotations

import re

from hpcmgr.discovery.findings import Findings
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.node_places import placed
from hpcmgr.discovery.source import Collected, DeviceFacts

_HEADER = re.compile(r"^(?:HCU|DCU)\s+\S")
_ROW = re.compile(r"^([0-9]{1,4})\s+\S")
_HYGON = "1d94"


class HySmi:
    """Hygon's tool."""

    name = "hy-smi"
    vendor: str | None = "hygon"

    def collect(self, host: Host) -> Collected:
        """Ask it."""
        findings = Findings(host, self.name)
        answer = findings.ask("hy-smi")
        if answer.state == "absent":
            return findings.absent(answer.why)
        numbers, around = parse(answer.text)
        findings.read_around(around)
        if len(set(numbers)) != len(numbers):
            findings.problems.append("lists a card twice")
        facts = [
            DeviceFacts(ref=f"HCU{number}", vendor="hygon", kind="gpu")
            for number in dict.fromkeys(numbers)
        ]
        devices, lost = placed(host, (_HYGON,), facts)
        if lost:
            findings.problems.append(lost)
        return findings.result(devices, said=around)


def parse(text: str) -> tuple[list[int], str]:
    """Numbers of the cards, and what stands outside of the table."""
    numbers: list[int] = []
    around: list[str] = []
    inside = False
    for line in text.splitlines():
        stripped = line.strip()
        row = _ROW.match(stripped) if inside else None
        if _HEADER.match(stripped):
            inside = True
        elif row:
            numbers.append(int(row[1]))
        elif stripped.startswith("="):
            inside = inside and not numbers
        elif stripped:
            around.append(stripped)
    return numbers, "\n".join(around)
