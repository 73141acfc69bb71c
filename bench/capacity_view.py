"""How long ``hpcmgr capacity`` takes on a large cluster, beside the raw answer that it is made of.

    python -m bench.capacity_view [--release 24.11] [--nodes 5000] [--jobs 1500] [--rounds 5]

A real slurmctld with that many configured nodes (down: nobody answers there), their inventories,
and waiting jobs. hpcmgr runs from compiled files, as installed. The floor is ``scontrol -o -d show
node`` alone, in the same rounds; the ratio is against it.
``CPU`` is what the command itself used: on a busy machine the clock tells less.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

from bench.submit_rpc import enlarge
from lightcluster.site import ReferenceSite

Times = dict[str, list[tuple[float, float]]]
"""Command → (seconds on the clock, of the CPU) of each round."""

COMPILED = "export PYTHONPYCACHEPREFIX=/tmp/compiled"
FLOOR = "scontrol -o -d show node"
LINES = (
    FLOOR,
    "scontrol -o show node",
    "sinfo -h -N -O NodeList,StateLong,Gres:300,GresUsed:300",
    "squeue -h",
    "squeue --json",
    "hpcmgr --version",
    "hpcmgr capacity",
    "hpcmgr capacity --by node",
    "hpcmgr capacity --by partition",
    "hpcmgr capacity --by class",
    "hpcmgr capacity --by user",
    "hpcmgr capacity --by account",
    "hpcmgr capacity --json",
    "hpcmgr capacity --prometheus",
    "hpcmgr capacity --html -",
    "hpcmgr capacity --fit 'compute:8 -t 60'",
)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", default="24.11")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with ReferenceSite(options.release, {"mix01": "mixed"}, accounting=True) as site:
        enlarge(site, options.nodes)
        site.wait_until(lambda: site.run(["scontrol", "ping"]).returncode == 0, 60, "slurmctld")
        _publish(site, options.nodes)
        _fill(site, options.jobs)
        found = measure(site, options.rounds)
    report(found, options)


def _publish(site: ReferenceSite, nodes: int) -> None:
    """An inventory of each node; returns when the service has read them."""
    script = (
        "cd /shared/hpcmgr/inventory; "
        f"for i in $(seq -f n%04.0f {nodes}); do sed s/mix01/$i/ mix01.json >$i.json; done"
    )
    site.run(["sh", "-c", script], check=True, timeout=300)
    site.stop_service()
    site.start_service()
    time.sleep(0.004 * nodes)


def _fill(site: ReferenceSite, jobs: int) -> None:
    """Held jobs with devices, submitted one by one: each is a record of its own."""
    line = "sbatch -Q -H --gres=gpu:a100:2 --wrap=true >/dev/null"
    for user, part in (("alice", jobs // 2), ("bob", jobs - jobs // 2)):
        loop = f"for i in $(seq {part}); do {line}; done"
        site.run(["sh", "-c", loop], user=user, timeout=600, check=True)


def measure(site: ReferenceSite, rounds: int) -> Times:
    """Seconds of each command, one after another in each round."""
    found: Times = {line: [] for line in LINES}
    for line in LINES:
        site.run(["bash", "-c", f"{COMPILED}; {line}"], check=True, timeout=120)
    for _ in range(rounds):
        for line in LINES:
            script = f"{COMPILED}; TIMEFORMAT='%R %U %S'; time {line} >/tmp/out"
            done = site.run(["bash", "-c", script], check=True, timeout=120)
            wall, user, system = map(float, done.stderr.split()[-3:])
            found[line].append((wall, user + system))
    return found


def report(found: Times, options: argparse.Namespace) -> None:
    """Medians, and how often the floor they are."""
    floor = statistics.median(wall for wall, _ in found[FLOOR])
    print(
        f"Slurm {options.release}, {options.nodes} nodes, {options.jobs} waiting jobs, "
        f"{options.rounds} rounds; seconds (load {os.getloadavg()[0]:.0f} on {os.cpu_count()} CPUs)"
    )
    print(f"{'':58}{'median':>8}{'best':>8}{'ratio':>8}{'CPU':>8}")
    for line, values in found.items():
        walls, cpus = zip(*values, strict=True)
        median = statistics.median(walls)
        print(
            f"{line:58}{median:8.2f}{min(walls):8.2f}{median / floor:8.1f}"
            f"{statistics.median(cpus):8.2f}"
        )


if __name__ == "__main__":
    main()
