"""Keeping new jobs from nodes while they change, and giving back exactly what was taken."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hpcmgr.apply.live import LiveCluster, LiveNode, Runner, read_live
from hpcmgr.errors import CommandError
from hpcmgr.slurm.command import run
from hpcmgr.slurm.hostlist import fold

_COMPLAINT = re.compile(r"gres/|Low |.*GRES core")
"""How slurmctld words it when a slurmd registers with less than its line says."""


def drain(nodes: Iterable[str], reason: str, runner: Runner = run) -> None:
    """No new job starts on ``nodes`` from now on; running ones go on.

    Raises:
        CommandError: Slurm refused it.
    """
    names = fold(nodes)
    if names:
        runner("scontrol", "update", f"NodeName={names}", "State=DRAIN", f"Reason={reason}")


def resume(nodes: Iterable[str], runner: Runner = run) -> None:
    """Take the drain back.

    Raises:
        CommandError: Slurm refused it, and some are still drained.
    """
    held = {*nodes}
    if not held:
        return
    try:
        # RESUME alone leaves the reason on the node for ever.
        runner("scontrol", "update", f"NodeName={fold(held)}", "State=RESUME", "Reason=")
    except CommandError:
        # 24.11 calls this invalid for a node that is UNKNOWN (its slurmd has not registered since
        # the reconfigure), and takes its drain and those of the others away all the same.
        if any(node.drained and node.name in held for node in read_live(runner).nodes.values()):
            raise


def may_drain(node: LiveNode) -> bool:
    """Whether it needs a drain, and resuming it would not undo what somebody else decided: RESUME
    also brings back a node that is down."""
    return not node.drained and not node.down and not node.invalid


def still_ours(
    held: Iterable[str],
    reason: str,
    live: LiveCluster,
    before: LiveCluster | None = None,
    refused: Iterable[str] = (),
) -> list[str]:
    """Nodes to resume: those that were drained, if nobody has drained them anew for another
    reason, and those that slurmctld drained because their slurmd registered with too little.

    slurmctld drains such a node, whether it was held or not, writes its complaint (or nothing)
    over the reason, or leaves an old reason there, and takes nothing back when the node registers
    well again.

    Args:
        held: nodes that were drained here.
        reason: with which they were.
        live: nodes as they are.
        before: nodes as they were before the reconfigure: what was drained then stays drained.
        refused: nodes that were seen to be refused since.
    """
    mine, bad = {*held}, {*refused}
    old = {n: node.reason for n, node in before.nodes.items() if may_drain(node)} if before else {}
    return [
        name
        for name, node in live.nodes.items()
        if node.drained
        and (
            (name in mine and node.reason in {reason, ""})
            or ((name in mine or name in old) and _COMPLAINT.match(node.reason))
            or (name in bad and old.get(name) == node.reason)
        )
    ]
