"""What a node of the cluster looks like, and the addresses everybody has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lightcluster.errors import LightClusterError

CONTROLLER = "ctl"
CONTROLLER_HWLOC = "pack:1 core:4 pu:1"
_CONTROLLER_ADDRESS = "10.77.0.1"


@dataclass(frozen=True)
class NodeSpec:
    """A compute node: its name, the CPUs it poses as, and the recorded machine it plays.

    ``numa_per_socket``: NUMA nodes of each socket (0: the hardware shows none).
    ``host`` is a folder as ``hpcmgr record`` writes it; its ``dev.txt`` becomes the node's
    device nodes and the folder itself is seen in the node, read-only, at ``/host``.
    """

    name: str
    sockets: int = 1
    cores_per_socket: int = 4
    threads_per_core: int = 1
    host: Path | None = None
    numa_per_socket: int = 0

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,60}", self.name) or self.name == CONTROLLER:
            raise LightClusterError(
                f"a node is named like a host (letters, digits, -) and not {CONTROLLER!r}: "
                f"{self.name!r}"
            )
        if min(self.sockets, self.cores_per_socket, self.threads_per_core) < 1:
            raise LightClusterError(f"node {self.name} needs at least one CPU")
        if self.host is not None and not self.host.is_dir():
            raise LightClusterError(f"node {self.name}: no recorded host at {self.host}")

    @property
    def hwloc(self) -> str:
        """The topology for HWLOC_SYNTHETIC: slurmd then sees this machine and no other."""
        numa, cores = self.numa_per_socket, self.cores_per_socket
        inner = f"numa:{numa} core:{cores // numa}" if numa else f"core:{cores}"
        return f"pack:{self.sockets} {inner} pu:{self.threads_per_core}"

    @property
    def cpus(self) -> int:
        """How many CPUs Slurm counts."""
        return self.sockets * self.cores_per_socket * self.threads_per_core


def node_line(spec: NodeSpec, memory_mib: int, gres: str = "", features: str = "") -> str:
    """The NodeName line of slurm.conf that fits ``spec``.

    ``memory_mib`` must not exceed the memory of the machine the cluster runs on: slurmd asks
    the kernel, and a node with less than configured is drained.
    """
    extra = "".join(
        f" {key}={value}" for key, value in (("Gres", gres), ("Features", features)) if value
    )
    return (
        f"NodeName={spec.name} Sockets={spec.sockets} CoresPerSocket={spec.cores_per_socket}"
        f" ThreadsPerCore={spec.threads_per_core} RealMemory={memory_mib}{extra} State=UNKNOWN\n"
    )


def addresses(nodes: list[NodeSpec]) -> dict[str, str]:
    """Every host's IPv4 address, the controller's first."""
    result = {CONTROLLER: _CONTROLLER_ADDRESS}
    for index, node in enumerate(nodes):
        result[node.name] = f"10.77.{1 + index // 200}.{1 + index % 200}"
    return result


def hosts_file(table: dict[str, str]) -> str:
    """/etc/hosts with everybody in it: Slurm resolves all its nodes there."""
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in table.items())]
    return "\n".join(lines) + "\n"
