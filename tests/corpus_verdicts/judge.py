"""Do hpcmgr's rules and real Slurm say the same of a file?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from hpcmgr.verify.slurm_lines import CONSEQUENCES, HARMLESS

SILENT = {
    "constrain-devices": "Slurm runs; every job can open every device",
    "task-plugin": "Slurm runs; no device is constrained",
    "select-type": "Slurm runs; devices are not handed out singly",
    "gres-types": "Slurm drops the GRES with a line in the log",
    "type-mismatch": "an npu keeps its count and loses its files (fact 26)",
    "topology-unknown-node": "only a line in the log (fact 25)",
    "topology-two-parents": "accepted silently (fact 25)",
    "topology-node-twice": "accepted silently (fact 25)",
    "autodetect-value": "slurmd logs it and detects nothing",
    "topology-missing": "slurmctld waits a minute, then refuses; the proof leaves the key out",
    "file-twice": "two names for one device: both are handed out",
    "autodetect-inline": "slurmd logs it and detects nothing",
}
"""Errors of hpcmgr that are stricter than Slurm on purpose: rule → what Slurm does."""

NOT_HERE = re.compile(
    r"configured to autodetect|autodetect .* functionality|System GPU detection failed"
    r"|PluginDir|slurmd initialization failed|configuration differs from hardware: CPUs"
)
"""Said of the machine that looks, not of the file: no vendor library, other paths and users."""


@dataclass(frozen=True, slots=True)
class Row:
    """One file on one release. ``real``: refused, invalid, complains or good."""

    rules: str
    first: str
    real: str
    words: str
    agree: bool
    why: str = ""
    adopt: str = ""


def judge(case: dict[str, Any]) -> Row:
    """Compare the rules with the daemons."""
    real, words = real_verdict(case["real"])
    errors = [f for f in case["rules"] if f[0] == "error"]
    hard = [f for f in errors if f[1] not in SILENT]
    rules = "error" if errors else ("warning" if _has(case, "warning") else "ok")
    first = next((f"{f[1]}: {f[2]}" for f in case["rules"] if f[0] == rules), "")
    detected = any(f[1] == "autodetect-records" for f in case["rules"])
    if real == "invalid" and not errors and detected:
        agree, why = True, "what AutoDetect adds is known on the node only"
    elif real in {"refused", "invalid"}:
        agree, why = bool(errors), ""
    elif real == "complains":
        agree, why = rules != "ok", ""
    else:
        agree = not hard
        why = SILENT[errors[0][1]] if errors and agree else ""
    return Row(rules, _short(first), real, _short(words), agree, why, case["adopt"])


def real_verdict(real: dict[str, Any]) -> tuple[str, str]:
    """The daemons' verdict in one word, and the words of theirs that say most."""
    lines = [line for line in real["lines"] if not _harmless(line)]
    lines.sort(key=lambda line: bool(CONSEQUENCES.search(line)))
    waited = any("gave no answer within" in line for line in lines)
    states = real["states"]
    bad = [s for s in states.values() if re.search(r"INVAL|DRAIN|DOWN|FAIL", s)]
    fatal = [line for line in lines if line.startswith("fatal")]
    said = (fatal or [line for line in lines if not line.startswith("note")] or [""])[0]
    if real["refused"] or not real["started"] or fatal or waited:
        return "refused", said
    if bad:
        return "invalid", bad[0]
    return ("complains" if said else "good"), said


def _short(text: str) -> str:
    """Without the place where the case was laid out, so that releases compare."""
    return re.sub(r"/tmp/corpus/\S+/(?:site|raw)/", "", text)


def _has(case: dict[str, Any], severity: str) -> bool:
    return any(f[0] == severity for f in case["rules"])


def _harmless(line: str) -> bool:
    words = line.partition(" ")[2]
    if "Parse error" in words:
        return False
    return bool(NOT_HERE.search(words)) or any(re.search(p, words) for p, _ in HARMLESS)
