"""Asking Slurm for the state of the cluster."""

from __future__ import annotations

import re
from collections.abc import Callable

from hpcmgr.errors import CommandError
from hpcmgr.slurm.command import Output, run
from hpcmgr.slurm.state import (
    SQUEUE,
    ClusterState,
    parse_nodes,
    parse_partitions,
    parse_pending,
    parse_reservations,
)

Runner = Callable[..., Output]


def read_cluster(now: float, runner: Runner = run) -> ClusterState:
    """Ask Slurm for everything.

    Raises:
        CommandError: a program is missing, failed or gave no answer.
    """
    return ClusterState(
        taken=now,
        release=read_release(runner),
        nodes=tuple(parse_nodes(runner("scontrol", "-o", "-d", "show", "nodes").stdout)),
        partitions=tuple(parse_partitions(runner("scontrol", "-o", "show", "partitions").stdout)),
        pending=tuple(parse_pending(runner(*SQUEUE).stdout)),
        reservations=tuple(
            parse_reservations(runner("scontrol", "-o", "show", "reservations").stdout)
        ),
    )


def read_release(runner: Runner = run) -> str:
    """``"24.11.5"``.

    Raises:
        CommandError: no scontrol, or it says something else.
    """
    said = runner("scontrol", "-V").stdout
    found = re.search(r"slurm\S*\s+(\d+\.\d+\.\d+)", said)
    if not found:
        raise CommandError(("scontrol", "-V"), 0, f"no release in {said!r}")
    return found[1]
