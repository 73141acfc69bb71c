"""What a submission costs slurmctld: without a plugin, with a do-nothing Lua plugin, with hpcmgr.

    python -m bench.submit_rpc [--release 24.11] [--nodes 5000] [--held 1500] [--rounds 10]

The time of each submit RPC is the growth of its total in ``sdiag``: it covers the whole RPC, the
job_submit plugin included, and nothing of the client. All variants run on one slurmctld, one after
another in rounds, each round in another order, so that what drifts meets them all. The ratio of a
variant is that to a do-nothing plugin which gets the request that hpcmgr makes of it: Slurm's own
work for it is in both. The floor is what any service outside slurmctld costs: that plugin with one
exchange with a bare echo server.
"""

from __future__ import annotations

import argparse
import itertools
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from lightcluster.enter import Spawned
from lightcluster.site import ReferenceSite

NOTHING = """function slurm_job_submit(job, parts, uid) return slurm.SUCCESS end
function slurm_job_modify(job, rec, parts, uid) return slurm.SUCCESS end
"""
ECHO_SOCKET = "/run/echo.sock"
ECHO_LUA = f"""local unix = require("socket.unix")
local make = type(unix) == "table" and unix.stream or unix
local line = ("x"):rep(500) .. "\\n"
function slurm_job_submit(job, parts, uid)
    local conn = make()
    conn:settimeout(1)
    assert(conn:connect("{ECHO_SOCKET}"))
    conn:send(line)
    conn:receive("*l")
    conn:close()
    return slurm.SUCCESS
end
function slurm_job_modify(job, rec, parts, uid) return slurm.SUCCESS end
"""
ECHO_SERVER = f"""import os, socket
listener = socket.socket(socket.AF_UNIX)
listener.bind("{ECHO_SOCKET}")
os.chmod("{ECHO_SOCKET}", 0o666)
listener.listen(64)
while True:
    connection, _ = listener.accept()
    connection.sendall(connection.recv(65536))
    connection.close()
"""
GRES = "gpu:a100:8,compute:64,vram:640"
BOUND, UNBOUND = "gpu:a100:1,compute:8,vram:80", "compute:unbound:8"
EACH = 30
"""Submissions of a variant in a round."""


@dataclass(frozen=True)
class Variant:
    """A plugin and a request; what the job must ask for then, so that nothing else is measured."""

    name: str
    script: str
    gres: str = ""
    becomes: str = ""
    against: str = ""
    serves: bool = True


def main() -> None:
    """Run all variants and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", default="24.11")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--held", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    with ReferenceSite(options.release, {"mix01": "mixed"}) as site:
        shim = site.controller.read("/etc/slurm/job_submit.lua")
        variants = variants_with(shim)
        results = measure(site, options.nodes, options.held, options.rounds, variants)
    report(results, variants, options)


def variants_with(shim: str) -> list[Variant]:
    """All of them; ``against`` names the one that a ratio is to."""
    cpu, bound, unbound = (f"do-nothing Lua, {what}" for what in ("CPU job", BOUND, UNBOUND))
    return [
        Variant(cpu, NOTHING, against=cpu),
        Variant(bound, NOTHING, BOUND, BOUND, bound),
        Variant(unbound, NOTHING, UNBOUND, UNBOUND, unbound),
        Variant("floor: echo, same request", ECHO_LUA, BOUND, BOUND, bound),
        Variant("hpcmgr, CPU job", shim, against=cpu),
        Variant("hpcmgr, compute:8", shim, "compute:8", BOUND, bound),
        Variant("stopped, CPU job", shim, against=cpu, serves=False),
        Variant("stopped, compute:8", shim, "compute:8", UNBOUND, unbound, serves=False),
    ]


def measure(
    site: ReferenceSite, nodes: int, held: int, rounds: int, variants: list[Variant]
) -> dict[str, list[float]]:
    """Microseconds of every submission, by variant."""
    enlarge(site, nodes)
    site.run(["sh", "-c", f"for i in $(seq {held}); do sbatch -Q -H --wrap=true >/dev/null; done"],
             user="alice", timeout=600, check=True)  # fmt: skip
    results: dict[str, list[float]] = {each.name: [] for each in variants}
    echo = start_echo(site)
    for turn in range(rounds):
        start = turn * 3 % len(variants)
        for variant in variants[start:] + variants[:start]:
            results[variant.name] += one_round(site, variant)
    echo.stop()
    without_plugin(site, lambda: results.update({"no plugin, CPU job": times(site, EACH * rounds)}))
    return results


def start_echo(site: ReferenceSite) -> Spawned:
    """The bare server of the floor."""
    echo = site.spawn(["python3", "-c", ECHO_SERVER], user="root")
    site.wait_until(lambda: site.run(["test", "-S", ECHO_SOCKET]).returncode == 0, 10, "echo")
    return echo


def one_round(site: ReferenceSite, variant: Variant) -> list[float]:
    """The submissions of one variant, after some that load the script and open the breaker."""
    if not variant.serves:
        site.stop_service()
    elif site.service is None:
        site.start_service()
    site.write_conf({"job_submit.lua": variant.script})
    site.close_breaker()
    request = [f"--gres={variant.gres}"] if variant.gres else []
    site.wait_until(lambda: becomes(site, request) == variant.becomes, 30, variant.name)
    values = times(site, EACH, *request)
    site.run(["scancel", "-u", "bob"], check=True)
    return values


def becomes(site: ReferenceSite, request: list[str]) -> str:
    """The GRES of a job with this request."""
    line = ["sbatch", "-H", "--parsable", *request, "--wrap=true"]
    job_id = site.run(line, user="bob", check=True).stdout.strip()
    shown = site.run(["squeue", "-h", "-j", job_id, "-O", "tres-per-node:200"]).stdout.strip()
    return shown.replace("gres/", "").replace("gres:", "").replace("N/A", "")


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


def without_plugin(site: ReferenceSite, body: Callable[[], None]) -> None:
    """slurmctld without any job_submit plugin."""
    text = site.controller.read("/etc/slurm/slurm.conf")
    site.write_conf({"slurm.conf": re.sub(r"(?m)^JobSubmitPlugins=.*$", "", text)})
    site.restart_daemon("slurmctld")
    site.run(["sleep", "4"])
    body()
    site.write_conf({"slurm.conf": text})


def times(site: ReferenceSite, count: int, *request: str) -> list[float]:
    """Microseconds of ``count`` submissions, one by one; the jobs are held."""
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


def report(
    results: dict[str, list[float]], variants: list[Variant], options: argparse.Namespace
) -> None:
    """The table on stdout."""
    print(
        f"Slurm {options.release}, {options.nodes} nodes, {options.held} jobs held, "
        f"{options.rounds} rounds of {EACH} submissions each; microseconds"
    )
    print(f"{'':46}{'median':>9}{'ratio':>7}{'p99':>9}{'ratio':>7}")
    against = {each.name: each.against for each in variants}
    for name, values in results.items():
        base = results[against.get(name, variants[0].name)]
        cells = ""
        for percent in (50, 99):
            value = percentile(values, percent)
            cells += f"{value:9.0f}{value / percentile(base, percent):7.2f}"
        print(f"{name:46}{cells}")
    served, floor = (
        statistics.median(results[name])
        for name in ("hpcmgr, compute:8", "floor: echo, same request")
    )
    print(f"hpcmgr, compute:8, to the floor: {served / floor:.2f}")


def percentile(values: list[float], percent: int) -> float:
    """By nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


if __name__ == "__main__":
    main()
