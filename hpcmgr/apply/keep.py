"""Rendered files in which some nodes keep the lines that they have."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from hpcmgr.slurm.hostlist import expand, fold
from hpcmgr.verify.conf import Entry
from hpcmgr.verify.configuration import FRAGMENT, Configuration

_LINE = re.compile(r"^NodeName=(\S+)(.*)$")


def keep_lines(
    files: Mapping[str, str], current: Configuration, waiting: Collection[str]
) -> dict[str, str]:
    """``files`` (hpcmgr.conf, gres.conf) with the lines of ``waiting`` as ``current`` has them.

    Lines that stand in another file than hpcmgr.conf are left where they are.
    """
    kept = dict(files)
    if not waiting:
        return kept
    names = sorted(waiting)
    if FRAGMENT in kept:
        text = _without(kept[FRAGMENT], names)
        text = _after_last(text, _node_lines(current, names))
        kept[FRAGMENT] = _with_names(text, current, names)
    if "gres.conf" in kept:
        text = _without(kept["gres.conf"], names)
        kept["gres.conf"] = _after_last(text, _gres_lines(current, names))
    return kept


def same_but_lines(a: str, b: str) -> bool:
    """Whether two texts differ in node lines, comments and blank lines only."""

    def rest(text: str) -> list[str]:
        lines = (line.strip() for line in text.splitlines())
        return [line for line in lines if line and line[0] != "#" and not _LINE.match(line)]

    return rest(a) == rest(b)


def _without(text: str, names: Collection[str]) -> str:
    """The text without these nodes; a line of no other node goes."""
    lines = []
    for line in text.splitlines(keepends=True):
        found = _LINE.match(line)
        if found:
            others = [name for name in expand(found[1]) if name not in names]
            if not others:
                continue
            line = f"NodeName={fold(others)}{found[2]}\n"
        lines.append(line)
    return "".join(lines)


def _after_last(text: str, added: list[str]) -> str:
    """Put lines behind the last node line; at the end where there is none."""
    if not added:
        return text
    lines = text.splitlines(keepends=True)
    last = max((i for i, line in enumerate(lines) if _LINE.match(line)), default=len(lines) - 1)
    block = [f"{line}\n" for line in added]
    return "".join([*lines[: last + 1], *block, *lines[last + 1 :]])


def _node_lines(current: Configuration, names: list[str]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for name in names:
        node = current.nodes.get(name)
        if node is None or node.place.file is None or node.place.file.name != FRAGMENT:
            continue
        rest = node.entry.text[node.entry.pairs[0].end :].strip()
        groups.setdefault(rest, []).append(name)
    return sorted(f"NodeName={fold(group)} {rest}".rstrip() for rest, group in groups.items())


def _gres_lines(current: Configuration, names: list[str]) -> list[str]:
    """Records of the nodes in their order, folded where all records are the same."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        records = [
            _without_nodename(entry)
            for entry in current.gres.entries
            if _concerns(entry, name) and _without_nodename(entry)
        ]
        if records:
            groups.setdefault(tuple(records), []).append(name)
    blocks = sorted((fold(group), records) for records, group in groups.items())
    return [f"NodeName={group} {record}" for group, records in blocks for record in records]


def _concerns(entry: Entry, name: str) -> bool:
    nodes = entry.get("nodename")
    if nodes is None:
        return True
    try:
        return name in expand(nodes)
    except ValueError:
        return False


def _without_nodename(entry: Entry) -> str:
    text = entry.text
    for pair in reversed(entry.pairs):
        if pair.key.lower() == "nodename":
            text = text[: pair.start] + text[pair.end :]
    return text.strip()


def _with_names(text: str, current: Configuration, names: list[str]) -> str:
    """GresTypes and AccountingStorageTRES that also know what the kept lines name."""
    items = [item for name in names if name in current.nodes for item in current.nodes[name].gres]
    tracked = {f"gres/{item.name}" for item in items}
    tracked |= {f"gres/{item.name}:{item.type}" for item in items if item.type}
    # What was not tracked before need not be now: tracking needs slurmdbd.
    tracked &= set(current.setting("accountingstoragetres").split(","))
    text = _with_items(text, "GresTypes", {item.name for item in items}, sorted)
    return _with_items(text, "AccountingStorageTRES", tracked, lambda words: words)


def _with_items(
    text: str, key: str, items: set[str], order: Callable[[list[str]], list[str]]
) -> str:
    def longer(found: re.Match[str]) -> str:
        words = found[1].split(",")
        words += sorted(items - set(words))
        return f"{key}={','.join(order(words))}"

    return re.sub(rf"(?m)^{key}=(\S+)$", longer, text, count=1)
