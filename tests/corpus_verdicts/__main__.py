"""``python -m tests.corpus_verdicts``: the table of all corpus files, as Markdown."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lightcluster import LightCluster, NodeSpec
from tests.corpus_verdicts import corpus
from tests.corpus_verdicts.frames import Case, cases
from tests.corpus_verdicts.judge import Row, judge

RELEASES = ("24.11", "26.05")
_WIDE = 90


def read_cases(only: Iterable[str] = ()) -> list[Case]:
    """The corpus, or those files whose names begin so."""
    with tempfile.TemporaryDirectory() as scratch:
        found = cases(corpus(), Path(scratch))
    return [case for case in found if not only or case.name.startswith(tuple(only))]


def look(cluster: LightCluster, chosen: Iterable[Case], timeout: float = 1800) -> dict[str, Any]:
    """Verdicts by case, from one machine with Slurm."""
    inside = Path("/tmp/corpus")
    cluster.run(["rm", "-rf", str(inside)])
    folder = cluster.controller.root / "tmp/corpus"
    for case in chosen:
        case.lay_out(folder / case.name, inside / case.name)
    argv = ["python3", "-m", "tests.corpus_verdicts.inside", str(inside)]
    cluster.run(argv, cwd="/opt/hpcmgr", timeout=timeout, check=True)
    return dict(json.loads((folder / "out.json").read_text())["cases"])


def main() -> int:
    """Print the table; 1 where hpcmgr and Slurm disagree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", choices=RELEASES, action="append")
    parser.add_argument("--only", action="append", default=[], help="gres/012, topology, …")
    options = parser.parse_args()
    if not corpus().is_dir():
        sys.exit(f"no corpus in {corpus()}: set HPCMGR_CORPUS")
    chosen = read_cases(options.only)
    rows: dict[str, dict[str, Row]] = {}
    for release in options.release or RELEASES:
        with LightCluster(release, [NodeSpec("n1")]) as cluster:
            for name, verdicts in look(cluster, chosen).items():
                rows.setdefault(name, {})[release] = judge(verdicts)
    for line in table(chosen, rows):
        sys.stdout.write(line + "\n")
    return 0 if all(row.agree for each in rows.values() for row in each.values()) else 1


def table(chosen: Iterable[Case], rows: Mapping[str, Mapping[str, Row]]) -> Iterable[str]:
    """Markdown; where a row is the same on all releases it stands once."""
    yield "| file | release | rules | adopt | real Slurm | INDEX | agree |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    differ = total = 0
    for case in chosen:
        merged: dict[Row, list[str]] = {}
        for release, row in rows[case.name].items():
            merged.setdefault(row, []).append(release)
        for row, releases in merged.items():
            total += len(releases)
            differ += 0 if row.agree else len(releases)
            agree = (f"stricter: {row.why}" if row.why else "yes") if row.agree else "**no**"
            rules = f"{row.rules}: {row.first}" if row.first else row.rules
            real = f"{row.real}: {row.words}" if row.words else row.real
            cells = [rules, row.adopt, real, case.index]
            yield " | ".join(
                [f"| {case.name}", ", ".join(releases), *map(_cell, cells), f"{agree} |"]
            )
    yield f"\n{total} verdicts, {differ} disagree."


def _cell(text: str) -> str:
    short = text if len(text) <= _WIDE else text[: _WIDE - 1] + "…"
    return short.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    sys.exit(main())
