"""What a job sees from inside: environment, devices that open and devices that are refused.

A job that may open a device gets ENXIO, since no driver stands behind it; a job that may not gets
EPERM.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lightcluster.cluster import LightCluster

LOOK = r"""
look() {
    for name in CUDA_VISIBLE_DEVICES ASCEND_RT_VISIBLE_DEVICES ASCEND_VISIBLE_DEVICES \
        CUDA_MPS_ACTIVE_THREAD_PERCENTAGE HPCMGR_DEVICES HPCMGR_GRES \
        HPCMGR_PROFILE HPCMGR_RUNTIME SLURM_NTASKS SLURM_TASKS_PER_NODE SLURM_CPUS_PER_TASK \
        SLURM_CPUS_ON_NODE SLURMD_NODENAME; do
        eval "set=\${$name+set} value=\${$name-}"
        [ -n "$set" ] && echo "$1 env $name=$value"
    done
    for file in /dev/nvidia[0-9]* /dev/davinci[0-9]* /dev/vdavinci[0-9]* \
        /dev/nvidia-caps/nvidia-cap[0-9]*; do
        [ -e "$file" ] || continue
        if said=$( (exec 3<"$file") 2>&1 ); then said=opened; fi
        case $said in
        *"not permitted"*) echo "$1 refused $file" ;;
        *"No such device or address"* | opened) echo "$1 open $file" ;;
        *) echo "$1 odd $file $said" ;;
        esac
    done
}
"""
"""Shell function ``look NAME``: one line a finding, NAME first."""


@dataclass
class Seen:
    """What one step saw."""

    env: dict[str, str] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)


def allocation(
    cluster: LightCluster, job_id: str
) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """CPU ids and GRES by node, and the other fields, from ``scontrol show job -d``."""
    text = cluster.run(["scontrol", "show", "job", "-d", job_id], check=True).stdout
    nodes: dict[str, tuple[str, str]] = {}
    for names, cpus, gres in re.findall(r"Nodes=(\S+) CPU_IDs=(\S+) Mem=\d+ GRES=(\S*)", text):
        listed = cluster.run(["scontrol", "show", "hostnames", names]).stdout.split()
        nodes |= dict.fromkeys(listed, (cpus, gres))
    return nodes, dict(re.findall(r"(\S+?)=(\S+)", text))


def parse(output: str) -> dict[str, Seen]:
    """Lines of ``look`` by step."""
    steps: dict[str, Seen] = {}
    for line in output.splitlines():
        words = line.split(" ", 2)
        if len(words) != 3 or words[1] not in {"env", "open", "refused", "odd"}:
            continue
        seen = steps.setdefault(words[0], Seen())
        if words[1] == "env":
            name, _, value = words[2].partition("=")
            seen.env[name] = value
        else:
            getattr(seen, words[1]).append(words[2])
    return steps


def cpu_ids(text: str) -> set[int]:
    """``"0-3,8"`` → {0, 1, 2, 3, 8}."""
    ids: set[int] = set()
    for low, high in re.findall(r"(\d+)(?:-(\d+))?", text):
        ids.update(range(int(low), int(high or low) + 1))
    return ids


def sockets(cpus: str, cpus_per_socket: int) -> set[int]:
    """Sockets that the CPU ids lie on."""
    return {cpu // cpus_per_socket for cpu in cpu_ids(cpus)}


def indices(gres: str, name: str) -> set[int]:
    """Device indices of one GRES: ``npu:ascend910b3:2(IDX:0-1)``."""
    found = re.search(rf"(?:^|,){re.escape(name)}:\d+\(IDX:([^)]*)\)", gres)
    return cpu_ids(found[1]) if found else set()
