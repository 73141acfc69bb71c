"""What which Slurm release can do: the one table of version-bound behaviour.

An entry holds from ``since`` on and before ``until``. ``seen`` says on which releases it was seen
running; a bound without it was read in Slurm's source or release notes. Between two releases that
were seen to differ, the entry takes the side that does no harm.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

_VERSION = re.compile(r"(?<![\d.])(\d{2})\.(\d{2})(?:\.(\d+))?")


@total_ordering
@dataclass(frozen=True, slots=True)
class Release:
    """A Slurm release; ``micro`` None (``24.11``) stands for its newest maintenance release."""

    year: int
    month: int
    micro: int | None = None

    @classmethod
    def parse(cls, text: str) -> Release:
        """The first version in ``text``: ``"24.11.5"``, ``"slurm-wlm 26.05.5"``, ``"24.11"``.

        Raises:
            ValueError: there is none.
        """
        found = _VERSION.search(text)
        if not found:
            raise ValueError(f"{text[:60]!r} holds no Slurm version such as 24.11.5 or 26.05")
        return cls(int(found[1]), int(found[2]), int(found[3]) if found[3] else None)

    @property
    def line(self) -> tuple[int, int]:
        """The release line: (24, 11)."""
        return (self.year, self.month)

    def _key(self) -> tuple[int, int, float]:
        return (self.year, self.month, float("inf") if self.micro is None else self.micro)

    def __lt__(self, other: Release) -> bool:
        return self._key() < other._key()

    def __str__(self) -> str:
        text = f"{self.year:02}.{self.month:02}"
        return text if self.micro is None else f"{text}.{self.micro}"


def _at(text: str) -> Release:
    """A bound of an entry: ``23.11`` is its first release."""
    release = Release.parse(text)
    return release if release.micro is not None else Release(*release.line, 0)


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing that some releases do. ``until`` is the first release that no longer does it."""

    meaning: str
    since: Release | None = None
    until: Release | None = None
    seen: tuple[str, ...] = ()

    def holds(self, release: Release) -> bool:
        """Whether ``release`` does it."""
        return (self.since is None or release >= self.since) and (
            self.until is None or release < self.until
        )


def _entry(meaning: str, since: str = "", until: str = "", seen: str = "") -> Capability:
    return Capability(
        meaning, _at(since) if since else None, _at(until) if until else None, tuple(seen.split())
    )


