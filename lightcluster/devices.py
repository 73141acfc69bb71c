"""Device nodes of a recorded machine, made again so that no real driver stands behind them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from lightcluster.errors import LightClusterError

# The kernel hands out majors below 512 only, so from here on no driver can ever answer:
# opening such a node gives ENXIO, or EPERM where a device cgroup forbids it.
FIRST_FREE_MAJOR = 512
_LAST_MAJOR = 4095
# A host may load the NVIDIA driver at any time, listed in /proc/devices or not.
_NEVER = frozenset({195})
_TYPES = {"c": "c", "b": "b"}


@dataclass(frozen=True)
class DeviceNode:
    """One line of a ``dev.txt``."""

    path: str
    type: str
    major: int
    minor: int
    mode: int


def parse_dev_txt(text: str, source: str = "dev.txt") -> list[DeviceNode]:
    """Read ``path type major minor mode`` lines; blank lines and # comments are skipped."""
    nodes = []
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.split("#", 1)[0].strip()
        if content:
            try:
                nodes.append(_parse_line(content))
            except ValueError as error:
                raise LightClusterError(f"{source}:{number}: {error}") from None
    return nodes


def _parse_line(line: str) -> DeviceNode:
    fields = line.split()
    if len(fields) != 5:
        raise ValueError(f"need 'path type major minor mode', found {len(fields)} fields: {line}")
    path, kind, major, minor, mode = fields
    if not path.startswith("/dev/") or ".." in PurePosixPath(path).parts:
        raise ValueError(f"a device node lies under /dev/, not at {path}")
    if kind not in _TYPES:
        raise ValueError(f"type is c (character) or b (block), not {kind}")
    if not re.fullmatch(r"0?[0-7]{3}", mode):
        raise ValueError(f"mode is octal such as 0660, not {mode}")
    return DeviceNode(path, kind, _number(major, "major"), _number(minor, "minor"), int(mode, 8))


def _number(text: str, what: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{what} is a number, not {text}")
    return int(text)


def majors_in_use(proc_devices: str) -> set[int]:
    """All majors that ``/proc/devices`` lists, of character and block drivers alike."""
    return {int(number) for number in re.findall(r"^\s*(\d+) \S", proc_devices, re.MULTILINE)}


def map_majors(
    nodes: Iterable[DeviceNode], taken: Iterable[int] = ()
) -> dict[tuple[str, int], int]:
    """For each recorded (type, major) one that no driver of this machine has."""
    wanted = sorted({(node.type, node.major) for node in nodes})
    blocked = set(taken) | _NEVER
    free = (major for major in range(FIRST_FREE_MAJOR, _LAST_MAJOR) if major not in blocked)
    return dict(zip(wanted, free, strict=False))


def without_drivers(
    nodes: Iterable[DeviceNode], majors: Mapping[tuple[str, int], int]
) -> list[DeviceNode]:
    """The same nodes with their majors replaced; path, minor and mode stay."""
    return [replace(node, major=majors[node.type, node.major]) for node in nodes]


def nodes_of_host(host: Path) -> list[DeviceNode]:
    """The device nodes of a recorded host, safe to make here; none where it has no dev.txt."""
    listing = host / "dev.txt"
    if not listing.is_file():
        return []
    nodes = parse_dev_txt(listing.read_text(), str(listing))
    taken = majors_in_use(Path("/proc/devices").read_text())
    return without_drivers(nodes, map_majors(nodes, taken))
