"""Jobs of public traces: what each asks for, and how long it runs on each device type.

Gavel (D. Narayanan and others, OSDI 2020): training jobs with measured throughputs on V100, P100
and K80. Alibaba's GPU trace of 2023: jobs that name the types they can use. Both are read from
``traces/`` below $HPCMGR_CORPUS, or below ``../shared/data`` beside the checkout.
"""

from __future__ import annotations

import csv
import json
import os
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

TRACES = (
    Path(
        os.environ.get("HPCMGR_CORPUS")
        or Path(__file__).resolve().parent.parent.parent.parent / "shared" / "data"
    )
    / "traces"
)


@dataclass(frozen=True, slots=True)
class Job:
    """``seconds``: true run time by device type, only the types that it can run on; hidden from
    whoever chooses. ``limit``: what the user gives as time limit, the same for every type, since
    he cannot know which he will get."""

    name: str
    submit: float
    devices: int
    workload: str
    seconds: Mapping[str, float]
    limit: float

    @property
    def fastest(self) -> str:
        """The type it runs fastest on; of equal ones the first that it names."""
        return min(self.seconds, key=self.seconds.__getitem__)


def gavel(name: str) -> list[Job]:
    """A trace file of Gavel's; one job of the trace that a type cannot run does not name it."""
    measured = json.loads((TRACES / "gavel" / "simulation_throughputs.json").read_text())
    jobs = []
    for number, line in enumerate((TRACES / "gavel" / f"{name}.trace").read_text().splitlines()):
        cells = line.split("\t")
        key = str((cells[0], int(cells[6])))
        seconds = {
            kind: int(cells[5]) / speed
            for kind in ("v100", "p100", "k80")
            if (speed := measured[kind].get(key, {}).get("null"))
        }
        job = Job(
            f"{number:04}", float(cells[9]), int(cells[6]), _workload(cells[0]), seconds,
            max(seconds.values()),
        )  # fmt: skip
        jobs.append(job)
    return jobs


def _workload(text: str) -> str:
    """``ResNet-18 (batch size 128)`` → ``resnet-18-b128``, the key of the performance table."""
    found = re.fullmatch(r"(.+?)(?: \(batch size (\d+)\))?", text)
    assert found
    return found[1].lower().replace(" ", "-") + (f"-b{found[2]}" if found[2] else "")


ALIBABA_TYPES = {"G2": "g2", "T4": "t4", "G3": "g3", "P100": "p100", "V100M32": "v100m32",
                 "V100M16": "v100m16", "A10": "a10"}  # fmt: skip


def alibaba(largest: Mapping[str, int]) -> list[Job]:
    """Jobs with devices of the 2023 trace, those that had ended, on the types that they name (or on
    any) with nodes of enough devices; ``largest``: devices of the largest node by type. A fraction
    of a device takes one whole, as neutral units do. No speeds were measured, so a job runs as long
    on every type it can use."""
    file = TRACES / "alibaba-gpu-v2023" / "openb_pod_list_gpuspec33.csv"
    jobs = []
    for row in csv.DictReader(file.open()):
        if row["num_gpu"] == "0" or not row["deletion_time"] or not row["scheduled_time"]:
            continue
        length = float(row["deletion_time"]) - float(row["scheduled_time"])
        named = [ALIBABA_TYPES[word] for word in row["gpu_spec"].split("|") if word]
        types = [
            kind
            for kind in named or ALIBABA_TYPES.values()
            if largest.get(kind, 0) >= int(row["num_gpu"])
        ]
        if length > 0 and types:
            jobs.append(
                Job(row["name"], float(row["creation_time"]), int(row["num_gpu"]),
                    "|".join(sorted(set(types))) if named else "any",
                    dict.fromkeys(types, length), length)
            )  # fmt: skip
    return jobs


def hurried(jobs: Iterable[Job], times: float) -> list[Job]:
    """The same jobs, arriving so many times as fast."""
    return [replace(job, submit=job.submit / times) for job in jobs]


def arriving(jobs: Iterable[Job], times: int, an_hour: float, seed: int) -> list[Job]:
    """The jobs ``times`` over, in random order, arriving by chance, ``an_hour`` on average."""
    dice = random.Random(seed)
    pool = [job for _ in range(times) for job in jobs]
    dice.shuffle(pool)
    moment, out = 0.0, []
    for number, job in enumerate(pool):
        moment += dice.expovariate(an_hour / 3600)
        out.append(replace(job, name=f"{number:04}", submit=moment))
    return out


def overstated(jobs: Iterable[Job], most: float, seed: int) -> list[Job]:
    """Limits 1 to ``most`` times too long, by chance."""
    dice = random.Random(seed)
    return [replace(job, limit=job.limit * dice.uniform(1.0, most)) for job in jobs]
