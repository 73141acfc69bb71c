"""What a verification says: findings, and how far the proof went."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

SCHEMA = "hpcmgr.verify/1"


class Severity(StrEnum):
    """Worst first. An error keeps jobs from running as they should; a note asks for nothing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands; ``line`` counts from 1."""

    file: Path | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.file is None:
            return "-"
        return f"{self.file}:{self.line}" if self.line else str(self.file)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found: what, why it matters, what to do. ``rule`` is a stable name for scripts."""

    severity: Severity
    rule: str
    place: Place
    text: str
    why: str = ""
    fix: str = ""


def error(rule: str, place: Place, text: str, why: str, fix: str) -> Finding:
    """A finding that must be dealt with."""
    return Finding(Severity.ERROR, rule, place, text, why, fix)


def warning(rule: str, place: Place, text: str, why: str, fix: str) -> Finding:
    """A finding that somebody should look at."""
    return Finding(Severity.WARNING, rule, place, text, why, fix)


def note(rule: str, place: Place, text: str, why: str = "", fix: str = "") -> Finding:
    """Something to know."""
    return Finding(Severity.NOTE, rule, place, text, why, fix)


class Proof(StrEnum):
    """How far Slurm itself was asked."""

    FULL = "full"
    """Every distinct node has registered, or is among the findings."""
    PARTIAL = "partial"
    """Slurm was asked, but not for everything."""
    NONE = "none"
    """The rules alone were used."""


@dataclass(slots=True)
class Report:
    """The outcome. ``remarks`` say what could not be proven and why."""

    release: str | None = None
    proof: Proof = Proof.NONE
    remarks: list[str] = field(default_factory=list)
    proven_nodes: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add(self, findings: Iterable[Finding]) -> None:
        """Add findings; the same words about the same line are said once."""
        known = {(f.place, f.text) for f in self.findings}
        for finding in findings:
            if (finding.place, finding.text) not in known:
                known.add((finding.place, finding.text))
                self.findings.append(finding)

    def sort(self) -> None:
        """Worst first, then by place."""
        rank = {severity: i for i, severity in enumerate(Severity)}
        self.findings.sort(
            key=lambda f: (rank[f.severity], str(f.place.file or ""), f.place.line or 0, f.text)
        )

    def count(self, severity: Severity) -> int:
        """How many findings of that severity there are."""
        return sum(f.severity is severity for f in self.findings)

    @property
    def exit_code(self) -> int:
        """1 with an error, 4 if nothing is wrong but not everything was proven, else 0."""
        if self.count(Severity.ERROR):
            return 1
        return 0 if self.proof is Proof.FULL else 4

    def as_json(self) -> dict[str, object]:
        """The document of ``hpcmgr verify --json``."""
        return {
            "schema": SCHEMA,
            "release": self.release,
            "proof": self.proof.value,
            "remarks": self.remarks,
            "proven_nodes": self.proven_nodes,
            "findings": [
                {
                    "severity": f.severity.value,
                    "rule": f.rule,
                    "file": str(f.place.file) if f.place.file else None,
                    "line": f.place.line,
                    "text": f.text,
                    "why": f.why,
                    "fix": f.fix,
                }
                for f in self.findings
            ],
        }
