"""vNPUs of an Ascend chip: ``npu-smi info -t info-vnpu`` names them, /dev/vdavinci* are they.

A vNPU's number is that of its device node; the chip with physical id P has 16 of them, from
100 + 16 * P on (Huawei's guide to virtual NPUs).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hpcmgr.discovery.host import Host
from hpcmgr.discovery.source import whole
from hpcmgr.inventory import Slice

_NODE = re.compile(r"/dev/vdavinci([0-9]{1,5})")
_ROW = re.compile(r"^[\s|]*([0-9]{1,5})\s*\|(?:[^|]*\|)*\s*(vir[0-9][0-9a-z_]*)[\s|]*$")
_FIRST, _PER_CHIP = 100, 16


def numbers(host: Host, phy: int | None) -> frozenset[int]:
    """Numbers of the chip's vNPUs, by their device nodes."""
    found = (_NODE.fullmatch(node.path) for node in host.device_nodes() or ())
    every = {int(match[1]) for match in found if match}
    return frozenset(n for n in every if n >= _FIRST and (n - _FIRST) // _PER_CHIP == phy)


def parse(text: str) -> dict[int, str]:
    """Name of the template by number, of what ``info-vnpu`` prints for one chip."""
    rows = (_ROW.match(line) for line in text.splitlines())
    return {number: row[2] for row in rows if row and (number := whole(row[1])) is not None}


def slices(present: Iterable[int], named: dict[int, str]) -> tuple[Slice, ...]:
    """One for each vNPU that has a device node."""
    return tuple(
        Slice(name=named.get(number, "vnpu"), files=(f"/dev/vdavinci{number}",))
        for number in sorted(present)
    )
