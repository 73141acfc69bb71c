"""What the daemons run with, node by node, as it was last known for sure.

An administrator who hands a node over removes its lines from the site's own files before apply
writes them anew. Which devices it had in which order is then in no file any more; here it still is:

    conf_dir/hpcmgr.d/in-force.json     lines and layout of nodes, and when slurmd had started

It holds for a node as long as its slurmd has not started anew.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from hpcmgr.apply.keep import NodeLines, lines_of
from hpcmgr.apply.layout import NodeLayout, layouts
from hpcmgr.apply.live import LiveCluster
from hpcmgr.errors import ApplyError
from hpcmgr.files import write_atomically
from hpcmgr.slurm.hostlist import expand, fold
from hpcmgr.verify.configuration import Configuration

NAME = "in-force.json"
SCHEMA = "hpcmgr.in-force/1"
SLACK_S = 2.0
"""Times of slurmd count in whole seconds, and clocks differ."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Layout and lines of nodes, and when slurmd of each had started then."""

    layouts: Mapping[str, NodeLayout] = field(default_factory=dict)
    lines: Mapping[str, NodeLines] = field(default_factory=dict)
    started: Mapping[str, str] = field(default_factory=dict)

    def of(self, live: LiveCluster) -> dict[str, NodeLayout]:
        """Layouts of nodes whose slurmd is still the one of then."""
        return {
            name: layout
            for name, layout in self.layouts.items()
            if name in live.nodes and live.nodes[name].started == self.started.get(name)
        }


def remember(
    folder: Path, current: Configuration, live: LiveCluster, stale: Iterable[str] = ()
) -> list[str]:
    """Write down what nodes run with; returns those of which it is not known: their slurmd does not
    answer, or started before a file was changed.

    Raises:
        OSError: it cannot be written; what was known before is still there.
    """
    changed = _last_change(current)
    known, unknown = [], []
    for name in current.nodes:
        node = live.nodes.get(name)
        sure = node is not None and not node.away and not node.invalid and name not in {*stale}
        if sure and node is not None and started_at(node.started) + SLACK_S >= changed:
            known.append(name)
        else:
            unknown.append(name)
    _write(folder / NAME, current, live, known)
    return unknown


def recall(folder: Path) -> Memory:
    """What was last written down; nothing where there is none.

    Raises:
        ApplyError: the file is broken.
    """
    path = folder / NAME
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return _memory(document)
    except FileNotFoundError:
        return Memory()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as broken:
        raise ApplyError(f"{path} is broken: {broken}", "remove it") from broken


def _write(path: Path, current: Configuration, live: LiveCluster, names: list[str]) -> None:
    laid, lines = layouts(current), lines_of(current, names)
    groups: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for name in names:
        layout, text = laid[name], lines[name]
        values = {
            "devices": layout.devices,
            "shape": layout.shape,
            "line": layout.line,
            "counts": layout.counts,
            "text": text.line,
            "records": text.records,
            "names": sorted(text.names),
        }
        groups.setdefault(json.dumps(values), (values, []))[1].append(name)
    document = {
        "schema": SCHEMA,
        "nodes": [{"nodes": fold(group), **values} for values, group in groups.values()],
        "started": {name: live.nodes[name].started for name in names},
    }
    write_atomically(path, json.dumps(document))


def _memory(document: dict[str, Any]) -> Memory:
    if document["schema"] != SCHEMA:
        raise ValueError("another schema")
    laid: dict[str, NodeLayout] = {}
    lines: dict[str, NodeLines] = {}
    for group in document["nodes"]:
        layout = NodeLayout(*(_items(group[k]) for k in ("devices", "shape", "line", "counts")))
        text = NodeLines(group["text"], tuple(group["records"]), frozenset(group["names"]))
        for name in expand(group["nodes"]):
            laid[name], lines[name] = layout, text
    return Memory(laid, lines, dict(document["started"]))


def _items(values: list[list[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(item) for item in values)


def _last_change(current: Configuration) -> float:
    times = [0.0]
    for path in current.files:
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)


def started_at(text: str | None) -> float:
    """Slurm's time as seconds; 0 if it has none."""
    try:
        return datetime.strptime(text or "", "%Y-%m-%dT%H:%M:%S").timestamp()
    except ValueError:
        return 0.0
