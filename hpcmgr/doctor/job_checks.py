"""Jobs: those that wait for their binding or for ever, and those that run beside a bad device."""

from __future__ import annotations

from collections.abc import Iterator

from hpcmgr.doctor.finding import Finding, Layer, Severity
from hpcmgr.doctor.slurm_checks import SlurmHost
from hpcmgr.errors import CommandError, CommandMissing
from hpcmgr.inventory import NodeInventory
from hpcmgr.slurm.tres import parse_gres_list

# No field that a user could write a bar into stands before another.
_PENDING = ("squeue", "-h", "-a", "-t", "PENDING", "-o", "%i|%r|%b")
_SHOWN = 5
_NEVER = frozenset({"BadConstraints", "PartitionConfig", "NodeDown"})


def job_findings(here: SlurmHost, inventory: NodeInventory) -> Iterator[Finding]:
    """All checks of this layer. What scontrol could not tell was said there."""
    try:
        waiting = here.runner(*_PENDING, timeout=15.0).stdout
        running = here.runner(
            "squeue", "-h", "-a", "-t", "RUNNING", "-w", here.node, "-o", "%i", check=False,
            timeout=15.0,
        ).stdout  # fmt: skip
    except CommandMissing:
        yield _say(Severity.UNKNOWN, "squeue", "squeue is not installed here",
                   "Jobs were not looked at.", "install Slurm's client commands")  # fmt: skip
        return
    except CommandError as error:
        yield _say(Severity.UNKNOWN, "squeue", f"jobs were not seen: {error.message}", "",
                   "see what is said of slurmctld above")  # fmt: skip
        return
    rows = [row.split("|", 2) for row in waiting.splitlines() if row.count("|") >= 2]
    yield from _unbound([row[0].strip() for row in rows if _is_unbound(row[2])])
    yield from _stuck([(row[0].strip(), row[1]) for row in rows if row[1] in _NEVER])
    yield from _beside(inventory, running.split())


def _say(severity: Severity, rule: str, text: str, why: str, fix: str) -> Finding:
    return Finding(Layer.JOB, severity, rule, "", text, why, fix)


def _is_unbound(tres: str) -> bool:
    try:
        items = parse_gres_list(tres)
    except ValueError:
        return False
    return any(item.name == "compute" and item.type == "unbound" for item in items)


def _unbound(jobs: list[str]) -> Iterator[Finding]:
    if jobs:
        yield _say(
            Severity.WARNING, "unbound",
            f"{len(jobs)} jobs wait for their binding: {_some(jobs)}",
            "They were submitted while the scoring service was away, and are held.",
            "is 'hpcmgr serve' running? It binds and releases them; 'hpcmgr explain JOBID' says "
            "why one stays",
        )  # fmt: skip


def _stuck(jobs: list[tuple[str, str]]) -> Iterator[Finding]:
    for reason in sorted({reason for _, reason in jobs}):
        named = [job for job, why in jobs if why == reason]
        yield _say(
            Severity.WARNING, "never-starts",
            f"{len(named)} jobs wait with {reason}: {_some(named)}",
            "They will not start as things are.",
            "'hpcmgr explain JOBID' shows what was asked and what there is",
        )  # fmt: skip


def _beside(inventory: NodeInventory, jobs: list[str]) -> Iterator[Finding]:
    bad = [device.key for device in inventory.devices if device.health.state == "failed"]
    if bad and jobs:
        yield _say(
            Severity.WARNING, "beside-failed",
            f"{len(jobs)} jobs run here while {', '.join(bad)} failed: {_some(jobs)}",
            "One of them may have it.", "'hpcmgr explain JOBID' shows the devices of a job",
        )  # fmt: skip


def _some(jobs: list[str]) -> str:
    more = len(jobs) - _SHOWN
    return ", ".join(jobs[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
