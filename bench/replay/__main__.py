"""Four ways to choose the device type, on the jobs of public traces.

    python -m bench.replay [--trace gavel] [--interval 300]

(a) the fastest type, typed by the user; (b) native best practice: any type, the fastest nodes
first; (c) hpcmgr, bound at submission; (d) hpcmgr with late binding. Average completion time of (d)
over that of (b) and of (c) stands at the end of the line. docs/late-binding.md tells what came out.
"""

from __future__ import annotations

import argparse

from bench.replay.jobs import (
    ALIBABA_TYPES,
    Job,
    alibaba,
    arriving,
    gavel,
    hurried,
    overstated,
)
from bench.replay.neutral import Neutral, classes
from bench.replay.policies import Policy, fastest, untyped
from bench.replay.report import figures, table
from bench.replay.simulate import simulate
from hpcmgr.profile import DeviceProfile, ProfileLibrary, load_library
from hpcmgr.profile.performance import PerformanceTable, load
from hpcmgr.settings import Site

GAVEL_NODES = [(kind, 4) for kind in ("v100", "p100", "k80") for _ in range(9)]
GAVEL_UNITS = {"v100-16g": {"units": 1}, "p100-16g": {"units": 1}, "k80": {"units": 1}}


def main() -> None:
    """Replay and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trace", choices=["gavel", "alibaba"], default="gavel")
    parser.add_argument("--interval", type=float, default=300.0, help="seconds between two cycles")
    options = parser.parse_args()
    if options.trace == "gavel":
        replay_gavel(options.interval)
    else:
        replay_alibaba(options.interval)


def replay_gavel(interval: float) -> None:
    """Gavel's two traces as they are, and with jobs that go on arriving."""
    cases: list[tuple[str, list[Job]]] = []
    for name in ("max_min_fairness", "minimize_makespan"):
        jobs = gavel(name)
        cases.append((f"gavel {name}, limits true", jobs))
        cases.append((f"gavel {name}, limits 1 to 10 times too long", overstated(jobs, 10, 1)))
        for rate in (10, 16):
            more = arriving(jobs, 4, rate, 1)
            cases.append((f"gavel {name} four times, {rate} jobs an hour, limits true", more))
            cases.append(
                (f"gavel {name} four times, {rate} jobs an hour, limits too long",
                 overstated(more, 10, 1))
            )  # fmt: skip
    library = load_library(overrides=GAVEL_UNITS)
    for title, jobs in cases:
        print(compare(title, jobs, GAVEL_NODES, library, load(), interval), "\n", flush=True)


ALIBABA_NODES = [("g2", 8)] * 2 + [("t4", 2)] * 6 + [("p100", 2)] * 3 + [
    ("v100m32", 8), ("v100m16", 4), ("g3", 8), ("a10", 1)
]  # fmt: skip
"""A hundredth of that cluster: the jobs that ended in the trace never filled the whole."""
ALIBABA_JOBS = 1500
"""The last ones, of its busiest days."""
ALIBABA_HURRY = (1, 4)
"""As they came they leave the cluster idle; four times as fast there is a queue."""


def replay_alibaba(interval: float) -> None:
    """Jobs that name the types they can use. None is known to be faster on one of them, so (a) is
    what a user does who types the first, and only the constraints count."""
    kinds = sorted(set(ALIBABA_TYPES.values()))
    library = ProfileLibrary(tuple(_device(kind) for kind in kinds))
    nodes, none = ALIBABA_NODES, PerformanceTable({})
    as_they_came = alibaba(dict(sorted(nodes, key=lambda node: node[1])))[-ALIBABA_JOBS:]
    for times in ALIBABA_HURRY:
        jobs = hurried(as_they_came, times)
        for limits, each in (("true", jobs), ("1 to 10 times too long", overstated(jobs, 10, 1))):
            title = f"alibaba 2023, arriving {times} times as fast, limits {limits}"
            print(compare(title, each, nodes, library, none, interval), "\n", flush=True)


def _device(kind: str) -> DeviceProfile:
    """Alibaba's G2 and G3 are no models of the library."""
    return DeviceProfile.model_validate(
        {"name": kind, "title": kind, "vendor": "nvidia", "kind": "gpu", "runtime": "cuda",
         "match": {"model": [kind]}, "gres": {"name": "gpu", "type": kind}, "units": 1}
    )  # fmt: skip


def compare(
    title: str,
    jobs: list[Job],
    nodes: list[tuple[str, int]],
    library: ProfileLibrary,
    speeds: PerformanceTable,
    interval: float,
) -> str:
    """One table."""
    order = list(dict(nodes))
    name_of = {p.gres.type: p.name for p in library.profiles}
    profile_of = {kind: name_of[kind] for kind in order}
    wanted = classes(jobs, profile_of, speeds)
    site = Site.model_validate({"accounting": False, "classes": wanted})
    ways: dict[str, Policy] = {
        "(a) fastest type, typed": fastest(),
        "(b) any type, fastest nodes first": untyped(order),
        "(c) hpcmgr, bound at submission": Neutral(site, library, speeds, 0),
        "(d) hpcmgr, late binding": Neutral(site, library, speeds, interval),
    }
    devices = sum(count for _, count in nodes)
    rows = {name: figures(simulate(jobs, nodes, way), devices) for name, way in ways.items()}
    return table(f"{title}: {len(jobs)} jobs, {devices} devices", rows)


if __name__ == "__main__":
    main()
