"""What the service alone answers in, while its picture of the cluster is replaced without pause.

    python -m bench.service_latency [--nodes 5000] [--types 20] [--seconds 10]

No Slurm: small programs in its place print a cluster of that size. The floor is the same socket
with an echo in place of the service, in the same run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

NODE = (
    "NodeName=n{i:05} Arch=x86_64 CoresPerSocket=32 CPUAlloc={cpus} CPUEfctv=128 CPUTot=128 "
    "CPULoad=1.00 AvailableFeatures=gpu,cuda,nvidia,t{t} ActiveFeatures=gpu "
    "Gres=gpu:t{t}:8(S:0-1),compute:64,vram:640 GresDrain=N/A "
    "GresUsed=gpu:t{t}:{used}(IDX:0-{used}),compute:8,vram:80 NodeAddr=n{i:05} "
    "NodeHostName=n{i:05} "
    "Version=24.11.5 OS=Linux RealMemory=512000 AllocMem=1000 FreeMem=1 Sockets=2 Boards=1 "
    "State=MIXED ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=main "
    "BootTime=2026-01-01T00:00:00 CfgTRES=cpu=128 AllocTRES="
)

FORMS: list[dict[str, object]] = [
    {"tres_per_node": f"gres/compute:{units}", "user_name": user, **more}
    for user in ("alice", "bob")
    for units in (8, 16, 32)
    for more in ({}, {"min_nodes": 2, "max_nodes": 2, "cpus_per_task": 4, "time_limit": 60})
]
"""Twelve, as users submit them."""


def main() -> None:
    """Run the service and the floor, print both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--types", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_cluster(folder, options.nodes, options.types)
        floor = echo_times(folder / "echo.sock", options.seconds / 4)
        one, mixed, memory = service_times(folder, options.seconds)
    print(f"{options.nodes} nodes, {options.types} device types; milliseconds")
    print(f"{'':24}{'median':>9}{'p99':>9}{'max':>9}{'answers':>9}")
    for name, values in (
        ("echo, same socket", floor),
        ("serve, one request", one),
        (f"serve, {len(FORMS)} forms", mixed),
    ):
        ordered = sorted(values)
        p99 = ordered[len(ordered) * 99 // 100]
        print(
            f"{name:24}{statistics.median(values):9.3f}{p99:9.3f}{ordered[-1]:9.3f}{len(values):9}"
        )
    print(f"resident memory of the service, all its processes: {memory} MiB")


def write_cluster(folder: Path, nodes: int, types: int) -> None:
    """Programs named scontrol and squeue, profiles and a site.yaml."""
    lines = [NODE.format(i=i, t=i % types, used=i % 8, cpus=(i % 8) * 8) for i in range(nodes)]
    (folder / "nodes.txt").write_text("\n".join(lines) + "\n")
    (folder / "scontrol").write_text(
        '#!/bin/sh\ncase "$*" in -V) echo slurm 24.11.5;; *nodes*) cat '
        f"{folder}/nodes.txt;; *partitions*) echo PartitionName=main Default=YES State=UP;; esac\n"
    )
    (folder / "squeue").write_text("#!/bin/sh\n")
    for name in ("scontrol", "squeue"):
        (folder / name).chmod(0o755)
    (folder / "profiles").mkdir()
    for t in range(types):
        (folder / "profiles" / f"t{t}.yaml").write_text(
            f"name: t{t}\ntitle: T\nvendor: nvidia\nkind: gpu\nruntime: cuda\n"
            f"match: {{model: [x{t}]}}\ngres: {{name: gpu, type: t{t}}}\nunits: {t + 4}\n"
            "memory_gib: 80\n"
        )
    (folder / "site.yaml").write_text(
        json.dumps(
            {
                "profiles": {"dirs": [str(folder / "profiles")]},
                "service": {
                    "socket": str(folder / "submit.sock"),
                    "state_dir": str(folder / "state"),
                    "refresh": 0.01,
                },
            }
        )
    )


def service_times(folder: Path, seconds: float) -> tuple[list[float], list[float], int]:
    """Milliseconds of every answer to one request and to many, and resident MiB at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hpcmgr", "--config", str(folder / "site.yaml"), "serve"],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(folder / "submit.sock")
        time.sleep(4)
        one = ask(folder / "submit.sock", seconds, FORMS[:1])
        many = ask(folder / "submit.sock", seconds, FORMS)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        memory = sum(resident(int(each)) for each in (process.pid, *children))
    finally:
        process.terminate()
        process.wait(10)
    return one, many, memory


def resident(pid: int) -> int:
    """MiB; of what a process shares with others, its share (the second one is a fork)."""
    sizes = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(sizes.split("Pss:")[1].split()[0]) // 1024


def echo_times(path: Path, seconds: float) -> list[float]:
    """The floor: accept, read a line, answer a line."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(64)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(connection.makefile("rb").readline())

    threading.Thread(target=serve, daemon=True).start()
    values = ask(path, seconds, FORMS[:1])
    listener.close()
    return values


def ask(path: Path, seconds: float, forms: Sequence[Mapping[str, object]]) -> list[float]:
    """One question after the other on new connections, as the shim asks."""
    lines = itertools.cycle(
        json.dumps({"v": 1, "op": "submit", "uid": 1, "job": job}).encode() + b"\n" for job in forms
    )
    values: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        line = next(lines)
        started = time.perf_counter()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(line)
            connection.makefile("rb").readline()
        values.append((time.perf_counter() - started) * 1000)
        time.sleep(0.001)
    return values


def wait_for(path: Path) -> None:
    """Until the socket is there."""
    for _ in range(200):
        if path.exists():
            return
        time.sleep(0.05)
    raise SystemExit(f"no {path}: hpcmgr serve did not start")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    main()
