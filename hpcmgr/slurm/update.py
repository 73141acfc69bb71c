"""Changing a pending job: job_desc fields → ``scontrol update``."""

from __future__ import annotations

from collections.abc import Mapping

from hpcmgr.slurm.command import run

_KEYS = {
    "tres_per_job": "TresPerJob",
    "tres_per_socket": "TresPerSocket",
    "tres_per_task": "TresPerTask",
    "sockets_per_node": "ReqSockets",
    "cpus_per_tres": "CpusPerTres",
    "mem_per_tres": "MemPerTres",
    "num_tasks": "NumTasks",
    "cpus_per_task": "CPUsPerTask",
    "pn_min_cpus": "MinCPUsNode",
    "min_cpus": "NumCPUs",
    "min_mem_per_node": "MinMemoryNode",
    "features": "Features",
    "exc_nodes": "ExcNodeList",
    "req_switch": "Switches",
    "admin_comment": "AdminComment",
}


def update_job(job_id: str, fields: Mapping[str, str | int]) -> None:
    """Change a pending job. ``gres`` is a per-node list without prefixes, as the shim gets it.

    Raises:
        CommandError: Slurm refused it (no longer pending, gone, impossible) or does not answer.
        ValueError: a field that cannot be changed after submission.
    """
    words = []
    for name, value in fields.items():
        if name == "gres":
            items = [f"gres/{item}" for item in str(value).split(",") if item]
            words.append(f"TresPerNode={','.join(items)}")
        elif name in _KEYS:
            words.append(f"{_KEYS[name]}={value}")
        else:
            raise ValueError(f"{name} cannot be changed after submission")
    run("scontrol", "update", f"JobId={job_id}", *words)


def release_job(job_id: str) -> None:
    """Let a held job be scheduled.

    Raises:
        CommandError: Slurm refused it or does not answer.
    """
    run("scontrol", "release", job_id)
