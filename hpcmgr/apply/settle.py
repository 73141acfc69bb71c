"""After a reconfigure: has every node read its files, and has it what it should have?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from hpcmgr.apply.live import LiveCluster, LiveNode, Runner, read_live
from hpcmgr.errors import CommandError
from hpcmgr.slurm.command import run

PAUSE_S = 0.3
NEW_NODE_S = 20.0
"""So long for nodes that did not answer before, or were not there: they may never."""

_LEFT_OUT = "slurmctld leaves it out: its name or NodeAddr cannot be resolved"


class State(StrEnum):
    """How a node came out of it."""

    GOOD = "good"
    BAD = "bad"
    AWAY = "away"
    """It did not answer before either: nobody can tell."""


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """What became of one node. ``refused``: slurmctld found it invalid."""

    node: str
    state: State
    text: str
    refused: bool = False
    final: bool = False
    """Waiting would not better it."""


def settle(
    before: LiveCluster,
    expected: Mapping[str, Mapping[str, int]],
    limit: float,
    runner: Runner = run,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, NodeOutcome]:
    """Wait until every node has come back as it should, at most ``limit`` seconds.

    Args:
        before: the cluster as it was before the reconfigure.
        expected: the counts that each node should register.
        limit: in seconds.
        runner: runs Slurm's programs.
        clock: monotonic seconds.
        sleep: waits some seconds.
    """
    start = clock()
    while True:
        now = _ask(runner)
        outcomes = {
            name: _judge(name, before.nodes.get(name), now, counts)
            for name, counts in expected.items()
        }
        open_ = [name for name, outcome in outcomes.items() if not outcome.final]
        elapsed = clock() - start
        old = [n for n in open_ if n in before.nodes and not before.nodes[n].away]
        if not open_ or elapsed >= limit or (not old and elapsed >= min(limit, NEW_NODE_S)):
            return outcomes
        sleep(PAUSE_S)


def _ask(runner: Runner) -> LiveCluster | str:
    try:
        return read_live(runner)
    except CommandError as problem:
        return f"slurmctld does not answer: {problem.message}"


def _judge(
    name: str, was: LiveNode | None, now: LiveCluster | str, counts: Mapping[str, int]
) -> NodeOutcome:
    if isinstance(now, str):
        return NodeOutcome(name, State.BAD, now)
    node = now.nodes.get(name)
    if was is None:
        return _judge_new(name, node, counts)
    if node is None:
        return NodeOutcome(name, State.BAD, _LEFT_OUT)
    new_start = node.started is not None and node.started != was.started
    outcome = _judge_known(name, node, counts, new_start=new_start)
    if outcome.state is State.BAD and was.away:
        text = f"was {was.state} before: restart its slurmd when it is back"
        return NodeOutcome(name, State.AWAY, text, final=was.down)
    if outcome.state is State.BAD and was.invalid:
        return replace(outcome, state=State.AWAY, text=f"{outcome.text} (as before)")
    return outcome


def _judge_new(name: str, node: LiveNode | None, counts: Mapping[str, int]) -> NodeOutcome:
    if node is None:
        return NodeOutcome(name, State.AWAY, _LEFT_OUT)
    if node.started is None or node.away:
        text = "new; its slurmd has not registered yet: start it"
        return NodeOutcome(name, State.AWAY, text)
    return _judge_known(name, node, counts, new_start=True)


def _judge_known(
    name: str, node: LiveNode, counts: Mapping[str, int], *, new_start: bool
) -> NodeOutcome:
    if node.invalid:
        # A slurmd that still has its old files may be refused and come back: wait for that.
        why = node.reason or "what it reports does not fit its line"
        text = f"refused by slurmctld: {why}"
        return NodeOutcome(name, State.BAD, text, refused=True, final=new_start)
    if not new_start and node.away:
        text = (
            "does not answer: its slurmd has ended, unnoticed before this or over the new files: "
            "see its log; if it was not the files, 'hpcmgr apply' again goes on without it"
        )
        return NodeOutcome(name, State.BAD, text)
    if not new_start:
        text = "its slurmd has not read the new files; it may have refused them: see its log"
        return NodeOutcome(name, State.BAD, text)
    if node.away:
        return NodeOutcome(name, State.BAD, f"is {node.state}")
    wrong = [
        f"{k} {node.gres.get(k, 0)} != {n}" for k, n in counts.items() if node.gres.get(k) != n
    ]
    if wrong:
        return NodeOutcome(name, State.BAD, f"has other counts: {', '.join(wrong)}")
    return NodeOutcome(name, State.GOOD, "came back with the counts it should have", final=True)
