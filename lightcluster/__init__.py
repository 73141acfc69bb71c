"""A real Slurm cluster in seconds, without Docker: for tests and demonstrations.

from lightcluster import LightCluster, NodeSpec

with LightCluster("24.11", [NodeSpec("n1", sockets=2, cores_per_socket=8)]) as cluster:
    job = cluster.sbatch("--wrap=hostname", user="alice")
    cluster.wait_job(job)
"""

from __future__ import annotations

from lightcluster.cluster import LightCluster
from lightcluster.enter import Completed, Host, Spawned
from lightcluster.errors import (
    CommandError,
    LightClusterError,
    NeedsError,
    RootfsError,
    StartError,
    WaitError,
)
from lightcluster.spec import NodeSpec, node_line

__all__ = [
    "CommandError",
    "Completed",
    "Host",
    "LightCluster",
    "LightClusterError",
    "NeedsError",
    "NodeSpec",
    "RootfsError",
    "Spawned",
    "StartError",
    "WaitError",
    "node_line",
]
