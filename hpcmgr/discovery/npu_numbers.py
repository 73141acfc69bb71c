"""Which /dev/davinciN an NPU is.

Ascend has four numberings: NPU id (of the card, by slot), chip id (in the card), logic id (what
ASCEND_RT_VISIBLE_DEVICES counts) and physical id (N of /dev/davinciN). npu-smi prints the last
only in some releases. Where it does not, a numbering is taken for it only if it names exactly the
device nodes that are there and no other numbering does so differently.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hpcmgr.discovery.host import Host

_NODE = re.compile(r"^/dev/davinci([0-9]{1,6})$")


@dataclass(frozen=True, slots=True)
class ChipNumbers:
    """Numbers of one chip; ``phy`` where npu-smi printed it."""

    npu: int
    chip: int
    logic: int | None
    phy: int | None


def device_numbers(host: Host) -> frozenset[int] | None:
    """N of every /dev/davinciN, None if nobody knows the device nodes."""
    nodes = host.device_nodes()
    if nodes is None:
        return None
    found = (_NODE.match(node.path) for node in nodes if node.type == "c")
    return frozenset(int(match[1]) for match in found if match)


def physical_ids(
    chips: Sequence[ChipNumbers], present: frozenset[int] | None
) -> dict[tuple[int, int], int]:
    """Physical id by (NPU id, chip id); a chip that is left out has none that is sure."""
    printed = {(c.npu, c.chip): c.phy for c in chips if c.phy is not None}
    if len(printed) == len(chips) and len(set(printed.values())) == len(chips):
        return printed
    if printed or not present or not chips:
        return _distinct(printed)
    numberings = (
        {(c.npu, c.chip): c.npu for c in chips},
        {(c.npu, c.chip): c.logic for c in chips if c.logic is not None},
    )
    candidates = [
        numbers
        for numbers in numberings
        if len(set(numbers.values())) == len(chips) and set(numbers.values()) == present
    ]
    if candidates and all(numbers == candidates[0] for numbers in candidates):
        return candidates[0]
    return {}


def _distinct(numbers: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """Without the chips that claim one number together."""
    values = list(numbers.values())
    return {chip: number for chip, number in numbers.items() if values.count(number) == 1}
