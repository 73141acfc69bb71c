"""The same jobs on a real Slurm, with time compressed, beside the simulator's word for them.

    python -m bench.replay.real [--release 26.05] [--jobs 36] [--hour 4]

Nine nodes of the light cluster pose as V100, P100 and K80 machines. A job sleeps as long as it
would run on the type that it got. Ways (a) to (d), one after the other; as root, a few minutes
each.
"""

from __future__ import annotations

import argparse
import math
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bench.replay.__main__ import GAVEL_UNITS
from bench.replay.jobs import Job, gavel
from bench.replay.neutral import Neutral, class_name, classes
from bench.replay.policies import Policy, fastest, untyped
from bench.replay.simulate import simulate
from hpcmgr.profile import load_library
from hpcmgr.profile.performance import load
from hpcmgr.settings import Site
from lightcluster.site import HOSTS, ReferenceSite

KINDS = {"v100": ("Tesla V100-SXM2-16GB", "1db1"), "p100": ("Tesla P100-SXM2-16GB", "15f9"),
         "k80": ("Tesla K80", "102d")}  # fmt: skip
NODES = [(kind, 4) for kind in KINDS for _ in range(3)]
REBIND = {"interval": 2, "gain_seconds": 2, "near_start": 1, "settle": 3, "moves_per_minute": 600}
WAYS = {"a": "(a) fastest type, typed", "b": "(b) any type", "c": "(c) at submission",
        "d": "(d) late binding"}  # fmt: skip
STARTS = 1.5
"""Seconds that Slurm takes to start a job here; given to the simulator as run time."""


def main() -> None:
    """Run and print one line a way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", default="26.05")
    parser.add_argument("--jobs", type=int, default=36)
    parser.add_argument("--ways", default="abcd", help="which of them: bd")
    parser.add_argument("--hour", type=float, default=4.0, help="seconds that stand for an hour")
    options = parser.parse_args()
    jobs = [compressed(job, options.hour) for job in gavel("minimize_makespan")[: options.jobs]]
    print(f"{len(jobs)} jobs, average completion in seconds")
    print(f"  {'':24}{options.release:>8}{'simul.':>8}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as place:
        hosts = {kind: pose(kind, Path(place)) for kind in KINDS}
        for way in options.ways:
            real, told = replay(way, jobs, hosts, options.release), simulated(way, jobs)
            print(f"  {WAYS[way]:24}{real:8.1f}{told:8.1f}{real / told:8.2f}", flush=True)


def compressed(job: Job, hour: float) -> Job:
    """Seconds for hours; Slurm's limits are whole minutes."""
    seconds = {kind: max(1.0, value * hour / 3600) for kind, value in job.seconds.items()}
    limit = 60.0 * math.ceil((max(seconds.values()) + 10) / 60)
    return replace(job, submit=0.0, seconds=seconds, limit=limit)


def pose(kind: str, place: Path) -> str:
    """The recorded T4 machine, re-typed."""
    model, number = KINDS[kind]
    target = place / kind
    shutil.copytree(HOSTS / "t4x4", target, symlinks=True)
    for file in target.rglob("*"):
        if file.is_file() and not file.is_symlink():
            text = file.read_text()
            changed = text.replace("Tesla T4", model).replace("1EB8", number.upper())
            file.write_text(changed.replace("1eb8", number).replace("15360", "16160"))
    return str(target)


def settings(way: str, jobs: list[Job]) -> dict[str, object]:
    """Keys of site.yaml."""
    library = load_library(overrides=GAVEL_UNITS)
    profile_of = {p.gres.type: p.name for p in library.profiles if p.gres.type in KINDS}
    rebind = {**REBIND, "enabled": way == "d"}
    return {"profiles": {"override": GAVEL_UNITS}, "classes": classes(jobs, profile_of, load()),
            "rebind": rebind, "accounting": False, "direct_totals": "unbilled"}  # fmt: skip


def replay(way: str, jobs: list[Job], hosts: Mapping[str, str], release: str) -> float:
    """Average completion time on the cluster."""
    names = [f"{kind}{i}" for kind in KINDS for i in range(3)]
    machines = {name: hosts[name[:-1]] for name in names}
    fabric = {"all": {"nodes": ",".join(names)}}
    site = ReferenceSite(release, machines, site={**settings(way, jobs), "fabric": fabric})
    with site:
        for place in range(len(KINDS)):  # the fastest nodes first
            for name in names[place * 3 : place * 3 + 3]:
                site.run(
                    ["scontrol", "update", f"NodeName={name}", f"Weight={place + 1}"], check=True
                )
        site.run(["install", "-d", "-m", "1777", "/shared/out"], check=True)
        submitted = {job.name: submit(site, way, job) for job in jobs}
        while not (ends := ended(site, len(jobs))):
            time.sleep(1)
        return sum(ends[name] - submitted[name] for name in submitted) / len(jobs)


def submit(site: ReferenceSite, way: str, job: Job) -> float:
    """sbatch; returns when."""
    forms = {"a": f"gpu:{job.fastest}:{job.devices}", "b": f"gpu:{job.devices}"}
    asked = forms.get(way, f"compute:{class_name(job)}:{job.devices}")
    cases = " ".join(f"gpu:{kind}) sleep {s:.2f};;" for kind, s in job.seconds.items())
    body = (
        f"#!/bin/sh\ncase $HPCMGR_GRES in {cases} *) sleep 999;; esac\n"
        f"date +%s.%N >/shared/out/{job.name}\n"
    )
    line = ["sbatch", "--parsable", "-o", "/dev/null", f"-t{int(job.limit / 60)}",
            f"--gres={asked}"]  # fmt: skip
    moment = time.time()
    site.run(line, user="alice", input=body, check=True)
    return moment


def ended(site: ReferenceSite, number: int) -> dict[str, float] | None:
    """When each job ended, once all have."""
    text = site.run(["sh", "-c", "cd /shared/out; grep -H . * 2>/dev/null"]).stdout
    found = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {k: float(v) for k, v in found.items()} if len(found) == number else None


def simulated(way: str, jobs: list[Job]) -> float:
    """The simulator's word for the same jobs on the same nodes."""
    slow = [
        replace(job, seconds={k: s + STARTS for k, s in job.seconds.items()}) for job in jobs
    ]  # fmt: skip
    native: dict[str, Policy] = {"a": fastest(), "b": untyped(list(KINDS))}
    site = Site.model_validate(settings(way, jobs))
    library = load_library(overrides=GAVEL_UNITS)
    interval = REBIND["interval"] if way == "d" else 0.0
    done = simulate(slow, NODES, native.get(way) or Neutral(site, library, load(), interval))
    return sum(d.completion for d in done) / len(done)


if __name__ == "__main__":
    main()
