"""The reference cluster in containers, one a host, driven through the Docker SDK.

from dockercluster import DockerCluster

with DockerCluster("24.11") as cluster:
    cluster.run("login", ["sbatch", "--gres=compute:8", "--wrap=env"], user="alice")
    cluster.kill("npu01")
"""

from __future__ import annotations

from dockercluster.cluster import Completed, DockerCluster
from dockercluster.errors import DockerClusterError, NoDocker, StartError

__all__ = ["Completed", "DockerCluster", "DockerClusterError", "NoDocker", "StartError"]
