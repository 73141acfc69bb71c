"""A hundredth of the soak run: mutated answers of all tools through all sources."""

from __future__ import annotations

import random

from hpcmgr.discovery import CommandResult
from tests.outputs import OUTPUTS, output
from tests.soak_discovery import case, check, corpus_here, mutated, run, texts


def test_no_source_raises_and_no_device_is_made_up() -> None:
    """1,000 cases of seed 1; the soak command runs 100,000."""
    figures = run(1, 1000, corpus_here())

    assert figures.failures == ()
    assert figures.devices > 500


def test_a_case_can_be_repeated() -> None:
    """It depends on the seed, its number and the texts alone."""
    base = texts(None)

    assert case(7, 1, base) == case(7, 1, base)
    assert case(7, 1, base) != case(7, 2, base)


def test_true_answers_pass_the_check() -> None:
    """Each of our own outputs alone: nothing in it is called made up."""
    for name, argv in OUTPUTS.items():
        assert check({argv: CommandResult("done", 0, output(name))})[1] == []


def test_a_made_up_device_is_seen(monkeypatch: object) -> None:
    """The check itself can fail: the devices of one text are not those of another."""
    answers = {("ixsmi",): CommandResult("done", 0, output("ixsmi.txt"))}
    monkeypatch.setattr(  # type: ignore[attr-defined]
        "hpcmgr.discovery.smi_cards.read",
        lambda *_: ({0: {"name": "X1", "bus-id": "0000:7f:00.0"}}, ""),
    )

    assert len(check(answers)[1]) == 2


def test_mutations_change_the_text() -> None:
    """Most of them do."""
    text = output("cnmon.txt")

    assert sum(mutated(text, random.Random(n)) != text for n in range(100)) > 70
