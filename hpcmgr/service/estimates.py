"""What was expected of waiting jobs, kept until they start: then the error is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hpcmgr.service.waiting import Bound, record_of
from hpcmgr.slurm.queue import QueuedJob
from hpcmgr.submit.expect import NEVER
from hpcmgr.submit.rebind import Verdict


@dataclass(frozen=True, slots=True)
class Estimate:
    """Made ``at`` that time: the job starts at ``start`` on ``gres`` (seconds since 1970)."""

    at: float
    start: float
    gres: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """A job that has started, and what was expected of it when it was first seen in the queue and
    last."""

    job: QueuedJob
    trace: str
    started: float
    first: Estimate
    last: Estimate

    def as_dict(self) -> dict[str, object]:
        """For the journal; errors in seconds, above zero where it started later than expected."""
        return {
            "started": self.started,
            "gres": self.last.gres,
            "first": {"at": self.first.at, "start": self.first.start,
                      "error_s": round(self.started - self.first.start)},
            "last": {"at": self.last.at, "start": self.last.start,
                     "error_s": round(self.started - self.last.start)},
        }  # fmt: skip


class Estimates:
    """By trace: an array is one job here, its first task counts."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Estimate, Estimate]] = {}

    def expect(self, verdicts: Iterable[Verdict], bound: dict[str, Bound], now: float) -> None:
        """Take down what a cycle expects."""
        for verdict in verdicts:
            of = bound.get(verdict.job.job_id)
            outlook = verdict.there if verdict.to else verdict.here
            if of is None or outlook is None or outlook.start == NEVER:
                continue
            trace = str(of.record.get("trace", ""))
            gres = verdict.to.gres if verdict.to else verdict.job.gres
            new = Estimate(now, outlook.start, gres)
            self._open[trace] = (self._open.get(trace, (new, new))[0], new)

    def settle(self, jobs: Iterable[QueuedJob]) -> Iterator[Outcome]:
        """Jobs that have started since; what is no more in the queue is forgotten."""
        here: set[str] = set()
        for job in jobs:
            trace = str((record_of(job.admin_comment) or {}).get("trace", ""))
            here.add(trace)
            if (job.holds or job.ran) and job.start and trace in self._open:
                first, last = self._open.pop(trace)
                yield Outcome(job, trace, job.start, first, last)
        for trace in self._open.keys() - here:
            del self._open[trace]
