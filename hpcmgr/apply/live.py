"""What slurmctld says about nodes and jobs just now, as far as an apply must know it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hpcmgr.plan import NEUTRAL
from hpcmgr.slurm.command import Output, run
from hpcmgr.slurm.hostlist import expand
from hpcmgr.slurm.record import parse_record
from hpcmgr.slurm.state import parse_nodes, without_share_types

Runner = Callable[..., Output]

# Everything between the start of a job and the end of its epilog holds devices.
_STATES = "RUNNING,SUSPENDED,COMPLETING,CONFIGURING,RESIZING,SIGNALING,STAGE_OUT,STOPPED"
_JOBS = ("squeue", "-h", "-a", "-t", _STATES, "-o", "%i|%t|%u|%N")
"""No field that a user could write into."""
_PARTITIONS = ("squeue", "-h", "-a", "-t", f"PENDING,{_STATES}", "-o", "%P")

_AWAY = frozenset({"DOWN", "FUTURE", "UNKNOWN", "POWERED_DOWN", "POWERING_DOWN"})
_REASON = re.compile(r"\s*\[[^\[\]@\s]+@[^\[\]\s]+\]$")


@dataclass(frozen=True, slots=True)
class Job:
    """A job that has nodes. ``state`` as squeue shortens it: R, S, CG, …"""

    id: str
    state: str
    user: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.id} ({self.user}, {self.state})"


@dataclass(frozen=True, slots=True)
class LiveNode:
    """One node as slurmctld knows it. ``started``: when its slurmd last read its files; None if it
    has not registered since."""

    name: str
    state: str
    reason: str = ""
    gres: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    started: str | None = None

    @property
    def flags(self) -> frozenset[str]:
        """The words of its state: ``IDLE+DRAIN`` → IDLE, DRAIN."""
        return frozenset(re.findall(r"[A-Z_]+", self.state.upper()))

    @property
    def down(self) -> bool:
        """Whether slurmctld has given it up."""
        return bool(self.flags & _AWAY)

    @property
    def away(self) -> bool:
        """Whether its slurmd does not answer. A star means so whatever the state's name is; a
        node that was just resumed is NOT_RESPONDING until it has answered a ping."""
        return "*" in self.state or "NOT_RESPONDING" in self.flags or self.down

    @property
    def invalid(self) -> bool:
        """Whether slurmctld refused what its slurmd reported."""
        return bool(self.flags & {"INVAL", "INVALID_REG"})

    @property
    def drained(self) -> bool:
        """Whether it gets no new jobs."""
        return "DRAIN" in self.flags

    @property
    def holds_devices(self) -> bool:
        """Whether a job has devices here, by slurmctld's own count."""
        return any(n and key.partition(":")[0] not in NEUTRAL for key, n in self.used.items())


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """Nodes by name, all jobs that have nodes, and how many jobs, waiting ones too, each partition
    has."""

    nodes: Mapping[str, LiveNode]
    jobs: tuple[Job, ...] = ()
    partitions: Mapping[str, int] = field(default_factory=dict)

    def jobs_on(self, node: str) -> tuple[Job, ...]:
        """Jobs that have the node."""
        return tuple(job for job in self.jobs if node in job.nodes)

    def holds(self, node: str) -> bool:
        """Whether a job has devices there, by slurmctld's own count."""
        live = self.nodes.get(node)
        return live is not None and live.holds_devices

    def jobs_in(self, partitions: Iterable[str]) -> str:
        """Those of the partitions that have jobs, with how many: ``train (3), test (1)``."""
        busy = ((name, self.partitions.get(name, 0)) for name in partitions)
        return ", ".join(f"{name} ({count})" for name, count in busy if count)

    def devices_in_use(self, node: str) -> bool:
        """Whether moving the devices of ``node`` could harm a job. A job that is starting, ending
        or suspended counts whatever it holds: slurmctld's count may be behind or ahead of it."""
        return self.holds(node) or any(job.state != "R" for job in self.jobs_on(node))


def read_live(runner: Runner = run) -> LiveCluster:
    """Ask slurmctld.

    Raises:
        CommandError: it does not answer, or Slurm's programs are missing.
    """
    # Jobs first: one that starts in between shows in the nodes' counts.
    jobs = tuple(parse_jobs(runner(*_JOBS).stdout))
    nodes = runner("scontrol", "-o", "-d", "-a", "show", "nodes").stdout
    words = (p for line in runner(*_PARTITIONS).stdout.splitlines() for p in line.split(","))
    partitions = Counter(word.strip() for word in words)
    return LiveCluster({node.name: node for node in parse_live(nodes)}, jobs, partitions)


def parse_jobs(text: str) -> Iterable[Job]:
    """Lines of the squeue call above."""
    for line in text.splitlines():
        cells = line.strip().split("|")
        if len(cells) != 4:
            continue
        yield Job(cells[0], cells[1], cells[2], tuple(expand(cells[3])))


def parse_live(text: str) -> Iterable[LiveNode]:
    """Records of ``scontrol -o -d show nodes``."""
    for line in text.splitlines():
        record = parse_record(line)
        for node in parse_nodes(line):
            started = record.get("SlurmdStartTime", "None")
            yield LiveNode(
                name=node.name,
                state=node.state,
                reason=_REASON.sub("", node.reason),
                gres=without_share_types(node.gres),
                used=node.used,
                started=None if started in {"None", "Unknown", ""} else started,
            )
