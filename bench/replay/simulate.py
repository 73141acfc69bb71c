"""Events in time: submissions and ends, a scheduler pass after each, a look at the queue."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from bench.replay.cluster import Cluster, Waiting
from bench.replay.jobs import Job
from bench.replay.policies import Policy


@dataclass(frozen=True, slots=True)
class Done:
    """One job's life: seconds since the trace began; ``kind``: where it ran."""

    job: Job
    kind: str
    started: float
    ended: float
    moves: int

    @property
    def completion(self) -> float:
        """From submission to its end."""
        return self.ended - self.job.submit

    @property
    def wait(self) -> float:
        """From submission to its start."""
        return self.started - self.job.submit


def simulate(jobs: Iterable[Job], nodes: list[tuple[str, int]], policy: Policy) -> list[Done]:
    """Run all jobs; returns them in order of their ends.

    Raises:
        RuntimeError: jobs are left that can never start.
    """
    cluster, done = Cluster(nodes), []
    arrivals = sorted(jobs, key=lambda job: (job.submit, job.name))[::-1]
    ends: list[tuple[float, str]] = []
    look_at = policy.interval
    while arrivals or ends or cluster.queue:
        moments = [*([arrivals[-1].submit] if arrivals else []), *([ends[0][0]] if ends else [])]
        if cluster.queue and policy.interval:
            moments.append(max(look_at, cluster.now))
        if not moments:
            raise RuntimeError(f"{len(cluster.queue)} jobs can never start")
        cluster.now = min(moments)
        changed = False
        while ends and ends[0][0] <= cluster.now:
            run = cluster.end(heapq.heappop(ends)[1])
            policy.ended(run, cluster)
            done.append(Done(run.job, run.node.kind, run.started, cluster.now, run.moves))
            changed = True
        while arrivals and arrivals[-1].submit <= cluster.now:
            job = arrivals.pop()
            cluster.queue.append(Waiting(job, policy.submit(job, cluster)))
            changed = True
        if changed:
            _start(cluster, ends)
        if policy.interval and cluster.queue and cluster.now >= look_at:
            if policy.look(cluster):
                _start(cluster, ends)
            elif not ends and not arrivals:
                raise RuntimeError(f"{len(cluster.queue)} jobs can never start")
            look_at = cluster.now + policy.interval
    return done


def _start(cluster: Cluster, ends: list[tuple[float, str]]) -> None:
    for run in cluster.start_what_can():
        heapq.heappush(ends, (run.end, run.job.name))
