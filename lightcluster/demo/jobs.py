"""Submitting as alice does, and reading back what became of it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from lightcluster.demo.cast import Request
from lightcluster.probe import Seen, allocation, parse
from lightcluster.site import ReferenceSite

_START_LIMIT_S = 20
_READ_LIMIT_S = 20


@dataclass
class Place:
    """One job, or one task of an array, where it runs."""

    job_id: str
    node: str
    cpus: str
    gres: str
    steps: dict[str, Seen]


@dataclass
class Outcome:
    """What sbatch said, where it runs, and why."""

    said: str
    accepted: bool
    places: list[Place] = field(default_factory=list)
    candidates: list[dict[str, Any]] = field(default_factory=list)
    booked: str = ""
    on_node: str = ""


def submit(site: ReferenceSite, request: Request) -> Outcome:
    """Type the line as alice; wait until every task has looked around; read everything."""
    done = site.run(["bash", "-lc", request.line], user="alice", timeout=30)
    outcome = Outcome(done.stderr + done.stdout, done.returncode == 0)
    found = re.search(r"Submitted batch job (\d+)", done.stdout)
    if not found:
        return outcome
    job_id = found[1]
    tasks = [f"{job_id}_{i}" for i in range(request.tasks)] or [job_id]
    outcome.places = [_place(site, task) for task in tasks]
    outcome.candidates = _candidates(site, job_id)
    outcome.booked = _booked(site, job_id)
    outcome.on_node = _on_node(site, outcome.places[0].node)
    return outcome


def _place(site: ReferenceSite, task: str) -> Place:
    site.wait_job(task, ["RUNNING"], _START_LIMIT_S)
    output = ["cat", f"/home/alice/slurm-{task}.out"]
    site.wait_until(
        lambda: "ready" in site.run(output).stdout, _READ_LIMIT_S, f"job {task} to look around"
    )
    nodes, _ = allocation(site, task)
    [(node, (cpus, gres))] = nodes.items()
    return Place(task, node, cpus, gres, parse(site.run(output).stdout))


def _candidates(site: ReferenceSite, job_id: str) -> list[dict[str, Any]]:
    """Best first, then those that cannot; the journal is written a moment after the answer."""

    def read() -> list[dict[str, Any]]:
        done = site.run(["hpcmgr", "explain", job_id, "--json"], check=True)
        journal = json.loads(done.stdout)["journal"]
        return list(journal[0]["candidates"]) if journal else []

    return site.wait_until(read, _READ_LIMIT_S, f"the journal to have job {job_id}")


def _booked(site: ReferenceSite, job_id: str) -> str:
    """AllocTRES as sacct has it, accelerators and bill alone."""

    def read() -> str:
        line = ["sacct", "-n", "-P", "-X", "-j", job_id, "-o", "AllocTRES"]
        items = site.run(line).stdout.split("\n")[0].split(",")
        return "  ".join(i for i in items if i.startswith(("gres/", "billing=")))

    return site.wait_until(read, _READ_LIMIT_S, f"sacct to have job {job_id}")


def _on_node(site: ReferenceSite, node: str) -> str:
    line = ["sinfo", "-h", "-N", "-n", node, "-O", "NodeHost:20,Gres:120,GresUsed:200"]
    _, gres, used = site.run(line, check=True).stdout.split("\n")[0].split()
    return f"{node}: {_units(used)} of {_units(gres)} units in use"


def _units(gres: str) -> str:
    found = re.search(r"(?:^|,)compute:(?:\(null\):)?(\d+)", gres)
    return found[1] if found else "0"
