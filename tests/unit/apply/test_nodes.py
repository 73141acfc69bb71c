"""What slurmctld says is read right, what came back judged right, only own drains resumed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from hpcmgr.apply import Job, LiveCluster, LiveNode
from hpcmgr.apply.hold import may_drain, resume, still_ours
from hpcmgr.apply.live import parse_jobs, parse_live
from hpcmgr.apply.settle import State, settle
from hpcmgr.errors import CommandError
from hpcmgr.slurm.command import Output

COUNTS = {"gpu:t4": 4}


def record(state: str, gres: str, started: str, reason: str = "") -> str:
    end = f"Reason={reason} [slurm@2026-01-01T00:00:01]" if reason else ""
    return (
        f"NodeName=n1 Arch=x86_64 Gres={gres} GresUsed=gpu:t4:1(IDX:2) State={state} "
        f"SlurmdStartTime={started} {end}\n"
    )


def test_a_record_is_read_with_reason_and_start() -> None:
    """The name of who set the reason is no part of it."""
    [node] = parse_live(record("IDLE+DRAIN", "gpu:t4:4(S:0-1),compute:8", "T1", "fan is loud"))

    assert (node.state, node.reason, node.started) == ("IDLE+DRAIN", "fan is loud", "T1")
    assert node.gres == {"gpu:t4": 4, "compute": 8}
    assert node.holds_devices
    assert node.drained
    assert not node.away


@pytest.mark.parametrize(
    ("state", "away", "invalid"),
    [
        ("IDLE", False, False),
        ("IDLE*", True, False),
        ("MIXED*+DRAIN", True, False),
        ("DOWN", True, False),
        ("DOWN*+DRAIN", True, False),
        ("UNKNOWN", True, False),
        ("IDLE+DRAIN+INVALID_REG", False, True),
        ("IDLE+CLOUD+POWERED_DOWN", True, False),
    ],
)
def test_states(state: str, away: bool, invalid: bool) -> None:
    """As scontrol writes them."""
    node = LiveNode("n1", state)
    assert (node.away, node.invalid) == (away, invalid)


def test_jobs_with_their_nodes() -> None:
    """Hostlists are unfolded, arrays and broken lines are no trouble."""
    text = "7|R|alice|t[401-402],mix01\n8_3|CG|bob|t401\nnonsense\n"

    jobs = list(parse_jobs(text))

    assert jobs[1] == Job("8_3", "CG", "bob", ("t401",))
    assert set(jobs[0].nodes) == {"t401", "t402", "mix01"}


class Script:
    """Answers of scontrol, one a look; the last one stays."""

    def __init__(self, *records: str) -> None:
        self._records: Iterator[str] = iter(records)
        self._last = ""
        self.looks = 0

    def __call__(self, *argv: str, **_: object) -> Output:
        if argv[0] == "squeue":
            return Output(0, "", "")
        self.looks += 1
        self._last = next(self._records, self._last)
        return Output(0, self._last, "")


def judge(was: LiveNode | None, *records: str, limit: float = 5.0) -> tuple[State, str, float]:
    time = [0.0]

    def sleep(seconds: float) -> None:
        time[0] += seconds

    before = LiveCluster({was.name: was} if was else {})
    outcome = settle(before, {"n1": COUNTS}, limit, Script(*records), lambda: time[0], sleep)["n1"]
    return outcome.state, outcome.text, time[0]


GOOD = LiveNode("n1", "IDLE", gres=COUNTS, started="T1")


@pytest.mark.parametrize(
    ("records", "state", "part"),
    [
        ([record("IDLE", "gpu:t4:4", "T2")], State.GOOD, "came back"),
        ([record("IDLE", "gpu:t4:4", "T1"), record("IDLE", "gpu:t4:4", "T2")], State.GOOD, ""),
        ([record("IDLE", "gpu:t4:4", "T1")], State.BAD, "has not read the new files"),
        ([record("UNKNOWN+NOT_RESPONDING", "gpu:t4:4", "None")], State.BAD, "does not answer"),
        ([record("IDLE", "gpu:t4:4", "None")], State.BAD, "has not read the new files"),
        ([record("DOWN*", "gpu:t4:4", "T2")], State.BAD, "is DOWN*"),
        ([record("IDLE", "gpu:t4:3", "T2")], State.BAD, "gpu:t4 3 != 4"),
        ([""], State.BAD, "cannot be resolved"),
        (
            [record("IDLE+DRAIN+INVALID_REG", "gpu:t4:4", "T1", "gres/gpu count too low"),
             record("IDLE+DRAIN", "gpu:t4:4", "T2", "gres/gpu count too low")],
            State.GOOD,
            "",
        ),
        (
            [record("IDLE+INVALID_REG", "gpu:t4:3", "T2", "gres/gpu count too low")],
            State.BAD,
            "refused by slurmctld: gres/gpu count too low",
        ),
    ],
)  # fmt: skip
def test_a_node_is_good_only_when_a_new_slurmd_has_the_counts(
    records: list[str], state: State, part: str
) -> None:
    """An old slurmd that goes on after it refused the files is no success."""
    seen, text, _ = judge(GOOD, *records)

    assert seen is state
    assert part in text


def test_a_node_that_was_away_before_is_no_failure() -> None:
    """It is told, and nobody waits for a node that is down."""
    state, text, waited = judge(LiveNode("n1", "DOWN*"), record("DOWN*", "gpu:t4:4", "None"))

    assert state is State.AWAY
    assert "restart its slurmd" in text
    assert waited == 0


def test_a_new_node_without_slurmd_is_waited_for_a_moment_only() -> None:
    """It may be set up later."""
    state, text, waited = judge(None, record("UNKNOWN", "gpu:t4:4", "None"), limit=500)

    assert state is State.AWAY
    assert "has not registered yet" in text
    assert 19 < waited < 25


@pytest.mark.parametrize(
    ("state", "allowed"),
    [("IDLE", True), ("MIXED", True), ("IDLE*", True), ("IDLE+DRAIN", False), ("DOWN", False),
     ("DOWN*+DRAIN", False), ("IDLE+INVALID_REG", False)],
)  # fmt: skip
def test_which_nodes_may_be_drained(state: str, allowed: bool) -> None:
    """Never one that somebody drained: it would be resumed afterwards; nor one that is down."""
    assert may_drain(LiveNode("n1", state)) is allowed


@pytest.mark.parametrize(
    ("state", "reason", "held", "resumed"),
    [
        ("IDLE+DRAIN", "hpcmgr apply 1", True, True),
        ("IDLE+DRAIN", "hpcmgr apply 1", False, False),
        ("IDLE+DRAIN", "fan is loud", True, False),
        ("IDLE", "", True, False),
        ("IDLE+DRAIN", "", True, True),
        ("IDLE+DRAIN", "", False, False),
        ("IDLE+DRAIN", "gres/gpu count reported lower than configured (3 < 4)", True, True),
        ("IDLE+DRAIN", "Low RealMemory (reported:1 < 100.00% of configured:2)", False, True),
        ("IDLE+DRAIN", "Kill task failed", True, False),
        ("IDLE+DRAIN", "Prolog error", False, False),
    ],
)
def test_only_own_drains_are_resumed(state: str, reason: str, held: bool, resumed: bool) -> None:
    """And those that slurmctld set for a registration that our files caused."""
    live = LiveCluster({"n1": LiveNode("n1", state, reason)})
    before = LiveCluster({"n1": LiveNode("n1", "IDLE")})
    names = still_ours(["n1"] if held else [], "hpcmgr apply 1", live, before)

    assert names == (["n1"] if resumed else [])


def test_what_was_drained_before_stays_drained() -> None:
    """Even with a complaint of slurmctld's."""
    node = LiveNode("n1", "IDLE+DRAIN", "gres/gpu count too low")
    live = LiveCluster({"n1": node})

    assert still_ours([], "hpcmgr apply 1", live, live) == []


def test_a_refused_node_with_an_old_reason_is_resumed() -> None:
    """slurmctld drains it and leaves the reason that was there; without a refusal it is another's
    drain."""
    before = LiveCluster({"n1": LiveNode("n1", "IDLE", "long ago")})
    live = LiveCluster({"n1": LiveNode("n1", "IDLE+DRAIN", "long ago")})

    assert still_ours([], "hpcmgr apply 1", live, before, ["n1"]) == ["n1"]
    assert still_ours([], "hpcmgr apply 1", live, before) == []


@pytest.mark.parametrize(
    ("state", "resumed"), [("UNKNOWN+NOT_RESPONDING", True), ("IDLE+DRAIN", False)]
)
def test_a_resume_that_is_called_invalid_counts_by_what_it_did(state: str, resumed: bool) -> None:
    """24.11 takes the drain of a node away that has not registered, and says it does not."""

    def runner(*argv: str, **_: object) -> Output:
        if "State=RESUME" in argv:
            raise CommandError(argv, 1, "slurm_update error: Invalid node state specified")
        return Output(0, record(state, "gpu:t4:4", "None") if argv[0] == "scontrol" else "", "")

    with contextlib.nullcontext() if resumed else pytest.raises(CommandError):
        resume(["n1"], runner)
