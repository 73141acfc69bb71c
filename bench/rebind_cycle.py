"""One cycle of late binding, decided: thousands of waiting jobs, every one on every device type.

    python -m bench.rebind_cycle [--jobs 5000] [--types 20] [--nodes 5000] [--sorts 200]

The floor, in the same run: sorting the queue and looking once at every job and type.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

from hpcmgr.settings.rebind import Rebind
from hpcmgr.slurm.state import NodeState
from hpcmgr.submit.estimate import Option, Running
from hpcmgr.submit.pool import make_pools
from hpcmgr.submit.rebind import Waiting, plan_moves

NOW = 1_800_000_000.0


def main() -> None:
    """Time both, print both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("jobs", 5000), ("types", 20), ("nodes", 5000), ("sorts", 200)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    print(f"{given.jobs} jobs in {given.sorts} sorts, {given.types} types, {given.nodes} nodes")
    print(f"{'':28}{'seconds':>9}{'x floor':>9}{'moves':>9}")
    for title, busy in (("full cluster", 1.0), ("a tenth is free", 0.9)):
        nodes = make_nodes(given.nodes, given.types, busy)
        jobs = make_jobs(given.jobs, given.types, given.sorts, nodes)
        running = list(held(nodes))
        rules = Rebind(moves_per_minute=10**9)
        floor = seconds(partial(look_once, jobs))
        took = seconds(partial(plan_moves, jobs, running, nodes, rules, NOW))
        moves = sum(bool(v.to) for v in plan_moves(jobs, running, nodes, rules, NOW).verdicts)
        print(f"{'floor: ' + title:28}{floor:9.3f}{1.0:9.1f}")
        print(f"{'cycle: ' + title:28}{took:9.3f}{took / floor:9.1f}{moves:9}")


def seconds(work: Callable[[], object]) -> float:
    """Median of five."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def look_once(jobs: list[Waiting]) -> float:
    """What no cycle can leave out."""
    total = 0.0
    for job in sorted(jobs, key=lambda j: (-j.priority, j.since)):
        for option in job.options:
            total += job.run / option.speed
    return total


def make_nodes(count: int, types: int, busy: float) -> list[NodeState]:
    """Nodes of 8 devices; of a share of them all are held, of the others some."""
    rng = random.Random(1)
    nodes = []
    for i in range(count):
        gres = f"gpu:t{i % types}"
        used = 8 if rng.random() < busy else rng.randrange(8)
        nodes.append(
            NodeState(f"n{i:05}", True, cpus=128, cpus_used=8 * used, memory=1 << 20,
                      gres={gres: 8}, used={gres: used}, partitions=("main",))
        )  # fmt: skip
    return nodes


def held(nodes: list[NodeState]) -> Iterator[Running]:
    """One job a node."""
    for i, node in enumerate(nodes):
        yield from (Running({node.name: {gres: n}}, NOW + 600 * (i % 99 + 1))
                    for gres, n in node.used.items() if n)  # fmt: skip


def make_jobs(count: int, types: int, sorts: int, nodes: list[NodeState]) -> list[Waiting]:
    """Jobs of 1 to 8 devices; those of a sort share their options, as the service makes them."""
    rng = random.Random(2)
    pools = {f"gpu:t{t}": make_pools(f"gpu:t{t}", [n for n in nodes if f"gpu:t{t}" in n.gres])
             for t in range(types)}  # fmt: skip
    shared = []
    for _ in range(sorts):
        devices, cpus = rng.choice([1, 1, 1, 2, 4, 8]), rng.choice([1, 4, 8])
        shared.append(
            tuple(Option(gres, devices, tuple(made), cpus * devices, 1000, 1 + t / types)
                  for t, (gres, made) in enumerate(pools.items()))
        )  # fmt: skip
    jobs = []
    for i in range(count):
        options = rng.choice(shared)
        own = rng.choice(options)
        run = rng.choice([0.5, 2, 8, 24]) * 3600
        jobs.append(
            Waiting(str(i), rng.randrange(1000), own.gres, own.devices, run, run, since=i,
                    options=options, tasks=rng.choice([1] * 20 + [100]))
        )  # fmt: skip
    return jobs


if __name__ == "__main__":
    main()
