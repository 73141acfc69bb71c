"""Are the files that lie in the configuration directory the ones that the daemons run with?

A reconfigure brings everything into force that lies there, also what somebody else has changed
and not told the daemons. On a node with jobs on its devices that could move a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hpcmgr.apply.layout import NodeLayout, expected_gres, layouts
from hpcmgr.apply.live import LiveCluster, LiveNode
from hpcmgr.apply.memory import SLACK_S, Memory, started_at
from hpcmgr.apply.workplace import checksum
from hpcmgr.plan import NEUTRAL
from hpcmgr.slurm.capability import Release
from hpcmgr.verify.configuration import FRAGMENT, GRES_FRAGMENT, read_configuration

_FILES = (FRAGMENT, "gres.conf", GRES_FRAGMENT)


def not_in_force(
    conf_dir: Path,
    live: LiveCluster,
    installed: Mapping[str, str],
    release: Release,
    memory: Memory | None = None,
) -> dict[str, str]:
    """Why each node does not run with the files of ``conf_dir``; nodes that do are not in it."""
    current = read_configuration(conf_dir, release)
    expected, laid = expected_gres(current), layouts(current)
    changed = _changed_since(conf_dir, installed)
    known = memory.of(live) if memory else {}
    found: dict[str, str] = {}
    for name, node in live.nodes.items():
        if node.away or node.invalid or name not in expected:
            continue
        if name in known:
            why = _moved(known[name], laid[name]) or _other_counts(node, expected[name])
        else:
            why = _other_counts(node, expected[name]) or _older(node, changed)
        if why:
            found[name] = why
    return found


def _moved(before: NodeLayout, now: NodeLayout) -> str:
    if before.moves_devices(now) or before.moves_cores(now):
        return "its lines were changed after its slurmd had read them"
    return ""


def _changed_since(conf_dir: Path, installed: Mapping[str, str]) -> dict[str, float]:
    """When files were last written that are not as an apply left them."""
    times: dict[str, float] = {}
    for name in _FILES:
        try:
            text = (conf_dir / name).read_text(encoding="utf-8", errors="replace")
            written = (conf_dir / name).stat().st_mtime
        except OSError:
            continue
        if installed.get(name) != checksum(text):
            times[name] = written
    return times


def _other_counts(node: LiveNode, counts: Mapping[str, int]) -> str:
    devices = {k: n for k, n in counts.items() if k.partition(":")[0] not in NEUTRAL}
    wrong = [f"{k}:{node.gres.get(k, 0)}, not {n}" for k, n in devices.items()
             if node.gres.get(k, 0) != n]  # fmt: skip
    return f"it runs with {'; '.join(wrong)}" if wrong else ""


def _older(node: LiveNode, changed: Mapping[str, float]) -> str:
    started = started_at(node.started)
    if not started:
        return ""
    late = [name for name, written in changed.items() if written > started + SLACK_S]
    return f"{', '.join(late)} changed after its slurmd had read it" if late else ""
