"""Writes hpcmgr/profile/performance.csv from the throughputs that Gavel's authors measured.

    python tools/make_performance_table.py [-o FILE] [simulation_throughputs.json]

Without a file: ``traces/gavel/simulation_throughputs.json`` below $HPCMGR_CORPUS, or below
``../shared/data`` beside the checkout. A throughput counts where one job had one device for itself
(worker count 1, no other job on it); the speed of a V100 is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
NAME = Path("traces") / "gavel" / "simulation_throughputs.json"
PROFILES = {"v100": "v100-16g", "p100": "p100-16g", "k80": "k80"}
"""Gavel's word → our profile, the reference first. Its machines had the 16 GB cards."""

SOURCE = "gavel"
_JOB = re.compile(r"\('(?P<name>[^']+?)(?: \(batch size (?P<batch>[0-9]+)\))?', 1\)")

HEADER = """\
# Relative speed of device models, workload by workload: docs/performance.md.
# Within one workload only the ratio of two speeds means something; here a V100 is 1.
#
# gavel: measured throughputs (training steps a second, one device, nothing else on it) of
# https://github.com/stanford-futuredata/gavel, scheduler/simulation_throughputs.json;
# D. Narayanan and others, "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning
# Workloads", OSDI 2020. Made by tools/make_performance_table.py. Licence of the figures:
#
"""


def main() -> None:
    """Read, divide, write."""
    corpus = Path(os.environ.get("HPCMGR_CORPUS") or CHECKOUT.parent / "shared" / "data")
    parser = argparse.ArgumentParser(description="Make the performance table from Gavel's figures.")
    parser.add_argument("throughputs", nargs="?", type=Path, default=corpus / NAME)
    parser.add_argument("-o", "--output", type=Path,
                        default=CHECKOUT / "hpcmgr" / "profile" / "performance.csv")  # fmt: skip
    chosen = parser.parse_args()
    licence = (chosen.throughputs.parent / "LICENSE").read_text(encoding="utf-8")
    throughputs = json.loads(chosen.throughputs.read_text(encoding="utf-8"))
    text = HEADER + "".join(f"#   {line}".rstrip() + "\n" for line in licence.splitlines())
    text += "workload,profile,speed,source\n"
    text += "".join(f"{w},{p},{speed:.3f},{SOURCE}\n" for w, p, speed in rows(throughputs))
    chosen.output.write_text(text, encoding="utf-8")


def rows(throughputs: dict[str, dict[str, dict[str, float]]]) -> Iterator[tuple[str, str, float]]:
    """Workload, profile and speed, sorted; a device that cannot run a workload has no row."""
    reference = next(iter(PROFILES))
    found = []
    for job, measured in throughputs[reference].items():
        name = _JOB.fullmatch(job)
        if name is None or not measured["null"]:
            continue
        for word, profile in PROFILES.items():
            speed = throughputs[word].get(job, {}).get("null", 0.0)
            if speed:
                found.append((*_key(name), profile, speed / measured["null"]))
    for workload, batch, profile, ratio in sorted(found):
        yield workload + (f"-b{batch}" if batch else ""), profile, ratio


def _key(name: re.Match[str]) -> tuple[str, int]:
    """``ResNet-18`` and 16 → ``resnet-18``, 16: the key is ``resnet-18-b16``."""
    return name["name"].lower().replace(" ", "-"), int(name["batch"] or 0)


if __name__ == "__main__":
    main()
