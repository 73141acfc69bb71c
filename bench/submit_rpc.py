"""What a submission costs slurmctld: without a plugin, with a do-nothing Lua plugin, with hpcmgr.

    python -m bench.submit_rpc [--release 24.11] [--nodes 5000] [--held 1500] [--count 300]

The time of each submit RPC is the growth of its total in ``sdiag``: it covers the whole RPC, the
job_submit plugin included, and nothing of the client. Ratios are against the do-nothing plugin.
"""

from __future__ import annotations

import argparse
import itertools
import re
import statistics
from collections.abc import Callable

from lightcluster.site import ReferenceSite

NOTHING = """function slurm_job_submit(job, parts, uid) return slurm.SUCCESS end
function slurm_job_modify(job, rec, parts, uid) return slurm.SUCCESS end
"""
GRES = "gpu:a100:8,compute:64,vram:640"


def main() -> None:
    """Run all variants and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", default="24.11")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--held", type=int, default=1500)
    parser.add_argument("--count", type=int, default=300)
    options = parser.parse_args()
    with ReferenceSite(options.release, {"mix01": "mixed"}) as site:
        results = measure(site, options.nodes, options.held, options.count)
    report(results, options)


def measure(site: ReferenceSite, nodes: int, held: int, count: int) -> dict[str, list[float]]:
    """Microseconds of every submission, by variant."""
    shim = site.controller.read("/etc/slurm/job_submit.lua")
    enlarge(site, nodes)
    site.run(["sh", "-c", f"for i in $(seq {held}); do sbatch -Q -H --wrap=true >/dev/null; done"],
             user="bob", timeout=600, check=True)  # fmt: skip
    results: dict[str, list[float]] = {}

    def variant(name: str, *request: str) -> None:
        results[name] = times(site, count, *request)

    without_plugin(site, lambda: variant("no plugin, CPU job"))
    restart(site, NOTHING)
    variant("do-nothing Lua, CPU job")
    variant("do-nothing Lua, gpu job", "--gres=gpu:a100:1")
    restart(site, shim)
    variant("hpcmgr, CPU job")
    variant("hpcmgr, compute:8", "--gres=compute:8")
    site.stop_service()
    site.close_breaker()
    times(site, 1, "--gres=compute:8")  # opens the breaker
    variant("hpcmgr, service stopped, CPU job")
    variant("hpcmgr, service stopped, compute:8", "--gres=compute:8")
    return results


def enlarge(site: ReferenceSite, nodes: int) -> None:
    """More nodes in the configuration; they are down, as far as anybody can reach them."""
    text = site.controller.read("/etc/slurm/hpcmgr.conf")
    text += (
        f"NodeName=n[0001-{nodes:04}] NodeAddr=127.0.0.1 Sockets=2 CoresPerSocket=32 "
        f"RealMemory=500000 Gres={GRES} State=UNKNOWN\n"
    )
    gres = site.controller.read("/etc/slurm/gres.conf")
    gres += f"NodeName=n[0001-{nodes:04}] Name=gpu Type=a100 File=/dev/nvidia[0-7]\n"
    for name, units in (("compute", 64), ("vram", 640)):
        gres += f"NodeName=n[0001-{nodes:04}] Name={name} Count={units} Flags=CountOnly\n"
    site.write_conf({"hpcmgr.conf": text, "gres.conf": gres})
    site.restart_daemon("slurmctld")


def restart(site: ReferenceSite, script: str) -> None:
    """slurmctld with this job_submit.lua; the service has a picture of the cluster."""
    site.write_conf({"job_submit.lua": script})
    site.restart_daemon("slurmctld")
    site.wait_until(lambda: site.run(["scontrol", "ping"]).returncode == 0, 30, "slurmctld")
    site.run(["sleep", "6"])


def without_plugin(site: ReferenceSite, body: Callable[[], None]) -> None:
    """slurmctld without any job_submit plugin."""
    text = site.controller.read("/etc/slurm/slurm.conf")
    site.write_conf({"slurm.conf": re.sub(r"(?m)^JobSubmitPlugins=.*$", "", text)})
    site.restart_daemon("slurmctld")
    site.run(["sleep", "4"])
    body()
    site.write_conf({"slurm.conf": text})


def times(site: ReferenceSite, count: int, *request: str) -> list[float]:
    """Microseconds of ``count`` submissions, one by one; the jobs are held and then cancelled."""
    script = (
        f"for i in $(seq {count}); do sbatch -Q -H {' '.join(request)} --wrap=true >/dev/null;"
        " sdiag | grep REQUEST_SUBMIT_BATCH_JOB; done"
    )
    before = total(site.run(["sdiag"]).stdout)
    output = site.run(["sh", "-c", script], user="bob", timeout=600, check=True).stdout
    totals = [before, *map(total, output.splitlines())]
    return [float(b - a) for a, b in itertools.pairwise(totals)]


def total(text: str) -> int:
    """Microseconds of all submit RPCs since slurmctld started."""
    found = re.search(r"REQUEST_SUBMIT_BATCH_JOB.*total_time:(\d+)", text)
    return int(found[1]) if found else 0


def report(results: dict[str, list[float]], options: argparse.Namespace) -> None:
    """The table on stdout."""
    floor = {
        "cpu": statistics.median(results["do-nothing Lua, CPU job"]),
        "p99": percentile(results["do-nothing Lua, CPU job"], 99),
    }
    print(
        f"Slurm {options.release}, {options.nodes} nodes, {options.held} jobs held, "
        f"{options.count} submissions each; microseconds"
    )
    print(f"{'':38}{'median':>9}{'ratio':>7}{'p99':>9}{'ratio':>7}")
    for name, values in results.items():
        median, p99 = statistics.median(values), percentile(values, 99)
        print(
            f"{name:38}{median:9.0f}{median / floor['cpu']:7.2f}{p99:9.0f}{p99 / floor['p99']:7.2f}"
        )


def percentile(values: list[float], percent: int) -> float:
    """By nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


if __name__ == "__main__":
    main()
