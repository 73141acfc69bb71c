"""Proving a set of files laid over the site's own, before any of them is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hpcmgr.apply.plan import overlaid
from hpcmgr.slurm.capability import Release
from hpcmgr.verify import Finding, Machine, Place, Proof, Report, Severity, verify_directory


@dataclass(frozen=True, slots=True)
class Proven:
    """Outcome of a proof: what keeps the files from being written, and how far it went."""

    errors: tuple[Finding, ...]
    others: tuple[Finding, ...]
    full: bool
    remarks: tuple[str, ...]


def prove(
    conf_dir: Path,
    files: Mapping[str, str],
    release: Release | None,
    machines: Mapping[str, Machine],
) -> Proven:
    """Lint ``files`` and prove them with Slurm's own daemons."""
    with overlaid(conf_dir, files) as copy:
        report = verify_directory(copy, release, machines)
        findings = [_moved(finding, copy, conf_dir) for finding in report.findings]
    return Proven(
        errors=tuple(f for f in findings if f.severity is Severity.ERROR),
        others=tuple(f for f in findings if f.severity is not Severity.ERROR),
        full=report.proof is Proof.FULL,
        remarks=_remarks(report),
    )


def _remarks(report: Report) -> tuple[str, ...]:
    return tuple(report.remarks)


def _moved(finding: Finding, copy: Path, conf_dir: Path) -> Finding:
    """The finding with its place in the site's directory instead of the copy."""
    place = finding.place
    if place.file is not None and place.file.is_relative_to(copy):
        place = Place(conf_dir / place.file.relative_to(copy), place.line)
    return replace(
        finding,
        place=place,
        text=finding.text.replace(str(copy), str(conf_dir)),
        fix=finding.fix.replace(str(copy), str(conf_dir)),
    )
