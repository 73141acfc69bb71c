"""Late binding: which waiting jobs move to another device type, and why the others stay.

Pure: a queue and a moment in, one verdict for every job out. Jobs are looked at in Slurm's own
order; what one takes is gone for those behind it, so a cycle never counts on a device twice. A job
moves only where it could start now, or markedly earlier, and would still end markedly earlier.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from hpcmgr.settings.rebind import Rebind
from hpcmgr.slurm.state import NodeState
from hpcmgr.submit.estimate import Option, Room, Running
from hpcmgr.submit.expect import NEVER, Steps
from hpcmgr.submit.supply import Supply


@dataclass(frozen=True, slots=True)
class Waiting:
    """One waiting job; an array is one with several ``tasks``.

    ``gres`` and ``devices`` (on each of ``nodes``): what it waits for now. ``run``: seconds that it
    is expected to run on the slowest of its ``options``, ``limit``: at most. ``options``: the types
    it may have, best liked first, its own among them where that still serves. ``planned``: when
    Slurm's backfill expects to start it. ``since``: its place among jobs of equal priority.
    ``moved``: when it moved last. ``fixed`` says why it must keep its type; it is still counted.
    """

    job_id: str
    priority: int
    gres: str
    devices: int
    run: float
    limit: float
    nodes: int = 1
    tasks: int = 1
    since: float = 0.0
    options: tuple[Option, ...] = ()
    planned: float | None = None
    moves: int = 0
    moved: float | None = None
    fixed: str = ""


@dataclass(frozen=True, slots=True)
class Outlook:
    """When a job would start and end with an option."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """``to``: the type the job moves to, None: it stays, for the ``reason``. ``here`` is its
    outlook where it is, ``there`` at the best other type (None: there is none)."""

    job: Waiting
    reason: str
    here: Outlook
    there: Outlook | None = None
    to: Option | None = None


class Plan(NamedTuple):
    """``left``: what is free for a job behind all others, by device type; ``together``: by type and
    number of devices on one node, how many nodes."""

    verdicts: list[Verdict]
    left: dict[str, Steps]
    together: dict[str, dict[int, Steps]]


def plan_moves(
    waiting: Iterable[Waiting],
    running: Iterable[Running],
    nodes: Iterable[NodeState],
    rules: Rebind,
    now: float,
    *,
    most: int | None = None,
    closed: frozenset[str] = frozenset(),
) -> Plan:
    """One verdict for every job, in Slurm's order, and what they leave free.

    Args:
        waiting: jobs that wait for their turn, all that want devices: also those of others.
        running: jobs that hold devices of nodes that take jobs.
        nodes: the cluster.
        rules: the site's.
        now: seconds since 1970, as all times here.
        most: moves that are left in this minute; None: the rules' own number.
        closed: nodes that are kept for others (reservations).
    """
    left = rules.moves_per_minute if most is None else most
    open_nodes = [node for node in nodes if node.usable and node.name not in closed]
    supply = Supply(now, open_nodes, running)
    cycle = _Cycle(rules, now, Room(open_nodes), supply)
    verdicts = []
    for job in sorted(waiting, key=lambda j: (-j.priority, j.since, len(j.job_id), j.job_id)):
        verdict = cycle.judge(job, may_move=left > 0)
        left -= verdict.to is not None
        cycle.commit(verdict)
        verdicts.append(verdict)
    return Plan(verdicts, supply.left(), supply.left_together())


class _Cycle:
    """One look at the queue: what is left for the next job."""

    def __init__(self, rules: Rebind, now: float, room: Room, supply: Supply) -> None:
        self._rules = rules
        self._now = now
        self._room = room
        self._supply = supply
        self._slowest: dict[int, float] = {}

    def judge(self, job: Waiting, *, may_move: bool) -> Verdict:
        """What becomes of a job, given those before it."""
        own = next((o for o in job.options if o.gres == job.gres), None)
        here = self._here(job, own)
        if job.fixed:
            return Verdict(job, job.fixed, here)
        others = [o for o in job.options if o.gres != job.gres and not o.out]
        if not others:
            return Verdict(job, "no other device type may serve it", here)
        if here.start <= self._now:
            return Verdict(job, "it can start where it is", here)
        lost = own is None or bool(own.out)
        if not lost and self._starts_soon(job):
            return Verdict(job, "it is about to start", here)
        there, to = min(
            ((self._outlook(job, option), option) for option in others),
            key=lambda pair: pair[0].end,
        )
        there = self._whole(job, to, there)
        why_not = self._why_not(job, here, there, lost=lost)
        if not why_not and not may_move:
            why_not = "the moves of this minute are used up"
        if why_not:
            return Verdict(job, why_not, here, there)
        return Verdict(job, self._why(here, there, own, lost=lost), here, there, to)

    def _starts_soon(self, job: Waiting) -> bool:
        """By Slurm's own plan; one that has just passed still holds."""
        near = self._rules.near_start
        return job.planned is not None and -near <= job.planned - self._now <= near

    def commit(self, verdict: Verdict) -> None:
        """Give the devices of the verdict to its job."""
        job = verdict.job
        option = verdict.to or next((o for o in job.options if o.gres == job.gres), None)
        if option is None:
            self._supply.take(job.gres, job.devices, job.nodes, job.run, job.tasks)
            return
        if option.out:
            return
        line, count = self._supply.line(option.gres), option.devices * job.nodes
        outlook = verdict.there if verdict.to else verdict.here
        starts = outlook is not None and outlook.start <= self._now
        together = line.start(count) <= self._now
        if starts:
            for _ in range(min(job.tasks, max(1, line.free_now() // count))):
                if not self._room.take(option, job.nodes):
                    break
        if starts and not together:
            self._supply.take_now(option.gres, option.devices, job.nodes, job.limit)
        else:
            run = self._run(job, option)
            self._supply.take(option.gres, option.devices, job.nodes, run, job.tasks)

    def _here(self, job: Waiting, own: Option | None) -> Outlook:
        """Where it is: Slurm's own plan counts too, if it is the better one."""
        if own is None:
            if job.options or not job.fixed:
                return Outlook(NEVER, NEVER)
            start = self._supply.start(job.gres, job.devices, job.nodes)
            return Outlook(start, start + job.run)
        if own.out:
            return Outlook(NEVER, NEVER)
        found = self._whole(job, own, self._outlook(job, own))
        planned = job.planned
        if planned is None or not self._now < planned < found.start:
            return found
        run = self._run(job, own) if found.end == NEVER else found.end - found.start
        return Outlook(planned, planned + run)

    def _outlook(self, job: Waiting, option: Option) -> Outlook:
        """With a type that is in service."""
        line, count = self._supply.line(option.gres), option.devices * job.nodes
        run = self._run(job, option)
        start = self._supply.start(option.gres, option.devices, job.nodes)
        here_now = start <= self._now or line.fits_before(count, job.limit)
        if here_now and self._room.has(option, job.nodes):
            start = self._now
        elif start <= self._now:
            start = line.next_end()  # free, but not together, or without CPUs beside them
        if job.tasks == 1:
            return Outlook(start, start + run)
        return Outlook(start, start + run * line.waves(count, job.tasks))

    def _whole(self, job: Waiting, option: Option, outlook: Outlook) -> Outlook:
        """Of an array, the end of its last task counts: tried out, since a guess only ranks."""
        if job.tasks == 1 or outlook.start == NEVER:
            return outlook
        run = self._run(job, option)
        end = self._supply.last_end(option.gres, option.devices, job.nodes, run, job.tasks)
        return Outlook(outlook.start, max(end, outlook.start + run))

    def _why_not(self, job: Waiting, here: Outlook, there: Outlook, *, lost: bool) -> str:
        """Why the job does not move to its best other type; "" if it does."""
        rules, now = self._rules, self._now
        if there.start == NEVER:
            return "no other type has devices enough in service"
        if lost:
            return ""
        if job.moved is not None and now - job.moved < rules.settle:
            return "it has just moved"
        if job.moves >= rules.max_moves:
            return f"it has moved {job.moves} times"
        if there.start >= here.start:
            return "no other type would start it earlier"
        if there.start > now and here.start - there.start < self._least(here.start):
            return "no other type would start it markedly earlier"
        if here.end - there.end < self._least(here.end):
            return "it would not end markedly earlier elsewhere"
        return ""

    def _least(self, time: float) -> float:
        """Seconds that must be gained of the time until ``time``."""
        if time == NEVER:
            return 0.0
        return max(self._rules.gain_seconds, self._rules.gain * (time - self._now))

    def _why(self, here: Outlook, there: Outlook, own: Option | None, *, lost: bool) -> str:
        when = "now" if there.start <= self._now else f"in {_minutes(there.start - self._now)}"
        if lost:
            out = own.out if own else "no node of its type can serve it any more"
            return f"starts {when}; its own devices are out of service: {out}"
        if here.end == NEVER:
            return f"starts {when}, where it is never"
        return f"starts {when}, ends {_minutes(here.end - there.end)} earlier"

    def _run(self, job: Waiting, option: Option) -> float:
        """Seconds on that type: the time limit does for the slowest, faster ones need less."""
        slowest = self._slowest.get(id(job.options))
        if slowest is None:
            slowest = min(o.speed for o in job.options)
            self._slowest[id(job.options)] = slowest
        return job.run * slowest / option.speed


def _minutes(seconds: float) -> str:
    """``"40 min"``, ``"3.5 h"``, ``"6 days"``."""
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.0f} days"
