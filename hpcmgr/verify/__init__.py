"""Lint and prove Slurm's files: rules that know what Slurm accepts silently, then Slurm itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hpcmgr.slurm.capability import NEWEST, Release, why_unsupported
from hpcmgr.verify.configuration import read_configuration
from hpcmgr.verify.finding import Finding, Place, Proof, Report, Severity, error
from hpcmgr.verify.oracle import find_programs, installed_release, prove
from hpcmgr.verify.rules import apply_rules
from hpcmgr.verify.values import Machine

__all__ = ["Finding", "Machine", "Place", "Proof", "Report", "Severity", "verify_directory"]


def verify_directory(
    directory: Path,
    release: Release | None = None,
    machines: Mapping[str, Machine] | None = None,
    stands_for: Path | None = None,
) -> Report:
    """Lint and prove the files of ``directory``.

    Args:
        directory: holds slurm.conf (or hpcmgr.conf alone), gres.conf, cgroup.conf, topology.conf
            or .yaml, and perhaps dev.txt.
        release: the release they are for; None: the one that is installed here.
        machines: sockets, cores and threads of nodes as the inventory knows them.
        stands_for: the directory that ``directory`` is a copy of.
    """
    programs = find_programs()
    installed = installed_release(programs)
    wanted = release or installed or NEWEST
    report = Report(release=str(wanted))
    refusal = why_unsupported(wanted)
    if refusal:
        report.add([error("release", Place(), refusal, "", "upgrade Slurm")])
        return report
    if release is None and installed is None:
        report.remarks.append(f"Slurm's release is not known; the rules of {NEWEST} were used")
    if wanted.line > NEWEST.line:
        report.remarks.append(f"Slurm {wanted} is newer than {NEWEST}, the newest one known here")
    configuration = read_configuration(directory, wanted, machines, stands_for)
    report.add(apply_rules(configuration))
    if installed is not None and installed.line != wanted.line:
        report.remarks.append(
            f"the installed Slurm is {installed}, not {wanted}: the rules alone were used"
        )
    else:
        prove(configuration, programs, report)
    report.sort()
    return report
