"""What is wrong on a host and what to do, from the node over the driver and Slurm to the jobs."""

from __future__ import annotations

from hpcmgr.discovery import Host
from hpcmgr.doctor import software
from hpcmgr.doctor.driver_checks import driver_findings
from hpcmgr.doctor.finding import Finding, Layer, Report, Severity, Software
from hpcmgr.doctor.job_checks import job_findings
from hpcmgr.doctor.node_checks import node_findings, published_findings
from hpcmgr.doctor.slurm_checks import SlurmHost, slurm_findings
from hpcmgr.inventory import NodeInventory
from hpcmgr.inventory.drift import Drift
from hpcmgr.profile import ProfileLibrary

__all__ = [
    "Finding",
    "Layer",
    "Report",
    "Severity",
    "SlurmHost",
    "Software",
    "examine",
]


def examine(
    host: Host,
    inventory: NodeInventory,
    library: ProfileLibrary,
    drift: Drift | None,
    problem: str,
    slurm: SlurmHost | None,
) -> Report:
    """Look at everything.

    Args:
        host: the machine, or a recorded one.
        inventory: what was discovered on it.
        library: the profiles that hold here.
        drift: how that differs from what it published; None: nobody knows, ``problem`` says why.
        problem: empty where ``drift`` is None because it is no matter here.
        slurm: Slurm on this machine; None for a recorded host.
    """
    report = Report(inventory.node, software.found(host, inventory))
    report.add(node_findings(host, inventory))
    if drift is not None or problem:
        report.add(published_findings(drift, problem))
    report.add(driver_findings(host, inventory, library, report.software))
    if slurm is None:
        report.skipped.append(
            "a recorded host: Slurm, jobs and what it published are not looked at"
        )
    else:
        report.add(slurm_findings(slurm))
        report.add(job_findings(slurm, inventory))
    report.sort()
    return report
