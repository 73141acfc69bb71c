"""The demonstration: every step is a command, shown with what it prints."""

from __future__ import annotations

import shlex
import time

from dockercluster.cluster import DockerCluster

# Opens every accelerator of the node and says which ones the job may have.
LOOK = """\
for file in /dev/nvidia[0-9]* /dev/davinci[0-9]*; do
    [ -e "$file" ] || continue
    said=$( (exec 3<"$file") 2>&1 ) || true
    case $said in
    *"not permitted"*) echo "$(hostname) $file refused" ;;
    *) echo "$(hostname) $file open" ;;
    esac
done
"""
REQUESTS = ("compute:8", "compute:npu:16", "compute:cuda:1")
# On 26.05 an NPU job is bound per socket: one of the two last columns has its devices.
_QUEUE = "squeue -O JobID:6,State:9,NodeList:9,Reason:12,tres-per-node:52,tres-per-socket"
_ACCOUNTS = "--format=jobid%6,state,nodelist,alloctres%100"


def show(cluster: DockerCluster) -> None:
    """Jobs in neutral units, a node that dies, a network that is cut."""
    _jobs(cluster)
    _dead_node(cluster)
    _cut_network(cluster)


def _title(text: str) -> None:
    print(f"\n== {text}\n", flush=True)


def _tell(cluster: DockerCluster, host: str, command: str, user: str = "root") -> str:
    """Print a command and what it says; returns its stdout."""
    print(f"{user}@{host}$ {command}", flush=True)
    done = cluster.run(host, ["sh", "-c", command], user=user)
    print((done.stdout + done.stderr).rstrip(), flush=True)
    return done.stdout


def _submit(cluster: DockerCluster, *options: str, seconds: int = 600) -> str:
    """Submit as alice from the login node; the job looks at its devices, then sleeps."""
    words = ["sbatch", "--parsable", "--output=/shared/out/%j", *options]
    print(f"alice@login$ {shlex.join(words)}", flush=True)
    script = f"#!/bin/sh\n{LOOK}\necho done\nsleep {seconds}\n"
    done = cluster.check("login", words, user="alice", input=script)
    print((done.stderr + done.stdout).rstrip(), flush=True)
    return done.stdout.strip()


def _wait(cluster: DockerCluster, job: str, state: str, timeout: float = 30) -> None:
    cluster.wait_until(
        lambda: cluster.job(job).get("JobState") == state, timeout, f"job {job} to be {state}"
    )


def _jobs(cluster: DockerCluster) -> None:
    _title("The pool: three machines, three kinds of devices, one unit")
    cluster.check("login", ["install", "-d", "-m", "1777", "/shared/out"])
    _tell(cluster, "login", 'sinfo -N -o "%N %T %G"', "alice")

    _title("Jobs ask for units and get devices")
    jobs = [_submit(cluster, f"--gres={request}") for request in REQUESTS]
    for job in jobs:
        _wait(cluster, job, "RUNNING")
    time.sleep(2)  # they look around
    for job in jobs:
        _tell(cluster, "login", f"cat /shared/out/{job}", "alice")
    if not cluster.confine:
        print("(this Docker confines nothing: every device opens; what Slurm gave is its IDX)")
    for job in jobs:
        _tell(cluster, "login", f"scontrol show job -d {job} | grep GRES=", "alice")
    _tell(cluster, "login", f"sacct -X {_ACCOUNTS}", "alice")
    _tell(cluster, "ctl", f"scancel {' '.join(jobs)}")


def _dead_node(cluster: DockerCluster) -> None:
    _title("A node dies (docker kill): Slurm puts its job back, it runs on the other node")
    job = _submit(cluster, "--gres=compute:npu:16")
    _wait(cluster, job, "RUNNING")
    node = cluster.job(job)["NodeList"]
    print(f"-- power off {node} (about a minute until Slurm gives it up)", flush=True)
    cluster.kill(node)
    cluster.wait_until(
        lambda: cluster.node_states()[node].startswith("down"), 120, f"{node} to be down"
    )
    _tell(cluster, "login", "hpcmgr capacity", "alice")
    _tell(cluster, "login", _QUEUE, "alice")
    # Slurm lets a requeued job wait two minutes.
    _tell(cluster, "ctl", f"scontrol update JobId={job} StartTime=now")
    _wait(cluster, job, "RUNNING", 60)
    _tell(cluster, "login", _QUEUE, "alice")
    print(f"-- power on {node}", flush=True)
    cluster.restart(node)
    cluster.wait_until(lambda: cluster.node_states()[node] == "idle", 60, f"{node} to be idle")
    _tell(cluster, "login", "sinfo -N -o '%N %T'", "alice")
    _tell(cluster, "ctl", f"scancel {job}")


def _cut_network(cluster: DockerCluster) -> None:
    _title("A network is cut and heals: the job there lives on, others are still placed")
    job = _submit(cluster, "--gres=compute:cuda:1")
    _wait(cluster, job, "RUNNING")
    node = cluster.job(job)["NodeList"]
    print(f"-- unplug {node}", flush=True)
    with cluster.cut(node):
        cluster.wait_until(
            lambda: cluster.node_states()[node].endswith("*"), 60, f"{node} not to respond"
        )
        _tell(cluster, "login", "sinfo -N -o '%N %T'", "alice")
        other = _submit(cluster, "--gres=compute:npu:8")
        _wait(cluster, other, "RUNNING")
        print(f"-- plug {node} in again", flush=True)
    cluster.wait_until(
        lambda: not cluster.node_states()[node].endswith("*"), 60, f"{node} to respond"
    )
    _tell(cluster, "login", _QUEUE, "alice")
