"""Four ways to choose the device type, on the jobs of public traces.

    python -m bench.replay [--trace gavel] [--interval 60]

(a) the fastest type, typed by the user; (b) native best practice: any type, the fastest nodes
first; (c) hpcmgr, bound at submission; (d) hpcmgr with late binding. Average completion time of (d)
over that of (b) and of (c) stands at the end of the line. docs/late-binding.md tells what came out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable

from bench.replay.jobs import (
    ALIBABA_TYPES,
    Job,
    alibaba,
    alibaba_nodes,
    arriving,
    gavel,
    overstated,
)
from bench.replay.neutral import Neutral, classes
from bench.replay.policies import Policy, fastest, untyped
from bench.replay.report import figures, table
from bench.replay.simulate import simulate
from hpcmgr.profile import ProfileLibrary, load_library
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
    parser.add_argument("--interval", type=float, default=60.0, help="seconds between two cycles")
    options = parser.parse_args()
    if options.trace == "gavel":
        replay_gavel(options.interval)


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


def compare(
    title: str,
    jobs: list[Job],
    nodes: list[tuple[str, int]],
    library: ProfileLibrary,
    speeds: PerformanceTable,
    interval: float,
) -> str:
    """One table."""
    site = Site.model_validate({"accounting": False, "classes": classes(jobs)})
    order = [kind for kind, _ in dict(nodes).items()]
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
