"""Asking Slurm for the state of the cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from hpcmgr.errors import CommandError
from hpcmgr.slurm.command import Output, run
from hpcmgr.slurm.jobs import DETAILS, JOBS, Details, Job, parse_details, parse_jobs
from hpcmgr.slurm.preemption import QOS, Controller, parse_config, parse_qos
from hpcmgr.slurm.state import (
    SQUEUE,
    ClusterState,
    parse_gpu_defaults,
    parse_nodes,
    parse_partitions,
    parse_pending,
    parse_reservations,
)

Runner = Callable[..., Output]


def read_cluster(now: float, runner: Runner = run, *, pending: bool = True) -> ClusterState:
    """Ask Slurm for everything; without ``pending`` the waiting jobs are left out.

    Raises:
        CommandError: a program is missing, failed or gave no answer.
    """
    return ClusterState(
        taken=now,
        release=read_release(runner),
        nodes=tuple(parse_nodes(runner("scontrol", "-o", "-d", "show", "nodes").stdout)),
        partitions=tuple(parse_partitions(runner("scontrol", "-o", "show", "partitions").stdout)),
        pending=tuple(parse_pending(runner(*SQUEUE).stdout)) if pending else (),
        reservations=tuple(
            parse_reservations(runner("scontrol", "-o", "show", "reservations").stdout)
        ),
        gpu_defaults=parse_gpu_defaults(runner("scontrol", "show", "config").stdout),
    )


def read_jobs(runner: Runner = run) -> tuple[Job, ...]:
    """All jobs that wait or hold something, as far as this user may see them.

    Raises:
        CommandError: as above.
    """
    return tuple(parse_jobs(runner(*JOBS).stdout))


def read_details(runner: Runner = run) -> dict[int, Details]:
    """What only JSON tells of them, by job number; slow.

    Raises:
        CommandError: as above, or the answer is no JSON (Slurm was built without it).
    """
    text = runner(*DETAILS).stdout
    try:
        return parse_details(text)
    except ValueError as error:
        raise CommandError(DETAILS, 0, f"no JSON: {error}") from error


def read_controller(runner: Runner = run) -> Controller:
    """Slurm's settings that decide who may stop whose jobs.

    Raises:
        CommandError: as above.
    """
    controller = parse_config(runner("scontrol", "show", "config").stdout)
    if controller.preempt_by != "qos":
        return controller
    try:
        return replace(controller, qos=parse_qos(runner(*QOS).stdout))
    except CommandError:
        return replace(controller, qos=None)  # no slurmdbd


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
