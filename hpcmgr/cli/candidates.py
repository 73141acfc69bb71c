"""Candidates of a decision as rows: score, terms, why one lost. For quote and explain."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]
HEAD = ["profile", "becomes", "units", "GiB", "nodes", "score", "why"]


def candidate_rows(record: Record) -> list[list[str]]:
    """Rows under ``HEAD`` for the candidates of a decision, best first; of an older journal's
    record too, which had no weights."""
    weights = {name: term["weight"] for name, term in record.get("terms", {}).items()}
    candidates = record.get("candidates", [])
    best = candidates[0] if candidates and not candidates[0].get("refused") else None
    return [_row(each, best, weights) for each in candidates]


def term_rows(record: Record) -> list[list[str]]:
    """Term by term, value x weight of every candidate that was not refused; ``~`` marks estimates.
    The first row is the head."""
    terms = record.get("terms", {})
    able = [c for c in record.get("candidates", []) if not c.get("refused")]
    if not terms or not able:
        return []
    shown = [name for name in terms if any(name in c["terms"] for c in able)]
    rows = [["term", "weight", *(c["profile"] for c in able), "what it measures"]]
    for name in shown:
        cells = [_cell(c, name) for c in able]
        rows.append([name, f"{terms[name]['weight']:g}", *cells, terms[name]["unit"]])
    return rows


def _cell(candidate: Record, name: str) -> str:
    value = candidate["terms"].get(name)
    if value is None:
        return "-"
    return f"{'~' if name in candidate.get('estimated', ()) else ''}{value:.2f}"


def _row(candidate: Record, best: Record | None, weights: dict[str, float]) -> list[str]:
    if candidate.get("refused"):
        return [candidate["profile"], "-", "", "", "", "", candidate["refused"]]
    return [
        candidate["profile"],
        candidate.get("becomes") or f"{candidate['devices']} x {candidate['gres']}",
        str(candidate["units"]),
        str(candidate["vram_gib"]),
        str(candidate["nodes"]),
        f"{candidate['score']:.2f}",
        "chosen" if candidate is best else _lost(candidate, best, weights),
    ]


def _lost(candidate: Record, best: Record | None, weights: dict[str, float]) -> str:
    """What weighs most against the chosen one: ``free_now -4.00, fit -0.75``."""
    if best is None:
        return ""
    if candidate.get("waits") and not best.get("waits"):
        return f"must wait: {candidate['waits']}"
    lost = {
        name: (value - best["terms"].get(name, 0.0)) * weights.get(name, 1.0)
        for name, value in candidate["terms"].items()
    }
    worst = sorted((gap, name) for name, gap in lost.items() if gap <= -0.005)
    return ", ".join(f"{name} {gap:+.2f}" for gap, name in worst) or "the same score: by name"
