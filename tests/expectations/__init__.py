"""What a careful reader finds in captured outputs of vendors' tools: one file a capture.

``tests/expectations/BRAND/NAME.yaml`` stands for the capture ``BRAND/NAME``. Each was written by
reading the capture; what it does not tell is null. Forms of a file:

    reads: mx-smi                   # the source whose report is compared
    answers: [mx-smi]               # the question that the capture answers
    with: {heterogeneous/x.txt: [mx-smi, topo, -m]}   # other captures of the same machine
    state: present                  # what the source says of itself
    devices:                        # in the order of the inventory
    - {vendor: metax, model: MetaX N260, pci: "0000:01:00.0", health: ok, …}
    links: {MX: 24}                 # how many of each kind (left out: not compared)
    slices: 7                       # of the first device (left out: not compared)

    matrix: GPU                     # a matrix of links alone: prefix of its devices
    labels: 14
    links: {MX: 24, NODE: 40}
    nics: {NIC0: mlx5_0}

    mig: nvidia-smi -L              # a list of slices alone: names by uuid of the GPU
    gpus: {GPU-0000…: [1g.10gb, 1g.10gb]}

    reads: nothing                  # no discovery source reads it
    why: the log of a kernel

The captures are not part of this project: set HPCMGR_CORPUS to the folder that has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hpcmgr.discovery import nvidia_mig, topo_matrix
from hpcmgr.inventory import Device, NodeInventory

HERE = Path(__file__).parent
FIELDS = ("vendor", "model", "pci", "numa", "files", "uuid", "serial", "memory_mib", "driver",
          "health")  # fmt: skip

Discover = Callable[[dict[tuple[str, ...], str]], NodeInventory]
"""Answers of the tools on a machine of which nothing else is known → its inventory."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One file; ``capture`` is the path below the folder of captures."""

    capture: str
    values: dict[str, Any]


@dataclass(slots=True)
class Outcome:
    """Fields of one capture: told and found, not told and not found, and all others, in words."""

    capture: str
    devices: int = 0
    right: int = 0
    unknown: int = 0
    wrong: list[str] = field(default_factory=list)

    def compare(self, what: str, expected: object, found: object) -> None:
        """Note one field."""
        if expected != found:
            self.wrong.append(f"{what}: {found!r}, expected {expected!r}")
        elif expected in (None, [], ()):
            self.unknown += 1
        else:
            self.right += 1


def load() -> Iterator[Expectation]:
    """All of them, by name."""
    for path in sorted(HERE.rglob("*.yaml")):
        name = path.relative_to(HERE).as_posix().removesuffix(".yaml")
        yield Expectation(name, yaml.safe_load(path.read_text()))


def compare(expectation: Expectation, corpus: Path, discover: Discover) -> Outcome:
    """Read the capture and compare."""
    outcome, values = Outcome(expectation.capture), expectation.values
    text = (corpus / expectation.capture).read_text()
    if values.get("reads") == "nothing":
        return outcome
    if "matrix" in values:
        _compare_matrix(outcome, values, text)
        return outcome
    if "mig" in values:
        for uuid, names in values["gpus"].items():
            found = nvidia_mig.parse_list(text).get(uuid, {})
            outcome.compare(uuid, names, [found[number][0] for number in sorted(found)])
        outcome.compare("GPUs", set(values["gpus"]), set(nvidia_mig.parse_list(text)))
        return outcome
    answers = {tuple(values["answers"]): text}
    for capture, argv in (values.get("with") or {}).items():
        answers[tuple(argv)] = (corpus / capture).read_text()
    inventory = discover(answers)
    report = next(one for one in inventory.sources if one.name == values["reads"])
    outcome.compare("state", values["state"], report.state)
    _compare_devices(outcome, values, inventory)
    return outcome


def _compare_matrix(outcome: Outcome, values: dict[str, Any], text: str) -> None:
    matrix = topo_matrix.parse(text, values["matrix"])
    if matrix is None:
        outcome.wrong.append("no matrix found")
        return
    outcome.compare("labels", values["labels"], len(matrix.labels))
    outcome.compare("links", values["links"], dict(Counter(matrix.links.values())))
    outcome.compare("nics", values.get("nics", {}), matrix.nics)


def _compare_devices(outcome: Outcome, values: dict[str, Any], inventory: NodeInventory) -> None:
    expected = values.get("devices") or []
    outcome.devices = len(expected)
    outcome.compare("devices", len(expected), len(inventory.devices))
    for number, (told, device) in enumerate(zip(expected, inventory.devices, strict=False)):
        found = _fields(device)
        assert set(told) <= {*FIELDS, "firmware", "chip", "index"}, told
        for name in (*FIELDS, *(set(told) - set(FIELDS))):
            outcome.compare(f"device {number} {name}", told.get(name), found[name])
    if "links" in values:
        found_links = dict(Counter(link.kind for link in inventory.links))
        outcome.compare("links", values["links"], found_links)
    if "slices" in values and inventory.devices:
        outcome.compare("slices", values["slices"], len(inventory.devices[0].slices))


def _fields(device: Device) -> dict[str, Any]:
    return {
        "vendor": device.vendor,
        "model": None if _unnamed(device.model) else device.model,
        "pci": device.pci,
        "numa": device.numa_node,
        "files": list(device.files) or None,
        "uuid": device.uuid,
        "serial": device.serial,
        "memory_mib": device.memory_mib,
        "driver": device.driver,
        "health": None if device.health.state == "unknown" else device.health.state,
        "firmware": device.firmware,
        "chip": device.chip,
        "index": device.index,
    }


def _unnamed(model: str) -> bool:
    """What stands for a model that nobody tells."""
    return model == "unnamed" or model.startswith("PCI ")


def table(outcomes: list[Outcome]) -> str:
    """Capture → devices, fields right, wrong, unknown; with a sum a brand."""
    lines = [f"{'capture':70} devices right wrong unknown"]
    sums: dict[str, list[int]] = {}
    for outcome in outcomes:
        row = [outcome.devices, outcome.right, len(outcome.wrong), outcome.unknown]
        lines.append(_line(outcome.capture, row))
        brand = sums.setdefault(outcome.capture.partition("/")[0], [0, 0, 0, 0])
        brand[:] = [a + b for a, b in zip(brand, row, strict=True)]
    lines += ["", *(_line(brand, row) for brand, row in sorted(sums.items()))]
    lines.append(_line("all", [sum(column) for column in zip(*sums.values(), strict=True)]))
    return "\n".join(lines)


def _line(name: str, row: list[int]) -> str:
    return f"{name:70} {row[0]:7} {row[1]:5} {row[2]:5} {row[3]:7}"
