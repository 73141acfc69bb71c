"""The cycle of late binding: read the queue, decide, move, tell the journal.

Its own thread, apart from the one that refreshes the picture; reading the queue is left to another
process (hpcmgr.slurm.queue), so that submissions are answered as if there were no cycle.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field

from hpcmgr.admit import Policy
from hpcmgr.errors import CommandError, ServiceError
from hpcmgr.service.estimates import Estimates
from hpcmgr.service.held import base_id
from hpcmgr.service.journal import Journal
from hpcmgr.service.mover import move_job, pin_record
from hpcmgr.service.snapshot import Snapshot
from hpcmgr.service.waiting import Queue, make_queue, record_of
from hpcmgr.slurm.ended import read_ended
from hpcmgr.slurm.hostlist import expand
from hpcmgr.slurm.queue import QueuedJob, read_queue
from hpcmgr.slurm.update import update_job
from hpcmgr.submit.expect import NEVER, Expectation, coarse
from hpcmgr.submit.habit import Habit
from hpcmgr.submit.rebind import Verdict, plan_moves
from hpcmgr.submit.view import ClusterView

log = logging.getLogger(__name__)

_PRUNE_SECONDS = 6 * 3600.0
_FAILED_SECONDS = 60.0
"""A move that Slurm refused is not tried again before."""


@dataclass
class Cycle:
    """What one cycle saw, and of it what it did: ``moved`` jobs, ``failed`` with the reason."""

    queue: Queue
    verdicts: list[Verdict]
    expected: Expectation
    moved: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def rows(self) -> Iterator[dict[str, object]]:
        """One row for every waiting job (docs/late-binding.md)."""
        for verdict in self.verdicts:
            yield _row(verdict, self.queue, self.failed.get(verdict.job.job_id, ""))
        for job, why in self.queue.others.values():
            yield {"job": job.spec, "priority": job.priority, "gres": None, "to": None,
                   "why": why, "starts": None, "would_start": None, "gain_s": None}  # fmt: skip


def _row(verdict: Verdict, queue: Queue, failed: str) -> dict[str, object]:
    here, there = verdict.here, verdict.there
    known = there is not None and here.end < NEVER and there.end < NEVER
    return {
        "job": queue.specs[verdict.job.job_id],
        "priority": verdict.job.priority,
        "gres": verdict.job.gres,
        "to": verdict.to.gres if verdict.to and not failed else None,
        "why": failed or verdict.reason,
        "starts": _time(here.start),
        "would_start": _time(there.start) if there else None,
        "gain_s": round(here.end - there.end) if known and there else None,
    }


def _time(start: float) -> int | None:
    return None if start == NEVER else round(start)


def plan_cycle(
    jobs: Iterable[QueuedJob],
    policy: Policy,
    view: ClusterView,
    habit: Habit,
    now: float,
    most: int | None = None,
) -> Cycle:
    """What a cycle would do with that queue."""
    queue = make_queue(jobs, policy, view, habit, now)
    plan = plan_moves(
        queue.waiting, queue.running, view.state.nodes, policy.site.rebind, now,
        most=most, closed=_closed(view),
    )  # fmt: skip
    steps = {gres: coarse(each) for gres, each in plan.left.items()}
    places = {
        gres: {size: coarse(each) for size, each in sizes.items()}
        for gres, sizes in plan.together.items()
    }
    return Cycle(queue, plan.verdicts, Expectation(steps, view.spare, places, habit.shares))


def _closed(view: ClusterView) -> frozenset[str]:
    """Nodes that a reservation holds: jobs in one are not moved, others cannot go there."""
    return frozenset(
        node
        for reservation in view.state.reservations
        if reservation.active and reservation.nodes and (reservation.whole or reservation.gres)
        for node in expand(reservation.nodes)
    )


class Rebinder:
    """Runs cycles, one at a time, from whichever thread asks."""

    def __init__(
        self,
        policy: Policy,
        snapshot: Snapshot,
        journal: Journal,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._policy = policy
        self._snapshot = snapshot
        self._journal = journal
        self._clock = clock
        self._lock = threading.Lock()
        self._moves: deque[float] = deque()
        self._failed: dict[int, float] = {}
        self._ended: Set[int] = frozenset()
        self._estimates = Estimates()
        self._next_prune = 0.0
        self.habit = Habit()

    def prepare(self) -> None:
        """Learn the accounts' habits from jobs that ended before this service began."""
        if self._policy.site.accounting:
            try:
                self.habit.learn_all(read_ended())
            except CommandError as error:
                log.info("habits are learnt anew: %s", error.message)

    def run(self, *, moving: bool = True) -> Cycle:
        """One cycle; without ``moving`` it only looks, learns and expects.

        Raises:
            CommandError: Slurm cannot be read.
            ServiceError: there is no recent picture of the cluster.
        """
        with self._lock:
            jobs = read_queue()
            current = self._snapshot.current()
            if current is None:
                raise ServiceError("no recent picture of the cluster")
            now = self._clock()
            self._learn(jobs)
            self._prune(jobs, now)
            cycle = plan_cycle(jobs, self._policy, current[0], self.habit, now, self._left(now))
            self._snapshot.expect(cycle.expected)
            self._estimates.expect(cycle.verdicts, cycle.queue.bound, now)
            for verdict in cycle.verdicts:
                if moving and verdict.to is not None:
                    self._move(verdict, cycle, current[0], now)
            self._mark_pins(cycle.queue)
            return cycle

    def _left(self, now: float) -> int:
        """Moves left in this minute."""
        while self._moves and self._moves[0] <= now - 60:
            self._moves.popleft()
        return max(0, self._policy.site.rebind.moves_per_minute - len(self._moves))

    def _move(self, verdict: Verdict, cycle: Cycle, view: ClusterView, now: float) -> None:
        name = verdict.job.job_id
        bound, to = cycle.queue.bound[name], verdict.to
        if to is None or to.candidate is None:
            return
        if now - self._failed.get(bound.job.number, -1e12) < _FAILED_SECONDS:
            cycle.failed[name] = "Slurm refused the move a moment ago"
            return
        self._moves.append(now)
        try:
            why_not = move_job(bound, to.candidate, self._policy, view, now)
        except (CommandError, ValueError) as error:
            why_not = error.message if isinstance(error, CommandError) else str(error)
        if why_not:
            self._failed[bound.job.number] = now
            cycle.failed[name] = why_not
            log.warning("job %s is not moved to %s: %s", bound.job.spec, to.gres, why_not)
            return
        cycle.moved.append(name)
        self._snapshot.grant([(to.gres, to.devices * verdict.job.nodes * verdict.job.tasks)])
        text = f"moved from {verdict.job.gres} to {to.devices} x {to.gres}: {verdict.reason}"
        log.info("job %s: %s", bound.job.spec, text)
        self._note(bound.job, bound.record, "move", text, {
            "from": verdict.job.gres, "to": to.gres, "devices": to.devices,
            "here": [_time(verdict.here.start), _time(verdict.here.end)],
            "there": [_time(verdict.there.start), _time(verdict.there.end)]
            if verdict.there else None,
        })  # fmt: skip

    def _learn(self, jobs: list[QueuedJob]) -> None:
        """Ends teach the accounts' habits, starts judge the estimates."""
        ended = {job.number: job for job in jobs if job.ran}
        for job in ended.values():
            if job.number not in self._ended and job.start and job.end and job.limit:
                self.habit.learn(job.account, job.end - job.start, job.limit)
        self._ended = ended.keys()
        for outcome in self._estimates.settle(jobs):
            error = round((outcome.started - outcome.first.start) / 60)
            text = f"started {'on time' if not error else f'{abs(error)} min'}"
            text += (" later" if error > 0 else " earlier") + " than expected" if error else ""
            record = record_of(outcome.job.admin_comment) or {}
            self._note(outcome.job, record, "start", text, {"estimate": outcome.as_dict()})
        alive = {job.number for job in jobs}
        self._failed = {n: at for n, at in self._failed.items() if n in alive}

    def _prune(self, jobs: list[QueuedJob], now: float) -> None:
        """Now and then the journal forgets what is old; here the jobs that live are known."""
        if now < self._next_prune:
            return
        self._next_prune = now + _PRUNE_SECONDS
        service = self._policy.site.service
        live = {str((record_of(job.admin_comment) or {}).get("trace", "")) for job in jobs}
        self._journal.prune(
            now - 86400.0 * service.journal_days, service.journal_mib << 20, frozenset(live)
        )

    def _note(
        self,
        job: QueuedJob,
        record: dict[str, object],
        kind: str,
        message: str,
        more: dict[str, object],
    ) -> None:
        self._journal.note(
            str(record.get("trace", "")),
            kind=kind,
            job_id=base_id(job.spec),
            uid=job.uid,
            request=str(record.get("request", "")),
            record={"messages": [message], **more},
        )

    def _mark_pins(self, queue: Queue) -> None:
        """The state in admin_comment follows the pin that its owner set or took away."""
        for bound in queue.bound.values():
            comment = pin_record(bound)
            if comment is None:
                continue
            try:
                update_job(bound.job.spec, {"admin_comment": comment})
            except CommandError as error:
                log.debug("job %s: %s", bound.job.spec, error.message)
