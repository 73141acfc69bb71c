"""Captured outputs against what a careful reader finds in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmgr.discovery import CommandResult, DeviceNode, discover
from hpcmgr.inventory import NodeInventory
from tests.expectations import Expectation, Outcome, compare, load, table
from tests.unit.discovery.conftest import LIBRARY

EXPECTATIONS = list(load())


class Bare:
    """A machine of which nothing is known but what some tools answer."""

    live = False
    hostname = "bare"

    def __init__(self, answers: dict[tuple[str, ...], str]) -> None:
        self._answers = answers

    def run(self, argv: object, timeout: float) -> CommandResult:
        text = self._answers.get(tuple(argv))  # type: ignore[arg-type]
        return CommandResult("absent") if text is None else CommandResult("done", 0, text)

    def read_text(self, path: str) -> str | None:
        return None

    def listdir(self, path: str) -> tuple[str, ...]:
        return ()

    def readlink(self, path: str) -> str | None:
        return None

    def exists(self, path: str) -> bool:
        return False

    def device_nodes(self) -> tuple[DeviceNode, ...] | None:
        return None


def inventory_of(answers: dict[tuple[str, ...], str]) -> NodeInventory:
    """What hpcmgr makes of them."""
    return discover(Bare(answers), LIBRARY)


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=lambda one: one.capture)
def test_a_capture_is_read_as_a_careful_reader_does(expectation: Expectation, corpus: Path) -> None:
    """Every field that the capture tells is found, and none that it does not."""
    assert compare(expectation, corpus, inventory_of).wrong == []


def test_no_capture_is_forgotten(corpus: Path) -> None:
    """Each capture has its file, and each file its capture."""
    expected = {one.capture for one in EXPECTATIONS}
    captured = {
        path.relative_to(corpus).as_posix() for path in corpus.glob("*/**/*") if path.is_file()
    }

    assert expected == captured


def test_the_table_of_all_captures(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is printed with -s: capture, devices, fields right, wrong, unknown."""
    outcomes = [compare(one, corpus, inventory_of) for one in EXPECTATIONS]
    with capsys.disabled():
        print(f"\n{table(outcomes)}")  # noqa: T201

    assert sum(outcome.right for outcome in outcomes) > 0


def test_a_wrong_field_is_seen() -> None:
    """The comparison can fail: what is not told but found is as wrong as the other way round."""
    outcome = Outcome("x")
    outcome.compare("a", None, 1)
    outcome.compare("b", 1, None)
    outcome.compare("c", 1, 2)
    outcome.compare("d", None, None)

    assert (len(outcome.wrong), outcome.right, outcome.unknown) == (3, 0, 1)
