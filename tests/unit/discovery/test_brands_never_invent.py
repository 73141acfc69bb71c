"""Mutated answers of AMD's, Intel's and Hygon's tools: no traceback, no device of nobody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcmgr.discovery import (
    CommandResult,
    RecordedHost,
    amd_smi_text,
    discover,
    hl_smi,
    hy_smi,
    rocm_smi_text,
    xpu_smi_text,
)
from hpcmgr.discovery.questions import HL_SMI_FIELDS
from tests.unit.discovery.conftest import LIBRARY
from tests.unit.discovery.test_amd import HYGON, TABLE, TEXT
from tests.unit.discovery.test_intel import RELEASE_2, TILES
from tests.unit.discovery.test_intel import TABLE as KEYS
from tests.unit.discovery.test_parsers_never_invent import mutated

HOSTS = Path(__file__).parents[2] / "hosts"

CASES: dict[str, tuple[str, Callable[[str], Sequence[object]]]] = {
    "amd-smi": (TEXT, lambda t: [p.gpu for p in amd_smi_text.parse(t).parts]),
    "rocm-smi": (TABLE, lambda t: list(rocm_smi_text.parse(t).cards)),
    "hy-smi": (HYGON, lambda t: hy_smi.parse(t)[0]),
    "xpu-smi": (KEYS, lambda t: [e["device_id"] for e in xpu_smi_text.parse(t).entries]),
    "xpu-smi 2": (RELEASE_2, lambda t: [e["device_id"] for e in xpu_smi_text.parse(t).entries]),
    "topology": (TILES, xpu_smi_text.gpus),
    "hl-smi": (
        (HOSTS / "gaudi8/commands/hl-smi.txt").read_text(),
        lambda t: list(hl_smi.parse_table(t).rows),
    ),
    "csv": (
        (HOSTS / "gaudi8/commands/hl-smi-q.csv").read_text(),
        lambda t: list(hl_smi.parse_csv(t)[0]),
    ),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60)
@given(data=st.data())
def test_every_number_stands_in_the_text(name: str, data: st.DataObject) -> None:
    """A parser names only what it read."""
    text, numbers = CASES[name]
    changed = data.draw(mutated(text))

    assert all(str(number).lstrip("0") in changed for number in numbers(changed))


@settings(max_examples=150)
@given(st.text(max_size=300) | st.text('[]{}":,0 \n|+-=GPUcard', max_size=120))
def test_any_text(text: str) -> None:
    """No text at all makes a parser fail."""
    for _, parse in CASES.values():
        parse(text)
    rocm_smi_text.parse(text).links()
    xpu_smi_text.links(text)


class Liar(RecordedHost):
    """A recorded host whose tools answer as told."""

    answers: dict[tuple[str, ...], CommandResult]

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        return self.answers.get(tuple(argv)) or super().run(argv, timeout)


MACHINES = {
    "mi300x8": (
        ("amd-smi", "list", "--json"),
        ("amd-smi", "static", "--json"),
        ("amd-smi", "topology", "--json"),
        ("amd-smi", "partition", "--json"),
        ("rocm-smi", "--showallinfo", "--json"),
        ("rocm-smi", "--showtopo", "--json"),
    ),
    "arc4": (
        ("xpu-smi", "discovery", "-j"),
        ("xpu-smi", "discovery", "-d", "1", "-j"),
        ("xpu-smi", "topology", "-m"),
    ),
    "gaudi8": (
        ("hl-smi",),
        ("hl-smi", "-Q", HL_SMI_FIELDS, "-f", "csv,noheader"),
    ),
}
LIARS = {name: Liar(HOSTS / name) for name in MACHINES}


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=40)
@given(data=st.data())
def test_a_whole_host_of_liars(name: str, data: st.DataObject) -> None:
    """Cards that the kernel knows are always listed; another only if a tool names its place."""
    host, questions = LIARS[name], MACHINES[name]
    host.answers = {}
    true = {device.pci for device in discover(host, LIBRARY).devices}
    answers = {}
    for argv in data.draw(st.lists(st.sampled_from(questions), max_size=3, unique=True)):
        text = data.draw(mutated(host.run(argv, 1).stdout))
        results = [
            CommandResult("absent"),
            CommandResult("timed_out"),
            CommandResult("done", 1, text, "failed"),
            CommandResult("done", 0, text),
        ]
        answers[argv] = data.draw(st.sampled_from(results))
    host.answers = answers
    inventory = discover(host, LIBRARY)
    said = "".join(host.run(argv, 1).stdout for argv in questions).lower()
    listed = {device.pci for device in inventory.devices}

    assert listed >= true
    for pci in listed - true:
        # A partition is told as a function of its card.
        assert pci is not None
        assert pci.split(":", 1)[1].split(".")[0] in said
    assert inventory.to_json()
