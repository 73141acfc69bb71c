"""One apply from hold to check, and back where it fails."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from hpcmgr.apply.force import not_in_force
from hpcmgr.apply.hold import drain, may_drain, resume, still_ours
from hpcmgr.apply.layout import expected_gres
from hpcmgr.apply.live import LiveCluster, Runner, read_live
from hpcmgr.apply.memory import recall, remember
from hpcmgr.apply.plan import Change, Waiting, plan_change
from hpcmgr.apply.settle import NodeOutcome, State, settle
from hpcmgr.apply.shim import SCRIPT
from hpcmgr.apply.workplace import HOLDING, Marker, Workplace
from hpcmgr.errors import ApplyError, CommandError
from hpcmgr.settings import Apply
from hpcmgr.slurm.capability import Release
from hpcmgr.slurm.command import run
from hpcmgr.verify.configuration import read_configuration

RESTART_HINT = (
    "slurmctld does not run: look at the end of its log, start it (systemctl start slurmctld) and "
    "run 'hpcmgr apply' again"
)
_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Result:
    """``done``: the files are in force; else ``why`` says why they were taken back. ``touched``:
    nodes of which something changed."""

    done: bool
    outcomes: Mapping[str, NodeOutcome] = field(default_factory=dict)
    waiting: tuple[Waiting, ...] = ()
    touched: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    backup: str = ""
    why: str = ""
    hint: str = ""

    @property
    def exit_code(self) -> int:
        """1 taken back, 4 some nodes wait or could not be checked, else 0."""
        if not self.done:
            return 1
        away = any(outcome.state is State.AWAY for outcome in self.outcomes.values())
        return 4 if away or self.waiting else 0


@dataclass
class Applier:
    """What all steps need. ``prove`` raises ApplyError for files that must not be written;
    ``tell`` says to a person what happens."""

    place: Workplace
    wanted: Mapping[str, str]
    release: Release
    limits: Apply
    prove: Callable[[Mapping[str, str]], None]
    tell: Callable[[str], None]
    runner: Runner = run

    # --- before ---

    def plan(self, live: LiveCluster | None) -> Change:
        """What there is to do."""
        return plan_change(self.place, self.wanted, live, self.release)

    def live(self) -> LiveCluster:
        """Nodes and jobs now.

        Raises:
            ApplyError: slurmctld does not answer.
        """
        try:
            return read_live(self.runner)
        except CommandError as problem:
            raise ApplyError(
                f"slurmctld does not answer ({problem.message}); without it nobody knows which "
                "nodes have jobs, so nothing is changed",
                "start it; for a first configuration use 'hpcmgr render --out DIR'",
            ) from problem

    def stale(self, live: LiveCluster) -> dict[str, str]:
        """Nodes that do not run with the files that lie there.

        Raises:
            ApplyError: one of them has jobs on its devices.
        """
        stale = self._not_in_force(live)
        busy = {name: why for name, why in stale.items() if live.devices_in_use(name)}
        if busy:
            raise ApplyError(
                "\n".join(
                    f"{name} has jobs on its devices and does not run with the files of "
                    f"{self.place.conf_dir}: {why}"
                    for name, why in sorted(busy.items())
                ),
                "a reconfigure could move its devices under these jobs: put the files back as "
                "they were, or wait for the jobs",
            )
        return stale

    def remember(self, live: LiveCluster | None = None) -> None:
        """Write down what nodes run with; only helps a later apply, so it may fail."""
        with contextlib.suppress(OSError, CommandError, ApplyError):
            live = live or read_live(self.runner)
            current = read_configuration(self.place.conf_dir, self.release)
            remember(self.place.folder, current, live, self._not_in_force(live))

    # --- a killed apply ---

    def recover(self) -> str:
        """Finish, or take back, what a killed apply has begun; returns what was done.

        Raises:
            ApplyError: neither is safe.
        """
        marker = self.place.read_marker()
        if marker is None:
            return ""
        live = self.live()
        read = marker.phase != HOLDING and _was_read(marker, live)
        if read and self.place.in_place(marker):
            return self._finish(marker, live)
        before = with_starts(live, marker.started)
        if read:
            self._insist_free(marker, live)
            _, hint = self._take_back(marker, before)
            if hint:
                raise ApplyError(f"apply {marker.id} was killed half way", hint)
        else:
            self.place.put_back(marker)
            if self._release(marker):
                self.place.clear_marker()
        files = f"; its files ({', '.join(marker.changed)}) are back" if marker.changed else ""
        return f"apply {marker.id} was killed before its files were in force{files}"

    def _finish(self, marker: Marker, live: LiveCluster) -> str:
        before = with_starts(live, marker.started)
        outcomes = settle(before, self._expected(), self.limits.node_limit, self.runner)
        bad = [outcome for outcome in outcomes.values() if outcome.state is State.BAD]
        if not bad:
            texts = {name: self.place.read(name) or "" for name in marker.changed}
            self.place.note_installed(texts)
            if self._release(marker, before):
                self.place.clear_marker()
            return f"apply {marker.id} was killed while nodes came back; it is finished now"
        self._insist_free(marker, self.live())
        self._take_back(marker, before, outcomes)
        return f"apply {marker.id} was killed and did no good: {bad[0].node} {bad[0].text}; undone"

    def _insist_free(self, marker: Marker, live: LiveCluster) -> None:
        """Taking back moves the same devices again: only where no job has come meanwhile."""
        busy = [name for name in marker.moved if live.devices_in_use(name) or live.jobs_on(name)]
        if busy:
            raise ApplyError(
                f"apply {marker.id} ended half way, and jobs run on {', '.join(busy)} already",
                f"the files before it are in {self.place.backup_path(marker)}; drain these nodes, "
                "wait for their jobs and run 'hpcmgr apply' again",
            )

    # --- the change itself ---

    def apply(self, change: Change, *, drain_first: bool) -> Result:
        """Hold, check again, write, reconfigure, check; take everything back where that fails.

        Raises:
            ApplyError: it could not be begun; everything is as it was.
        """
        identity = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        marker = Marker(id=identity, phase=HOLDING)
        try:
            if drain_first and change.waiting:
                marker = self._drain_first(marker, change)
                change = self.plan(self.live())
            marker, change, live = self._hold(marker, change)
            if not change.files and not self._stale_nodes(live):
                return Result(done=True, waiting=change.waiting)
            return self._write(marker, change, live)
        except OSError as problem:
            raise ApplyError(
                f"{problem.filename or self.place.folder}: {problem.strerror or problem}; "
                "everything is as it was",
                "make room or give permission, then run 'hpcmgr apply' again",
            ) from problem
        finally:
            self._give_back()

    def _give_back(self) -> None:
        """On every way out but one that left files half in force: nodes that are still held."""
        marker = self.place.read_marker()
        if marker is not None and marker.phase == HOLDING:
            self.place.drop(marker)
            if self._release(marker):
                self.place.clear_marker()

    def _drain_first(self, marker: Marker, change: Change) -> Marker:
        names = [waiting.node for waiting in change.waiting]
        marker = self._drain(marker, names, self.live())
        end = time.monotonic() + self.limits.drain_limit
        told: tuple[str, ...] = ()
        while True:
            live = self.live()
            busy = tuple(n for n in names if live.devices_in_use(n) or live.jobs_on(n))
            if not busy:
                return marker
            if busy != told:
                self.tell(f"drained, waiting for jobs on {', '.join(busy)}")
                told = busy
            if time.monotonic() >= end:
                self.tell(f"waited {self.limits.drain_limit:g} s, going on without them")
                return self._release_some(marker, busy, live)
            time.sleep(_POLL_S)

    def _hold(self, marker: Marker, change: Change) -> tuple[Marker, Change, LiveCluster]:
        """Keep new jobs from the nodes that move, then look again: what became busy waits."""
        while True:
            live = self.live()
            moving = {*change.moved, *self._stale_nodes(live)}
            marker = self._drain(marker, sorted(moving - {*marker.held}), live)
            live = self.live()
            self.stale(live)
            change = self.plan(live)
            late = {*marker.held} - {*change.moved, *self._stale_nodes(live)}
            marker = self._release_some(marker, sorted(late), live)
            unheld = {
                name
                for name in {*change.moved} - {*marker.held}
                if name in live.nodes and may_drain(live.nodes[name])
            }
            if not unheld:
                return marker, change, live

    def _stale_nodes(self, live: LiveCluster) -> set[str]:
        return set(self._not_in_force(live))

    def _not_in_force(self, live: LiveCluster) -> dict[str, str]:
        memory = recall(self.place.folder)
        return not_in_force(self.place.conf_dir, live, self.place.installed(), self.release, memory)

    def _drain(self, marker: Marker, names: Iterable[str], live: LiveCluster) -> Marker:
        mine = [n for n in names if n in live.nodes and may_drain(live.nodes[n])]
        marker = replace(marker, held=tuple(sorted({*marker.held, *mine})))
        # Said before it is done: a killed apply leaves no node drained for ever.
        self.place.write_marker(marker)
        drain(mine, marker.reason, self.runner)
        return marker

    def _release_some(self, marker: Marker, names: Iterable[str], live: LiveCluster) -> Marker:
        mine = sorted({*names} & {*marker.held})
        resume(still_ours(mine, marker.reason, live), self.runner)
        marker = replace(marker, held=tuple(n for n in marker.held if n not in mine))
        self.place.write_marker(marker)
        return marker

    def _release(
        self,
        marker: Marker,
        before: LiveCluster | None = None,
        outcomes: Mapping[str, NodeOutcome] | None = None,
    ) -> bool:
        """Resume what is held; says so where that is not possible now."""
        try:
            live = read_live(self.runner)
            refused = [name for name, outcome in (outcomes or {}).items() if outcome.refused]
            ours = still_ours(marker.held, marker.reason, live, before, refused)
            resume(ours, self.runner)
        except CommandError as problem:
            self.tell(
                f"{', '.join(marker.held) or 'nodes'} could not be resumed ({problem.message}); "
                "the next 'hpcmgr apply' does it"
            )
            return False
        return True

    def _write(self, marker: Marker, change: Change, live: LiveCluster) -> Result:
        self.prove(change.texts)
        marker = replace(
            marker,
            moved=change.moved,
            started={name: node.started for name, node in live.nodes.items()},
        )
        staged = self.place.stage(marker, change.texts)
        try:
            self.place.write_marker(staged)
            self.place.put_in_place(staged)
            outcomes, why = self._bring_into_force(change, live)
            if not why:
                self._touch(change.texts)
                self.place.note_installed(change.texts)
        except BaseException:
            # Also for Ctrl-C: what was written must not wait for the next restart of a daemon.
            self._take_back(staged, live)
            raise
        backup = str(self.place.backup_path(staged))
        if why:
            after, hint = self._take_back(staged, live, outcomes)
            return Result(False, after, change.waiting, change.touched, (), backup, why, hint)
        # From here on jobs may start: nothing is taken back any more.
        if change.needs_reconfigure:
            # Before nodes are resumed: they then count as not responding for a moment.
            self.remember()
        if self._release(staged, live):
            self.place.clear_marker()
        self.place.prune(self.limits.backups)
        return Result(True, outcomes, change.waiting, change.touched, tuple(change.texts), backup)

    def _bring_into_force(
        self, change: Change, live: LiveCluster
    ) -> tuple[dict[str, NodeOutcome], str]:
        """How the nodes came back, and what went wrong (or nothing)."""
        if change.files and not change.needs_reconfigure:
            return {}, ""
        now = self.live()
        busy = [n for n in change.moved if now.devices_in_use(n)]
        if busy:
            # Somebody resumed it, or it was down and came back.
            return {}, f"a job started on {', '.join(busy)} meanwhile: run 'hpcmgr apply' again"
        late = now.jobs_in(change.gone)
        if late:
            return {}, f"jobs came into partitions that go, {late}: run 'hpcmgr apply' again"
        problem = self._reconfigure(live)
        if problem:
            return {}, problem
        outcomes = settle(live, self._expected(), self.limits.node_limit, self.runner)
        bad = [o for o in outcomes.values() if o.state is State.BAD]
        return outcomes, "; ".join(f"{o.node} {o.text}" for o in bad[:3])

    # --- daemons ---

    def _reconfigure(self, live: LiveCluster) -> str:
        """``scontrol reconfigure``; returns what went wrong, or nothing."""
        starts = [node.started for node in live.nodes.values() if node.started]
        if any(_is_recent(start) for start in starts):
            # Its start is how a new slurmd is told from the old; it counts in whole seconds.
            time.sleep(1.1)
        try:
            self.runner("scontrol", "reconfigure", timeout=self.limits.node_limit)
        except CommandError as problem:
            return f"scontrol reconfigure: {problem.stderr.strip() or problem.message}"
        return ""

    def _take_back(
        self,
        marker: Marker,
        before: LiveCluster,
        outcomes: Mapping[str, NodeOutcome] | None = None,
    ) -> tuple[dict[str, NodeOutcome], str]:
        """The old files, in force; the nodes as they were. Returns how nodes are, and a hint."""
        now: LiveCluster | None
        try:
            now = read_live(self.runner)
        except CommandError:
            now = None
        if now and _was_read(marker, now):
            self._insist_free(marker, now)
        self.place.put_back(marker)
        self._touch(marker.changed)
        if now is None:
            return {}, f"{RESTART_HINT}; the files are as they were"
        problem = self._reconfigure(now)
        if problem:
            return {}, f"{RESTART_HINT}; the files are as they were ({problem})"
        starts = {name: node.started for name, node in now.nodes.items()}
        after = settle(
            with_starts(before, starts), self._expected(), self.limits.node_limit, self.runner
        )
        if self._release(marker, before, outcomes):
            self.place.clear_marker()
        return after, ""

    def _expected(self) -> dict[str, dict[str, int]]:
        return expected_gres(read_configuration(self.place.conf_dir, self.release))

    def _touch(self, names: Iterable[str]) -> None:
        """slurmctld loads its script again by the script's time (whole seconds) alone."""
        script = self.place.conf_dir / SCRIPT
        if any(name.endswith(".lua") for name in names) and script.exists():
            later = math.floor(time.time()) + 1
            os.utime(script, (later, later))


def _was_read(marker: Marker, live: LiveCluster) -> bool:
    """Whether any slurmd has started anew, or tried to, since the files were put in place."""
    return any(
        name in live.nodes and live.nodes[name].started != started
        for name, started in marker.started.items()
        if started is not None
    )


def with_starts(live: LiveCluster, started: Mapping[str, str | None]) -> LiveCluster:
    """The cluster with other times at which slurmd had started."""
    nodes = {
        name: replace(node, started=started.get(name, node.started))
        for name, node in live.nodes.items()
    }
    return replace(live, nodes=nodes)


def _is_recent(start: str) -> bool:
    try:
        then = time.mktime(time.strptime(start, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return False
    return abs(time.time() - then) < 2
