"""From a request line to its answer, from memory alone: slurmctld waits for it."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable

from hpcmgr.admit import Decision, Policy, decide
from hpcmgr.errors import WireError
from hpcmgr.service.snapshot import Snapshot, devices_of
from hpcmgr.service.wire import (
    Submission,
    answer_of,
    decode,
    error_answer,
    hold_answer,
)
from hpcmgr.submit.request import JobFields

log = logging.getLogger(__name__)

Note = Callable[[int, Decision], None]
"""Told of every decision that changes a job or refuses it, with the submitter's uid."""

_MOST_RECENT = 16


class Answers:
    """Decides by the current view, and debits what it hands out."""

    def __init__(self, policy: Policy, snapshot: Snapshot, note: Note) -> None:
        self._policy = policy
        self._snapshot = snapshot
        self._note = note
        self._recent: OrderedDict[object, JobFields] = OrderedDict()

    def answer(self, line: bytes) -> dict[str, object]:
        """The answer to a line, whatever it is."""
        try:
            submission = decode(line)
        except WireError as error:
            log.warning("bad line: %s", error.message)
            return error_answer(error)
        try:
            return self._decide(submission)
        except Exception:
            # A fault of ours must not lose the job: the shim holds it, the log tells us.
            log.exception("decision failed")
            return hold_answer("the service failed")

    def _decide(self, submission: Submission) -> dict[str, object]:
        current = self._snapshot.current()
        if current is None:
            return hold_answer("no recent picture of the cluster")
        view, granted = current
        decision = decide(submission.fields, self._policy, view, granted)
        neutral = decision.request not in {"", "direct"}
        lacking = view.lacks(submission.fields) if neutral else ""
        if lacking:
            return hold_answer(f"{lacking} is not in the picture yet")
        if decision.rewrite and decision.ranked:
            self._snapshot.grant(devices_of(decision, submission.fields))
            self._remember(submission.fields)
        if decision.rewrite or decision.error:
            self._note(submission.uid, decision)
        return answer_of(decision)

    def _remember(self, fields: JobFields) -> None:
        self._recent[fields.form] = fields
        self._recent.move_to_end(fields.form)
        if len(self._recent) > _MOST_RECENT:
            self._recent.popitem(last=False)

    def prepare(self) -> bool:
        """For somebody who has nothing to do: work out one form of request that was asked for
        lately and that the view does not know yet, so that the next of it is answered sooner.
        False: there is none."""
        current = self._snapshot.current()
        if current is None:
            return False
        view, granted = current
        for form, fields in self._recent.items():
            if form not in view.memo:
                decide(fields, self._policy, view, granted, "")
                if form not in view.memo:
                    del self._recent[form]
                return True
        return False
