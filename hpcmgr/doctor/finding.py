"""What the doctor says: findings from the node up to the jobs, and what it could not look at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

SCHEMA = "hpcmgr.doctor/1"


class Layer(StrEnum):
    """Where something is wrong. In this order: what is wrong below makes faults above."""

    NODE = "node"
    DRIVER = "driver"
    SLURM = "slurm"
    JOB = "job"


class Severity(StrEnum):
    """Worst first. ``UNKNOWN``: could not be looked at, so nobody may say that it is good."""

    ERROR = "error"
    WARNING = "warning"
    UNKNOWN = "unknown"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing: what, why it matters, what to do. ``rule`` is a stable name for scripts,
    ``subject`` a device, a source or a file, empty for the host."""

    layer: Layer
    severity: Severity
    rule: str
    subject: str
    text: str
    why: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Software:
    """A version that was found: ``what`` it is, where it was read."""

    vendor: str
    what: str
    version: str | None
    where: str


@dataclass(slots=True)
class Report:
    """All that was found on one host. ``skipped``: what does not apply here, and why."""

    node: str
    software: list[Software] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, findings: Iterable[Finding]) -> None:
        """Add findings; the same words about the same subject are said once."""
        known = {(f.subject, f.text) for f in self.findings}
        for finding in findings:
            if (finding.subject, finding.text) not in known:
                known.add((finding.subject, finding.text))
                self.findings.append(finding)

    def sort(self) -> None:
        """From the node up, worst first."""
        layers, severities = list(Layer), list(Severity)
        self.findings.sort(key=lambda f: (layers.index(f.layer), severities.index(f.severity)))

    def count(self, severity: Severity) -> int:
        """How many findings of that severity there are."""
        return sum(f.severity is severity for f in self.findings)

    @property
    def exit_code(self) -> int:
        """1 with an error, 4 if something could not be looked at, else 0."""
        if self.count(Severity.ERROR):
            return 1
        return 4 if self.count(Severity.UNKNOWN) else 0

    def as_json(self) -> dict[str, Any]:
        """The document of ``hpcmgr doctor --json``."""
        return {
            "schema": SCHEMA,
            "node": self.node,
            "software": [
                {"vendor": s.vendor, "what": s.what, "version": s.version, "where": s.where}
                for s in self.software
            ],
            "skipped": self.skipped,
            "findings": [
                {
                    "layer": f.layer.value,
                    "severity": f.severity.value,
                    "rule": f.rule,
                    "subject": f.subject or None,
                    "text": f.text,
                    "why": f.why,
                    "fix": f.fix,
                }
                for f in self.findings
            ],
        }
