"""``hpcmgr render`` as a user runs it, over 10,000 published nodes of mixed shapes.

    python -m bench.render_scale [--nodes 10000] [--again 3]

The floor is a Python that reads the same files with ``json.load`` and does nothing else, in the
same run. Says whether the same nodes published in another order give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HOSTS = Path(__file__).parent.parent / "tests" / "hosts"
SHAPES = ("a100x8", "npu8", "mi300x8", "mixed", "t4x4", "gaudi8", "mlu2mx2", "cpu01")
FLOOR = """
import json, os, sys
for entry in os.scandir(sys.argv[1]):
    with open(entry.path, "rb") as file:
        json.load(file)
"""


def main() -> None:
    """Write the inventories, run both, print ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--again", type=int, default=3, help="runs of each; medians are printed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        size = write_all(folder / "a", options.nodes, seed=None)
        write_all(folder / "b", options.nodes, seed=7)
        floor, ours = [], []
        for _ in range(options.again):
            floor.append(timed([sys.executable, "-c", FLOOR, str(folder / "a")]))
            ours.append(render(folder, "a"))
        render(folder, "b")
        texts = [
            {p.name: p.read_bytes() for p in sorted((folder / f"out-{x}").iterdir())} for x in "ab"
        ]
    print(f"{options.nodes} nodes of {len(SHAPES)} machines and some odd ones, {size >> 20} MiB")
    print(f"{'':28}{'wall s':>8}{'CPU s':>8}{'MiB':>7}{'CPU ratio':>11}")
    base = statistics.median(cpu for _, cpu, _ in floor)
    for name, runs in (("json.load of every file", floor), ("hpcmgr render --out", ours)):
        wall = statistics.median(w for w, _, _ in runs)
        cpu = statistics.median(c for _, c, _ in runs)
        memory = max(m for _, _, m in runs)
        print(f"{name:28}{wall:8.2f}{cpu:8.2f}{memory:7.0f}{cpu / base:11.2f}")
    lines = sum(text.count(b"\nNodeName=") for text in texts[0].values())
    print(f"{lines} NodeName lines; in another order published: "
          f"{'the same bytes' if texts[0] == texts[1] else 'OTHER BYTES'}")  # fmt: skip


def write_all(folder: Path, nodes: int, seed: int | None) -> int:
    """One file a node, in the order of names or shuffled; returns their size in bytes."""
    folder.mkdir()
    machines = [_machine(name) for name in SHAPES]
    chosen = list(_names(nodes))
    if seed is not None:
        random.Random(seed).shuffle(chosen)
    for number, name in chosen:
        (folder / f"{name}.json").write_text(_node(machines, number, name))
    return sum(entry.stat().st_size for entry in os.scandir(folder))


def _names(nodes: int) -> Iterator[tuple[int, str]]:
    """rack01n001 … rack40n250, and a few named otherwise."""
    for number in range(nodes):
        odd = number % 500 == 499
        name = f"login-gpu{number}" if odd else f"rack{number // 250 + 1:02}n{number % 250 + 1:03}"
        yield number, name


def _machine(name: str) -> dict[str, Any]:
    from hpcmgr.configure import inventory_of
    from hpcmgr.discovery import open_host
    from hpcmgr.settings import Site

    found: dict[str, Any] = json.loads(inventory_of(open_host(HOSTS / name), Site()).to_json())
    return found


def _node(machines: list[dict[str, Any]], number: int, name: str) -> str:
    """A machine as it publishes itself: racks are alike, every device has its own serial, here and
    there one is lost or a DIMM is missing."""
    machine = json.loads(json.dumps(machines[number // 250 % len(machines)]))
    machine["node"] = name
    for i, device in enumerate(machine["devices"]):
        device["uuid"] = f"GPU-{number:08x}-{i:04x}"
        device["serial"] = f"{number * 16 + i:013}"
    if number % 997 == 0 and machine["devices"]:
        del machine["devices"][-1]
    if number % 331 == 0:
        machine["memory_mib"] -= 32_768 if machine["memory_mib"] > 65_536 else 0
    return json.dumps(machine, indent=2) + "\n"


def render(folder: Path, which: str) -> tuple[float, float, float]:
    """Wall and CPU seconds and MiB of ``hpcmgr render``."""
    site = folder / f"site-{which}.yaml"
    groups = [
        {"nodes": f"rack[{a:02}-{a + 9:02}]n[001-250]", "pool": f"p{a}"} for a in (1, 11, 21, 31)
    ]
    site.write_text(json.dumps({"inventory": str(folder / which), "nodes": groups}))
    out = folder / f"out-{which}"
    argv = [sys.executable, "-m", "hpcmgr", "--config", str(site), "render", "--out", str(out)]
    return timed(argv)


def timed(argv: Sequence[str]) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak MiB of a program."""
    start = time.perf_counter()
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(argv)} ended with {process.returncode}")
    cpu = usage.ru_utime + usage.ru_stime
    return time.perf_counter() - start, cpu, usage.ru_maxrss / 1024


if __name__ == "__main__":
    main()
