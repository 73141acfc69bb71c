"""Mutated outputs of tools through all sources: ``python -m tests.soak_discovery --seed 1``.

Each case takes one or two answers of tools (our own outputs, recorded hosts, and the captures where
somebody has them), cuts, doubles, swaps and dirties them, and asks every source. No source may
raise, and no device may have a place, a name, a number or a node that no answer holds.
A case depends on the seed, its number and the texts alone: ``--case N`` repeats it and shows its
answers.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from hpcmgr.discovery.host import CommandResult, DeviceNode
from hpcmgr.discovery.registry import DEVICE_SOURCES
from hpcmgr.discovery.source import Collected, DeviceFacts
from tests.expectations import load
from tests.outputs import OUTPUTS, output

HERE = Path(__file__).parent
Argv = tuple[str, ...]
Answers = dict[Argv, CommandResult]

_DIRT = ("", "ERR!", "N/A", "|", "||", "{", "}", "[", '"', ":", ",", "\t", "\n", "\n\n", "-1", "0",
         "99999999999999999999", "[Unknown Error]", "\x1b[31m", "\x00", "é", "GPU is lost", "/",
         "+----+", "====", "<gpu>", "0000:ff:1f.7", "null", "true")  # fmt: skip


class Tools:
    """A machine of which nothing is known but what its tools answer."""

    live = False
    hostname = "soak"

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def run(self, argv: object, timeout: float) -> CommandResult:
        return self.answers.get(tuple(argv), CommandResult("absent"))  # type: ignore[arg-type]

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


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run came to."""

    cases: int
    devices: int
    failures: tuple[str, ...]
    seconds: float


def texts(corpus: Path | None) -> list[tuple[Argv, str]]:
    """Questions and true answers to start from, in a fixed order."""
    found = [(argv, output(name)) for name, argv in OUTPUTS.items()]
    for path in sorted(HERE.glob("hosts/*/host.yaml")):
        for entry in yaml.safe_load(path.read_text()).get("commands", ()):
            place = path.parent / str(entry.get("stdout"))
            if entry.get("stdout") and place.is_file():
                argv = tuple(str(word) for word in entry["argv"])
                found.append((argv, place.read_text(errors="replace")))
    for expectation in load() if corpus is not None else ():
        if corpus is not None and "answers" in expectation.values:
            text = (corpus / expectation.capture).read_text(errors="replace")
            found.append((tuple(expectation.values["answers"]), text))
    # An XML of a hundred kilobytes takes as long as a thousand tables.
    return [(argv, text) for argv, text in found if len(text) < 20_000]


def mutated(text: str, chance: random.Random) -> str:
    """The text with some cuts, doubled pieces, dirt and swapped lines."""
    for _ in range(chance.randint(0, 6)):
        start = chance.randint(0, max(len(text) - 1, 0))
        end = min(len(text), start + chance.choice((0, 1, 3, 20, 120, 600)))
        piece = chance.choice((*_DIRT, text[start:end] * 2, text[start:end][::-1]))
        text = text[:start] + piece + text[end:]
    lines = text.splitlines(keepends=True)
    how = chance.random()
    if how < 0.1:
        chance.shuffle(lines)
    elif how < 0.25 and lines:
        at, to = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines.insert(to, lines.pop(at))
    elif how < 0.3:
        del lines[chance.randint(0, len(lines)) :]
    return "".join(lines)


def case(number: int, seed: int, base: list[tuple[Argv, str]]) -> Answers:
    """The answers of one case."""
    chance = random.Random(f"{seed}/{number}")
    answers: Answers = {}
    for argv, text in chance.sample(base, chance.choice((1, 1, 2))):
        how = chance.random()
        changed = mutated(text, chance)
        answers[argv] = (
            CommandResult("timed_out")
            if how < 0.01
            else CommandResult("done", 1 if how < 0.1 else 0, changed, "" if how < 0.5 else "note")
        )
    # A tool's other answers, true ones: most sources read several.
    for argv, text in chance.sample(base, 2):
        if any(argv[0] == asked[0] for asked in answers):
            answers.setdefault(argv, CommandResult("done", 0, text))
    return answers


