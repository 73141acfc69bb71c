"""Rendered files in which some nodes keep the lines that they have."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter

from hpcmgr.slurm.hostlist import expand, fold
from hpcmgr.verify.conf import Entry
from hpcmgr.verify.configuration import FRAGMENT, GRES_FRAGMENT, Configuration, Node, hosts

_LINE = re.compile(r"^NodeName=(\S+)(.*)$")


@dataclass(frozen=True, slots=True)
class NodeLines:
    """What of one node stands in the files, without its name: the rest of its NodeName line (None:
    it stands elsewhere), its gres.conf records, the names of its GRES."""

    line: str | None
    records: tuple[str, ...]
    names: frozenset[str]


def lines_of(
    current: Configuration, names: Iterable[str], files: Collection[str] | None = None
) -> dict[str, NodeLines]:
    """The lines of nodes as they are; ``files``: only those that stand in files of these names."""

    def counts(entry: Entry) -> bool:
        file = entry.place.file
        return files is None or (file is not None and file.name in files)

    found: dict[str, NodeLines] = {}
    records = _records_of(current, counts)
    for name in names:
        node = current.nodes.get(name)
        here = node is not None and counts(node.entry)
        found[name] = NodeLines(
            _rest(node, whole=files is None) if node is not None and here else None,
            tuple(rest for entry in records(name) if (rest := _without_nodename(entry))),
            frozenset(item.name for item in node.gres) if node else frozenset(),
        )
    return found


def _records_of(
    current: Configuration, counts: Callable[[Entry], bool]
) -> Callable[[str], list[Entry]]:
    """Entries of gres.conf by node, in their order; each is expanded once."""
    common: list[tuple[int, Entry]] = []
    own: dict[str, list[tuple[int, Entry]]] = {}
    for i, entry in enumerate(current.gres.entries):
        if not counts(entry):
            continue
        text = entry.get("nodename")
        if text is None:
            common.append((i, entry))
        for name in hosts(text, entry.place, []) if text else ():
            own.setdefault(name, []).append((i, entry))
    return lambda name: [
        entry for _, entry in sorted([*common, *own.get(name, ())], key=itemgetter(0))
    ]


def keep_lines(
    files: Mapping[str, str], current: Configuration, kept: Mapping[str, NodeLines]
) -> dict[str, str]:
    """``files`` (hpcmgr.conf, gres.conf or hpcmgr-gres.conf) with these lines instead of theirs."""
    changed = dict(files)
    if not kept:
        return changed
    if FRAGMENT in changed:
        text = _without(changed[FRAGMENT], kept)
        text = _after_last(
            text, _folded((n, (k.line,)) for n, k in kept.items() if k.line is not None)
        )
        changed[FRAGMENT] = _with_names(text, current, kept)
    for name in {"gres.conf", GRES_FRAGMENT} & changed.keys():
        text = _without(changed[name], kept)
        changed[name] = _after_last(text, _folded((n, k.records) for n, k in kept.items()))
    return changed


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


def _rest(node: Node, *, whole: bool) -> str:
    """The line behind the name; ``whole`` also with what NodeName=DEFAULT says above it."""
    written = {pair.key.lower() for pair in node.entry.pairs}
    rest = node.entry.text[node.entry.pairs[0].end :].strip()
    above = [f"{key}={value}" for key, value in node.keys.items() if key not in written]
    return " ".join([rest, *(above if whole else [])]).strip()


def _folded(lines: Iterable[tuple[str, tuple[str, ...]]]) -> list[str]:
    """Equal lines of several nodes as one, the order within a node kept."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, texts in lines:
        if texts:
            groups.setdefault(texts, []).append(name)
    blocks = sorted((fold(group), texts) for texts, group in groups.items())
    return [f"NodeName={group} {text}".rstrip() for group, texts in blocks for text in texts]


def _without_nodename(entry: Entry) -> str:
    text = entry.text
    for pair in reversed(entry.pairs):
        if pair.key.lower() == "nodename":
            text = text[: pair.start] + text[pair.end :]
    return text.strip()


def _with_names(text: str, current: Configuration, kept: Mapping[str, NodeLines]) -> str:
    """GresTypes and AccountingStorageTRES that also know what the kept lines name."""
    items = [item for name in kept if name in current.nodes for item in current.nodes[name].gres]
    tracked = {f"gres/{item.name}" for item in items}
    tracked |= {f"gres/{item.name}:{item.type}" for item in items if item.type}
    # What was not tracked before need not be now: tracking needs slurmdbd.
    tracked &= set(current.setting("accountingstoragetres").split(","))
    text = with_items(text, "GresTypes", {name for k in kept.values() for name in k.names})
    return with_items(text, "AccountingStorageTRES", tracked, ordered=False)


def with_items(text: str, key: str, items: Iterable[str], *, ordered: bool = True) -> str:
    """A file whose list ``key`` (if it is there) also has ``items``."""

    def longer(found: re.Match[str]) -> str:
        words = found[1].split(",")
        words += sorted(set(items) - set(words))
        return f"{key}={','.join(sorted(words) if ordered else words)}"

    return re.sub(rf"(?m)^{key}=(\S+)$", longer, text, count=1)
