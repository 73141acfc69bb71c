"""``python -m hpcmgr.slurm.withpyslurm read``: the cluster's state by pyslurm 25.11, as JSON.

A program of its own (backend.py says why); nothing else imports pyslurm.

Not seen running with hpcmgr: written from pyslurm's source and from what it was seen to answer
beside Slurm 25.11.7. The contract is tests/slurm/test_reader_contract.py.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

from hpcmgr.slurm.backend import TOLD, Told
from hpcmgr.slurm.hostlist import expand
from hpcmgr.slurm.jobs import HOLDING
from hpcmgr.slurm.partition import Partition
from hpcmgr.slurm.state import (
    QUEUED,
    SHARES,
    ClusterState,
    NodeState,
    PendingJob,
    Reservation,
    array_tasks,
    state_words,
    takes_jobs,
)

Counts = dict[str, int]


def main(what: str) -> None:
    """``probe`` only imports, ``read`` prints the state."""
    import pyslurm

    if what == "read":
        sys.stdout.buffer.write(TOLD.dump_json(_read(pyslurm)))


def _read(pyslurm: Any) -> Told:
    jobs = list(pyslurm.Jobs.load().values())
    nodes = list(pyslurm.Nodes.load().values())
    reservations = [_reservation(r) for r in pyslurm.Reservations.load().values()]
    used, reserved = _used(jobs), _reserved(reservations)
    state = ClusterState(
        taken=0.0,
        release="",
        nodes=tuple(_node(n, used.get(n.name, {}), reserved.get(n.name, "")) for n in nodes),
        partitions=tuple(_partition(p) for p in pyslurm.Partitions.load().values()),
        pending=tuple(_pending(job) for job in jobs if job.state == "PENDING"),
        reservations=tuple(reservations),
        gpu_defaults=_gpu_defaults(pyslurm.slurmctld.Config.load().job_defaults),
    )
    return Told(state, {n.name: n.slurmd_start_time or 0 for n in nodes})


def _node(node: Any, used: Counts, reservation: str) -> NodeState:
    gres = dict(node.configured_gres)
    if SHARES & {key.partition(":")[0] for key in gres}:
        # It would be free where somebody has shares of it.
        sys.exit(f"{node.name} shares devices, and pyslurm does not tell which: use commands")
    return NodeState(
        name=node.name,
        usable=takes_jobs(state_words(node.state)),
        state=node.state,
        reason=" ".join((node.reason or "").split("\n")),
        partitions=tuple(node.partitions or ()),
        features=frozenset(node.available_features or ()),
        sockets=node.sockets or 1,
        cores_per_socket=node.cores_per_socket or 1,
        threads_per_core=node.threads_per_core or 1,
        cpus=node.effective_cpus or node.total_cpus or 1,
        cpus_used=node.allocated_cpus,
        memory=max(0, (node.real_memory or 0) - (node.memory_reserved_for_system or 0)),
        memory_used=node.allocated_memory,
        gres=gres,
        used={key: used.get(key, 0) for key in gres},
        reason_by=(node.reason_user or "") if node.reason else "",
        reason_since=_stamp(node.reason_time) if node.reason else "",
        reservation=reservation,
    )


def _used(jobs: Iterable[Any]) -> dict[str, Counts]:
    """Node → GRES in use, from the jobs: a node's ``allocated_gres`` stays empty."""
    used: dict[str, Counts] = {}
    for job in jobs:
        if job.state not in HOLDING:
            continue
        for node, share in job.get_resource_layout_per_node().items():
            counts = used.setdefault(node, {})
            for key, held in share["gres"].items():
                # Devices: {"count": 2, "indexes": "0-1"}; units: "compute:CNT": 16.
                name = key.removesuffix(":CNT")
                counts[name] = counts.get(name, 0) + (
                    held["count"] if isinstance(held, dict) else held
                )
    return used


def _pending(job: Any) -> PendingJob:
    job_id, tasks = _number(job)
    return PendingJob(
        job_id=job_id,
        partition=job.partition or "",
        priority=job.priority or 0,
        nodes=(job.num_nodes or 1) * tasks,
        tres_per_node=",".join(f"{key}:{count}" for key, count in job.gres_per_node.items()),
        queued=(job.state_reason or "") in QUEUED and bool(job.priority),
    )


def _number(job: Any) -> tuple[str, int]:
    """As squeue writes it, and how many tasks it stands for."""
    if job.array_tasks_waiting:
        return f"{job.array_id}_[{job.array_tasks_waiting}]", array_tasks(job.array_tasks_waiting)
    if job.array_id:
        return f"{job.array_id}_{job.array_task_id or 0}", 1
    return str(job.id), 1


def _partition(part: Any) -> Partition:
    return Partition(
        part.name,
        default=part.is_default,
        up=part.state == "UP",
        exclusive=part.oversubscribe == "EXCLUSIVE",
        state=part.state,
        allow_accounts=_allowed(part.allowed_accounts),
        deny_accounts=_denied(part.denied_accounts),
        allow_qos=_allowed(part.allowed_qos),
        deny_qos=_denied(part.denied_qos),
        allow_groups=_allowed(part.allowed_groups),
        qos=part.qos or "",
        max_nodes=_limit(part.max_nodes),
        max_minutes=_limit(part.max_time),
        max_cpus_per_node=_limit(part.max_cpus_per_node),
        max_memory_per_node=_limit(part.max_memory_per_node),
        gpu_defaults=(part.default_cpus_per_gpu or 0, part.default_memory_per_gpu or 0),
        tier=part.priority_tier or 0,
        preempt_mode=str(part.preempt_mode or "OFF"),
    )


def _allowed(names: list[str]) -> frozenset[str] | None:
    return None if names == ["ALL"] else frozenset(names)


def _denied(names: list[str]) -> frozenset[str]:
    """pyslurm writes ALL where nobody is denied."""
    return frozenset(names) - {"ALL"}


def _limit(value: int | str | None) -> int | None:
    """None for "UNLIMITED" too."""
    return value if isinstance(value, int) else None


def _reservation(made: Any) -> Reservation:
    gres = {
        key.removeprefix("gres/"): int(count)
        for key, count in made.tres.items()
        if key.startswith("gres/") and ":" in key
    }
    whole = not gres and not made.cpu_ids_by_node
    return Reservation(made.name, made.nodes or "", gres, whole, made.is_active)


def _reserved(reservations: Iterable[Reservation]) -> dict[str, str]:
    """Node → the active reservation that it belongs to; pyslurm's nodes do not tell it."""
    active = [made for made in reservations if made.active and made.nodes]
    return {node: made.name for made in active for node in expand(made.nodes)}


def _gpu_defaults(defaults: Mapping[str, Any]) -> tuple[int, int]:
    by_name = {name.lower(): int(value) for name, value in (defaults or {}).items()}
    return by_name.get("defcpupergpu", 0), by_name.get("defmempergpu", 0)


def _stamp(seconds: int | None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds)) if seconds else ""


if __name__ == "__main__":
    main(sys.argv[1])
