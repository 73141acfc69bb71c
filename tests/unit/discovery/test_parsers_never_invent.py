"""Mutated outputs: never a traceback, never a device that the text does not name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from hpcmgr.discovery import (
    CommandResult,
    RecordedHost,
    discover,
    npu_smi_text,
    nvidia_mig,
    nvidia_xml,
    topo_matrix,
)
from hpcmgr.discovery.source import key_values
from tests.unit.discovery.conftest import LIBRARY

HOSTS = Path(__file__).parents[2] / "hosts"
XML = (HOSTS / "t4x4/commands/nvidia-smi-q-x.xml").read_text()
TABLE = (HOSTS / "npu8/commands/npu-smi-info.txt").read_text()
MAPPING = (HOSTS / "npu8/commands/npu-smi-info-m.txt").read_text()
TOPO = (HOSTS / "npu8/commands/npu-smi-info-t-topo.txt").read_text()
LIST = (HOSTS / "npu8/commands/npu-smi-info-l.txt").read_text()


@st.composite
def mutated(draw: st.DrawFn, text: str) -> str:
    """The text with some cuts, doubled pieces, strange characters and swapped lines."""
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, max(len(text) - 1, 0)))
        end = min(len(text), start + draw(st.integers(0, 120)))
        piece = draw(
            st.sampled_from(["", text[start:end] * 2, "ERR!", "N/A", "|", "<", "&", "\t", "\n"])
            | st.text(max_size=12)
        )
        text = text[:start] + piece + text[end:]
    if draw(st.booleans()):
        lines = text.splitlines()
        text = "\n".join(draw(st.permutations(lines))) if len(lines) < 60 else text
    return text


def _bus(pci: str) -> str:
    """The part of an address that every spelling has."""
    return pci.split(":", 1)[1]


@settings(max_examples=150)
@given(mutated(XML))
def test_nvidia_xml(text: str) -> None:
    """Every GPU's address and minor stand in the text."""
    log = nvidia_xml.parse(text)
    for number, gpu in enumerate(log.gpus):
        facts = nvidia_xml.facts(gpu, log, number)

        assert facts.pci is None or _bus(facts.pci) in text.lower()
        assert all(path.removeprefix("/dev/nvidia") in text for path in facts.files)
        assert facts.serial is None or facts.serial in text
        nvidia_mig.slices(gpu, {}, {})


@settings(max_examples=150)
@given(mutated(TABLE))
def test_npu_table(text: str) -> None:
    """Every chip's NPU id and address stand in the text, and no row of the process table is one."""
    for row in npu_smi_text.parse_table(text).rows:
        assert str(row.npu) in text
        assert row.pci is None or _bus(row.pci) in text.lower()


@settings(max_examples=100)
@given(mutated(MAPPING), mutated(TOPO), mutated(LIST))
def test_the_other_npu_texts(mapping: str, topo: str, listed: str) -> None:
    """Mapping, matrix and list name only what is there; an MCU is never an NPU."""
    for row in npu_smi_text.parse_mapping(mapping):
        assert str(row.npu) in mapping
        assert (row.name or "").lower() != "mcu"
    matrix = topo_matrix.parse(topo, "NPU")
    for label in matrix.labels if matrix else ():
        assert label in topo
    for npu in npu_smi_text.parse_list(key_values(listed)):
        assert str(npu) in listed


@settings(max_examples=200)
@given(st.text(max_size=400))
def test_any_text(text: str) -> None:
    """No text at all makes a parser fail."""
    nvidia_xml.parse(text)
    nvidia_xml.parse("<?xml" + text)
    npu_smi_text.parse_table(text)
    npu_smi_text.parse_mapping(text)
    nvidia_mig.parse_list(text)
    topo_matrix.parse(text, "GPU")


class Liar(RecordedHost):
    """The mixed host, whose tools answer as told."""

    answers: dict[tuple[str, ...], CommandResult]

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        return self.answers.get(tuple(argv)) or super().run(argv, timeout)


MIXED = Liar(HOSTS / "mixed")
CARDS = {"0000:17:00.0", "0000:82:00.0", "0000:c1:00.0"}
QUESTIONS = (
    ("nvidia-smi", "-q", "-x"),
    ("nvidia-smi", "topo", "-m"),
    ("npu-smi", "info"),
    ("npu-smi", "info", "-m"),
    ("npu-smi", "info", "-l"),
    ("npu-smi", "info", "-t", "topo"),
    ("npu-smi", "info", "-t", "board", "-i", "4"),
    ("npu-smi", "info", "-t", "board", "-i", "4", "-c", "0"),
)


@st.composite
def lies(draw: st.DrawFn) -> dict[tuple[str, ...], CommandResult]:
    """Other answers to some questions: missing, hanging, failing, or another text."""
    MIXED.answers = {}
    found = {}
    for argv in draw(st.lists(st.sampled_from(QUESTIONS), max_size=4, unique=True)):
        text = draw(mutated(MIXED.run(argv, 1).stdout))
        found[argv] = draw(
            st.sampled_from(
                [
                    CommandResult("absent"),
                    CommandResult("timed_out"),
                    CommandResult("done", 1, text, "failed"),
                    CommandResult("done", 0, text),
                ]
            )
        )
    return found


@settings(max_examples=120)
@given(lies())
def test_a_whole_host_of_liars(answers: dict[tuple[str, ...], CommandResult]) -> None:
    """Cards that the kernel knows are always listed; others only if a tool names their place."""
    MIXED.answers = answers
    inventory = discover(MIXED, LIBRARY)
    said = "".join(MIXED.run(argv, 1).stdout for argv in QUESTIONS).lower()
    listed = {device.pci for device in inventory.devices}

    assert listed >= CARDS
    assert all(pci is None or _bus(pci) in said for pci in listed - CARDS)
    assert inventory.to_json()