CAPABILITIES: dict[str, Capability] = {
    # Requests and how they are rewritten
    "TRES_SLASH": _entry(
        "tres_per_* reads gres/name (before: gres:name)", since="23.11", seen="24.11.5 26.05.5"
    ),
    "SRUN_REWRITE": _entry(
        "a direct srun lives through the rewriting of its request",
        since="23.02",
        seen="24.11.5 26.05.5",
    ),
    "UPDATE_TYPE_OF_PENDING": _entry(
        "scontrol update TresPerNode= replaces the type of a pending job (before: adds to it)",
        since="23.02.6",
        seen="24.11.5 25.11.7 26.05.5",
    ),
    "JOB_MODIFY_MESSAGE": _entry("slurm_job_modify's log_user reaches the user", since="23.02"),
    "LUA_ERROR_REJECTS": _entry(
        "a Lua error in slurm_job_submit refuses the job (before: lets it through unchanged)",
        since="26.05",
    ),
    "LUA_JSON": _entry("slurm.to_json and from_json in job_submit.lua", since="26.05"),
    "LUA_SEGMENT_SIZE": _entry("job_desc.segment_size in job_submit.lua", since="25.11"),
    "TASK_SHARING_BITS": _entry(
        "bitflags ALLOW_TASK_SHARING, ONE_TASK_PER_SHARING, MULTIPLE_TASKS_PER_SHARING",
        since="23.11",
    ),
    # Binding
    "GPU_ENFORCE_BINDING_ALL_SOCKETS": _entry(
        "enforce-binding gives devices named gpu of every socket", seen="24.11.5 26.05.5"
    ),
    "NPU_ENFORCE_BINDING_ALL_SOCKETS": _entry(
        "enforce-binding gives devices of a GRES without a plugin (npu) of every socket; without "
        "this only those of the first socket are ever given and the other jobs wait for ever",
        since="24.11",
        until="25.05",
        seen="24.11.5",
    ),
    "NPU_BINDING_PER_SOCKET": _entry(
        "tres_per_socket with sockets_per_node=1, one task a node and enforce-binding gives "
        "devices of a GRES without a plugin and cores of one socket, units in the same field "
        "(on 24.11.5: as many of every socket)",
        since="26.05",
        seen="26.05.5",
    ),
    "NPU_ONE_SOCKET": _entry(
        "tres_per_node and tres_per_socket of a GRES without a plugin, with sockets_per_node=1 and "
        "enforce-binding, keep the devices of a job on one socket: it waits rather than span two "
        "(of the name gpu on all releases)",
        since="24.11",
        until="25.05",
        seen="24.11.5",
    ),
    "ENFORCE_BINDING_SEVERAL_TASKS": _entry(
        "enforce-binding with -n2 gives the cores of two tasks (on 24.11.5: all of the socket; "
        "--ntasks-per-node is exact on both)",
        since="26.05",
        seen="26.05.5",
    ),
    "UNITS_PER_TASK": _entry(
        "units in tres_per_task reach the steps of a batch job (on 24.11 srun in it asks for what "
        "the user wrote, and its tasks get no device)",
        since="26.05",
        seen="26.05.5",
    ),
    "UNITS_BESIDE_CPUS_PER_GPU": _entry(
        "units beside --cpus-per-gpu (on 24.11.5 the node configuration is not available)",
        since="26.05",
        seen="26.05.5",
    ),
    "ENFORCE_BINDING_TAKES_SOCKET_WITHOUT_TASKS": _entry(
        "enforce-binding without a task count takes all cores of the socket", seen="24.11.5 26.05.5"
    ),
    "TRES_BIND_ANY_GRES": _entry("--tres-bind for other names than gpu and nic", since="23.11"),
    # gres.conf and the node line
    "DEVICE_CGROUP_WITHOUT_PLUGIN": _entry(
        "File= of a GRES without a plugin is constrained by the device cgroup",
        since="23.02",
        seen="24.11.5 26.05.5",
    ),
    "CORES_BY_SOCKET": _entry(
        "Cores= must cover whole sockets, else the node registers as invalid",
        since="24.11.2",
        seen="24.11.5 26.05.5",
    ),
    "CORES_ONE_SOCKET_OR_ALL": _entry(
        "Cores= must be just one socket or all cores of the node", since="25.11", seen="26.05.5"
    ),
    "NODE_LINE_PARAMETERS": _entry(
        "Parameters= on a NodeName line, such as numa_node_as_socket (before: an unknown key; only "
        "SlurmdParameters= for all nodes)",
        since="25.11",
        seen="26.05.5",
    ),
    "AUTODETECT_NRT": _entry("AutoDetect=nrt", since="23.11"),
    "AUTODETECT_NVIDIA": _entry("AutoDetect=nvidia", since="24.11"),
    "AUTODETECT_FULL": _entry("AutoDetect=full", since="26.05"),
    "FLAG_ENV_UUID": _entry("Flags=env_uuid", since="26.05"),
    "UPPER_CASE_GRES": _entry("GRES names with capital letters register properly", since="25.05"),
    "HYPHEN_IN_TRES": _entry("sacctmgr reads GRES names and types with a hyphen", since="25.11"),
    "CONS_TRES_DEFAULT": _entry("SelectType is select/cons_tres unless set", since="23.11"),
    "RECONFIGURE_STARTS_ANEW": _entry(
        "scontrol reconfigure starts new daemons that take over; the old ones go on where the new "
        "refuse the files, and scontrol's exit status does not tell",
        since="23.11",
        seen="24.11.5 26.05.5",
    ),
    "RECONFIGURE_TAKES_NODES": _entry(
        "scontrol reconfigure takes added, removed and reordered NodeName lines and changed "
        "sockets and cores (before: slurmctld and slurmd must be restarted)",
        since="23.11",
        seen="24.11.5 26.05.5",
    ),
    "RECONFIGURE_TAKES_GRES_TYPES": _entry(
        "scontrol reconfigure takes GresTypes and types of devices (before: restart)",
        since="23.11",
        seen="24.11.5 26.05.5",
    ),
    "RECONFIGURE_TAKES_TRES": _entry(
        "scontrol reconfigure takes AccountingStorageTRES and TRESBillingWeights that name new "
        "TRES (before: slurmctld must be restarted)",
        since="23.11",
        seen="24.11.5 26.05.5",
    ),
    "MAX_TRES_GRES": _entry("PriorityFlags=MAX_TRES_GRES", since="25.05"),
    # Topology
    "TOPOLOGY_BLOCK": _entry("topology/block", since="23.11"),
    "TOPOLOGY_BLOCK_SIZES": _entry("BlockSizes= (before: BlockLevels=)", since="24.05"),
    "TOPOLOGY_BLOCK_BELOW_BASE": _entry(
        "a block may hold fewer nodes than the base block size", since="25.05", seen="26.05.5"
    ),
    "TOPOLOGY_YAML": _entry("topology.yaml", since="25.05", seen="26.05.5"),
    "TOPOLOGY_FLAT": _entry("topology/flat (before: topology/default)", since="25.05"),
    "TOPOLOGY_3D_TORUS": _entry("topology/3d_torus", until="25.05"),
    "TOPOLOGY_RING_TORUS3D": _entry("topology/ring and topology/torus3d", since="26.05"),
    "EMPTY_TOPOLOGY_IS_FATAL": _entry(
        "slurmctld refuses an empty topology.conf with topology/tree", since="26.05", seen="26.05.5"
    ),
    # Other
    "UNKNOWN_QOS_FATAL": _entry(
        "slurmctld without slurmdbd refuses a partition with AllowQos or QOS",
        since="26.05",
        seen="26.05.5",
    ),
    "CONFIGLESS_TASK_PROLOG": _entry("configless ships TaskProlog to the nodes", since="25.11"),
    "OPENMETRICS": _entry("MetricsType=metrics/openmetrics", since="25.11"),
}

OLDEST = Release(23, 11)
NEWEST = Release(26, 5)
"""The newest release line that was seen running."""

_TOO_OLD = {
    (22, 5): "the device cgroup leaves out devices without a GRES plugin (npu): every job could "
    "open all of them; a pending job that is moved to another type never starts again; a direct "
    "srun with neutral units fails",
    (23, 2): "requests are still read as gres:name, not gres/name, and before 23.02.6 a pending "
    "job keeps its old device type when it is moved",
}


def has(release: Release, name: str) -> bool:
    """Whether ``release`` can do ``name``.

    Raises:
        KeyError: no such entry in the table.
    """
    return CAPABILITIES[name].holds(release)


def why_unsupported(release: Release) -> str | None:
    """Why hpcmgr refuses ``release``; None if it does not."""
    if release.line >= OLDEST.line:
        return None
    reason = _TOO_OLD.get(release.line, "what hpcmgr rests on is not in it")
    return f"Slurm {release} is not supported, {OLDEST} is the oldest: {reason}"
