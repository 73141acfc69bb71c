"""hpcmgr's own admission and late binding, on the cluster in time.

Nothing is imitated: requests are decided by ``hpcmgr.admit.decide`` and waiting jobs moved by the
service's cycle, from the records that Slurm would show. Run times are hidden; hpcmgr sees limits,
what ended, and the performance table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from bench.replay.cluster import Cluster, Node, Running
from bench.replay.jobs import Job
from bench.replay.policies import moved
from hpcmgr.admit import decide, make_policy
from hpcmgr.profile import ProfileLibrary
from hpcmgr.profile.performance import PerformanceTable
from hpcmgr.service.mover import moved_comment
from hpcmgr.service.rebinder import Cycle, plan_cycle
from hpcmgr.settings import Site
from hpcmgr.slurm.queue import QueuedJob
from hpcmgr.slurm.state import ClusterState, NodeState, Partition, PendingJob
from hpcmgr.submit.habit import Habit
from hpcmgr.submit.request import JobFields, read_fields
from hpcmgr.submit.rewrite import MARK
from hpcmgr.submit.view import ClusterView, make_view

EPOCH = 1_700_000_000.0
"""Second 0 of the trace, as seconds since 1970."""
CPUS, MEMORY = 256, 1 << 20


def class_name(job: Job) -> str:
    """A class for every workload and number of devices."""
    return f"{job.workload.replace('|', '-')}.x{job.devices}"


def classes(
    jobs: Iterable[Job], profile_of: Mapping[str, str], table: PerformanceTable
) -> dict[str, object]:
    """What the site's administrator writes for these jobs; ``profile_of`` a device type, those
    first that he likes best: for jobs that nobody has measured."""
    measured = table.workloads
    return {
        class_name(job): {
            "profiles": [profile_of[kind] for kind in job.seconds],
            "workload": job.workload if job.workload in measured else None,
            "prefer": [] if job.workload in measured else list(profile_of.values()),
            "binding": "movable", "devices_min": job.devices, "devices_max": job.devices,
        }
        for job in jobs
    }  # fmt: skip


class Neutral:
    """(c) with ``interval`` 0: bound at submission; (d): and bound anew every ``interval`` seconds
    while it waits. ``profiles``: name of the profile of each device type, for the table."""

    def __init__(
        self,
        site: Site,
        library: ProfileLibrary,
        table: PerformanceTable,
        interval: float,
        *,
        expects: bool = True,
    ) -> None:
        self.interval = interval
        self._expects = expects
        self._policy = make_policy(site, library, table)
        self._library = library
        self._habit = Habit()
        self._numbers: dict[str, int] = {}
        self._comments: dict[str, str] = {}

    def submit(self, job: Job, cluster: Cluster) -> tuple[str, ...]:
        """As `sbatch --gres=compute:CLASS:N`."""
        self._numbers[job.name] = len(self._numbers) + 1
        fields = read_fields(
            {"tres_per_node": f"gres/compute:{class_name(job)}:{job.devices}", "user_id": 1000,
             "partition": "main", "num_tasks": 1, "min_nodes": 1, "max_nodes": 1,
             "account": "all", "time_limit": max(1, round(job.limit / 60))}
        )  # fmt: skip
        view = self._view(cluster)
        expected = self._plan(cluster, view).expected if self._expects else None
        decision = decide(fields, self._policy, replace(view, expected=expected), {})
        if decision.rewrite is None:
            raise RuntimeError(f"{job.name}: {decision.error}")
        self._comments[job.name] = str(decision.rewrite.set["admin_comment"])
        return (_kind(decision.ranked[0].gres),)

    def ended(self, run: Running, cluster: Cluster) -> None:
        """The account's habit is learnt."""
        self._habit.learn("all", cluster.now - run.started, run.job.limit)

    def _plan(self, cluster: Cluster, view: ClusterView) -> Cycle:
        queue = [*self._waiting(cluster), *self._running(cluster)]
        return plan_cycle(queue, self._policy, view, self._habit, EPOCH + cluster.now)

    def look(self, cluster: Cluster) -> int:
        """One cycle of the service."""
        now = EPOCH + cluster.now
        cycle = self._plan(cluster, self._view(cluster))
        by_number = {str(self._numbers[w.job.name]): w for w in cluster.queue}
        moves = [v for v in cycle.verdicts if v.to is not None]
        for verdict in moves:
            waiting, to = by_number[verdict.job.job_id], verdict.to
            assert to is not None
            moved(waiting, _kind(to.gres))
            old = json.loads(self._comments[waiting.job.name].removeprefix(MARK))
            binding = {**old["binding"], "gres": to.gres, "devices": to.devices}
            self._comments[waiting.job.name] = moved_comment(old, binding, JobFields({}), now)
        return len(moves)

    def _waiting(self, cluster: Cluster) -> Iterator[QueuedJob]:
        for waiting in cluster.queue:
            job = waiting.job
            number = self._numbers[job.name]
            yield QueuedJob(
                number=number, spec=str(number), state="PENDING", reason="Priority", account="all",
                priority=1_000_000 - number, submit=EPOCH + job.submit, limit=job.limit,
                start=None if waiting.planned is None else EPOCH + waiting.planned,
                admin_comment=self._comments[job.name],
                asked={"tres_per_node": _tres(waiting.types[0], job.devices), "partition": "main"},
            )  # fmt: skip

    def _running(self, cluster: Cluster) -> Iterator[QueuedJob]:
        for name, run in cluster.running.items():
            number = self._numbers[name]
            yield QueuedJob(
                number=number, spec=str(number), state="RUNNING", account="all",
                start=EPOCH + run.started, limit=run.job.limit,
                held={run.node.name: {_gres(run.node.kind): run.job.devices}},
            )  # fmt: skip

    def _view(self, cluster: Cluster) -> ClusterView:
        pending = tuple(
            PendingJob(
                str(self._numbers[w.job.name]), "main", 1, 1,
                _tres(w.types[0], w.job.devices), queued=True,
            )
            for w in cluster.queue
        )  # fmt: skip
        state = ClusterState(
            taken=cluster.now,
            release="26.05.5",
            nodes=tuple(_node(node) for node in cluster.nodes),
            partitions=(Partition("main", default=True),),
            pending=pending,
        )
        return make_view(state, self._library)


def _node(node: Node) -> NodeState:
    held = node.devices - node.free
    return NodeState(
        name=node.name, usable=True, partitions=("main",), sockets=2,
        cores_per_socket=CPUS // 2, cpus=CPUS, memory=MEMORY,
        gres={_gres(node.kind): node.devices, "compute": node.devices},
        used={_gres(node.kind): held, "compute": held},
        indexed=frozenset({_gres(node.kind)}),
    )  # fmt: skip


def _tres(kind: str, devices: int) -> str:
    return f"gres/{_gres(kind)}:{devices},gres/compute:{devices}"


def _gres(kind: str) -> str:
    return f"gpu:{kind}"


def _kind(gres: str) -> str:
    return gres.removeprefix("gpu:")
