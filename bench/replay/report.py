"""The table: what each way cost the users, as ratios."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.replay.simulate import Done


@dataclass(frozen=True, slots=True)
class Figures:
    """Hours, and shares of 1. ``busy``: device hours used, over those there were."""

    completion: float
    completion_p99: float
    wait: float
    makespan: float
    busy: float
    moves: int


def figures(done: Sequence[Done], devices: int) -> Figures:
    """Sum up one replay on ``devices`` devices."""
    first = min(d.job.submit for d in done)
    makespan = max(d.ended for d in done) - first
    ordered = sorted(d.completion for d in done)
    return Figures(
        completion=statistics.fmean(ordered) / 3600,
        completion_p99=ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] / 3600,
        wait=statistics.fmean(d.wait for d in done) / 3600,
        makespan=makespan / 3600,
        busy=sum((d.ended - d.started) * d.job.devices for d in done) / (makespan * devices),
        moves=sum(d.moves for d in done),
    )


def table(title: str, rows: Mapping[str, Figures]) -> str:
    """One table; the last columns are ratios of the average completion time to (b) and (c)."""
    heads = f"{'avg h':>8}{'p99 h':>8}{'wait h':>8}{'makespan':>9}{'busy':>6}{'moves':>6}"
    lines = [title, f"  {'':38}{heads}{'/(b)':>7}{'/(c)':>7}"]
    base = {key[:3]: row.completion for key, row in rows.items()}
    for key, row in rows.items():
        ratios = "".join(
            f"{row.completion / base[b]:7.2f}" if base.get(b) else f"{'':7}" for b in ("(b)", "(c)")
        )
        lines.append(
            f"  {key:38}{row.completion:8.2f}{row.completion_p99:8.2f}{row.wait:8.2f}"
            f"{row.makespan:9.1f}{row.busy:6.2f}{row.moves:6}{ratios}"
        )
    return "\n".join(lines)