def check(answers: Answers) -> tuple[int, list[str]]:
    """Number of devices, and what is wrong."""
    said = "\n".join(result.stdout for result in answers.values())
    # A tab in JSON is written out.
    said += re.sub(r"\\[bfnrt]", "", said)
    devices, wrong = 0, []
    for source in DEVICE_SOURCES:
        try:
            collected = source.collect(Tools(answers))
        except Exception:
            wrong.append(f"{source.name} raised: {traceback.format_exc(limit=-3)}")
            continue
        devices += len(collected.devices)
        wrong += [f"{source.name}: {text}" for text in _invented(collected, said)]
    return devices, wrong


def _invented(collected: Collected, said: str) -> Iterator[str]:
    dense = _dense(said)
    for facts in collected.devices:
        for name in ("model", "serial", "driver", "firmware"):
            value = getattr(facts, name)
            if value is not None and not _stands(value, dense):
                yield f"{name} {value!r} stands nowhere"
        if facts.pci is not None and not _has_address(facts, said + dense):
            yield f"address {facts.pci} stands nowhere"
        if facts.memory_mib is not None and facts.memory_mib <= 0:
            yield f"memory {facts.memory_mib}"
        for path in facts.files:
            if re.findall(r"[0-9]+", path)[-1] not in said:
                yield f"node {path} stands nowhere"


def _stands(value: str, said: str) -> bool:
    """Control characters, tabs among them, are dropped from values."""
    return _dense(value) in said


def _dense(text: str) -> str:
    return "".join(char for char in text if char.isprintable() and not char.isspace())


def _has_address(facts: DeviceFacts, said: str) -> bool:
    """Bus, device and function in any spelling, or in fields of their own (cnmon)."""
    _, bus, rest = (facts.pci or "").split(":")
    device, function = rest.split(".")
    short = f"{int(bus, 16):x}:0?{int(device, 16):x}\\.{function}"
    if re.search(rf"(?<![0-9a-f])0?{short}", said, re.IGNORECASE):
        return True
    return bool(re.search(rf"Bus num\s*:\s*0?{int(bus, 16):x}(?![0-9a-f])", said, re.IGNORECASE))


def run(seed: int, count: int, corpus: Path | None, first: int = 0) -> Figures:
    """Run the cases ``first`` … ``first + count``."""
    base = texts(corpus)
    devices, failures = 0, []
    start = time.monotonic()
    for number in range(first, first + count):
        found, wrong = check(case(number, seed, base))
        devices += found
        failures += [f"case {number}: {text}" for text in wrong]
    return Figures(count, devices, tuple(failures), time.monotonic() - start)


def corpus_here() -> Path | None:
    """The captures, where somebody has them."""
    place = Path(os.environ.get("HPCMGR_CORPUS") or HERE.parent.parent / "shared" / "data")
    captures = place / "devices" / "captures"
    return captures if captures.is_dir() else None


def say(text: str) -> None:
    """A line for people."""
    sys.stdout.write(text + "\n")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--case", type=int, help="repeat this case alone and show its answers")
    options = parser.parse_args()
    corpus = corpus_here()
    if options.case is not None:
        for argv, result in case(options.case, options.seed, texts(corpus)).items():
            say(f"--- {' '.join(argv)} ({result.state}, exit {result.exit})\n{result.stdout}")
        options.count = 1
    figures = run(options.seed, options.count, corpus, options.case or 0)
    for failure in figures.failures[:20]:
        say(failure)
    say(
        f"seed {options.seed}: {figures.cases} cases from {len(texts(corpus))} texts, "
        f"{figures.devices} devices, {len(figures.failures)} failures, {figures.seconds:.0f} s"
    )
    return 1 if figures.failures else 0


if __name__ == "__main__":
    sys.exit(main())
