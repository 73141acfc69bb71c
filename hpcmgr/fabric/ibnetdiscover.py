"""The output of ``ibnetdiscover``, plain or with ``-p``.

Plain, a block a switch and a block a channel adapter, every cable told from both its ends::

    Switch  40 "S-b83fd20300a1b2c0"   # "MF0;leaf-1:MQM9700/U1" enhanced port 0 lid 4 lmc 0
    [1]     "H-b83fd203001122aa"[1](b83fd203001122aa)   # "n01 mlx5_0" lid 12 4xNDR

With ``-p`` a line a port::

    SW   4  1 0xb83fd20300a1b2c0 4x NDR - CA  12  1 0xb83fd203001122aa ( 'leaf-1' - 'n01 mlx5_0' )

Hosts are known by their node description alone, which the kernel sets to host name and device.
Format: ibnetdiscover(8), TOPOLOGY FILE FORMAT.
"""

from __future__ import annotations

import re

from hpcmgr.fabric.model import Seen

_NODE = re.compile(r'(Switch|Ca|Rt)\s+\d+\s+"([SHR])-([0-9a-fA-F]{1,16})"\s+#\s+"(.*?)"')
_CABLE = re.compile(
    r"\[(\d+)\](?:\[ext \d+\])?(?:\([0-9a-fA-F]+\))?\s+"
    r'"([SHR])-([0-9a-fA-F]{1,16})"\[(\d+)\](?:\[ext \d+\])?(?:\([0-9a-fA-F]+\))?(?:\s|$)'
)
_PORT = re.compile(
    r"(CA|SW|RT)\s+\d+\s+(\d+)\s+0x([0-9a-fA-F]{1,16})\s+\S+\s+\S+\s+-\s+"
    r"(CA|SW|RT)\s+\d+\s+(\d+)\s+0x([0-9a-fA-F]{1,16})\s+\(\s*'(.*?)'\s+-\s+'(.*)'\s*\)"
)
_UNCABLED = re.compile(r"(?:CA|SW|RT)\s+\d+\s+\d+\s+0x[0-9a-fA-F]+\s+\S+\s+\S+\s+(?!-\s)")
_PASSED_OVER = re.compile(
    r"#|$|(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid)=|Chassis \d|Non-Chassis|"
    r"(?:Spine|Line|Slot)\b"
)
_HOST = re.compile(r"'?([A-Za-z0-9][A-Za-z0-9.-]*)\s+((?:HCA-\d+)|(?:[a-z][a-z0-9_]*))'?$")


def parse(text: str) -> Seen:
    """Read it; what cannot be read is a problem, never passed over."""
    seen = Seen("infiniband")
    lines = [(n, line.rstrip()) for n, line in enumerate(text.splitlines(), start=1)]
    if any(re.match(r"(?:CA|SW|RT)\s+\d", line) for _, line in lines):
        _ports_report(lines, seen)
    else:
        _blocks(lines, seen)
    if not seen.ports and not seen.problems:
        seen.problems.append("it names no host that is cabled to a switch")
    return seen


def _ports_report(lines: list[tuple[int, str]], seen: Seen) -> None:
    for number, line in lines:
        found = _PORT.match(line)
        if found is None:
            if not _UNCABLED.match(line) and not _PASSED_OVER.match(line):
                seen.problems.append(f"line {number} cannot be read: {line[:60]!r}")
            continue
        a, port_a, guid_a, b, port_b, guid_b, text_a, text_b = found.groups()
        ends = ((a, port_a, guid_a.zfill(16), text_a), (b, port_b, guid_b.zfill(16), text_b))
        for kind, _, guid, words in ends:
            if kind == "SW":
                seen.switches[guid.lower()] = words
        _join(seen, *[(kind, port, guid.lower(), words) for kind, port, guid, words in ends])


def _join(seen: Seen, one: tuple[str, str, str, str], other: tuple[str, str, str, str]) -> None:
    """A cable between (kind, port, GUID, description) and another."""
    kinds = {one[0], other[0]}
    if kinds == {"SW"}:
        seen.cable(one[2], other[2])
    elif kinds == {"SW", "CA"}:
        switch, adapter = (one, other) if one[0] == "SW" else (other, one)
        _host(seen, adapter[3], adapter[1], switch[2])


def _blocks(lines: list[tuple[int, str]], seen: Seen) -> None:
    described: dict[str, str] = {}
    cables: list[tuple[str, str, str, str]] = []
    here = ""
    for number, line in lines:
        if node := _NODE.match(line):
            here = f"{node[2]}-{node[3].zfill(16).lower()}"
            described[here] = node[4]
            if node[1] == "Switch":
                seen.switches[here[2:]] = node[4]
        elif (cable := _CABLE.match(line)) and here:
            cables.append((here, cable[1], f"{cable[2]}-{cable[3].zfill(16).lower()}", cable[4]))
        elif not _PASSED_OVER.match(line):
            seen.problems.append(f"line {number} cannot be read: {line[:60]!r}")
    missing = sorted({there for _, _, there, _ in cables} - described.keys())
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        seen.problems.append(f"it is cut off: {missing[0]}{more} is cabled but not described")
    for here, own_port, there, port in cables:
        if there in described:
            _join(
                seen,
                (_KINDS[here[0]], own_port, here[2:], described[here]),
                (_KINDS[there[0]], port, there[2:], described[there]),
            )


_KINDS = {"S": "SW", "H": "CA", "R": "RT"}


def _host(seen: Seen, description: str, port: str, switch: str) -> None:
    """``n01 mlx5_0``, ``n01 HCA-1`` → host and NIC; adapters of no host have other words."""
    found = _HOST.match(description.strip())
    if found:
        nic = found[2] if port == "1" else f"{found[2]}/{port}"
        seen.ports.add((found[1], nic, switch))
