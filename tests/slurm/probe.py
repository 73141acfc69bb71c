"""Jobs that tell what they see: environment, devices that open and devices that are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lightcluster.probe import LOOK, Seen, allocation, cpu_ids, indices, parse, sockets
from lightcluster.site import ReferenceSite

__all__ = [
    "LOOK", "Job", "Seen", "allocation", "cpu_ids", "expand_files", "indices", "parse", "run_job",
    "sockets", "submit",
]  # fmt: skip


@dataclass
class Job:
    """A submitted job: what sbatch said, and what Slurm gave it."""

    id: str
    said: str
    nodes: dict[str, tuple[str, str]]  # node → (CPU ids, GRES with IDX)
    fields: dict[str, str]
    steps: dict[str, Seen]


def submit(site: ReferenceSite, *options: str, body: str = "", user: str = "alice") -> str:
    """sbatch a job that looks around, then waits to be cancelled; returns "ID\\nwhat was said"."""
    script = f"#!/bin/sh\n{LOOK}\nlook batch\n{body}\necho ready\nsleep 60\n"
    done = site.run(
        ["sbatch", "--parsable", "-o", "/shared/out/%A_%a", *options],
        user=user, input=script, check=True,
    )  # fmt: skip
    return f"{done.stdout.split(';')[0].strip()}\n{done.stderr}"


def run_job(site: ReferenceSite, *options: str, body: str = "", user: str = "alice") -> Job:
    """Submit, wait until it has looked around, read everything, cancel it."""
    job_id, _, said = submit(site, *options, body=body, user=user).partition("\n")
    output = f"/shared/out/{job_id}_4294967294"
    site.wait_job(job_id, ["RUNNING"], 20)
    site.wait_until(
        lambda: "ready" in site.run(["cat", output]).stdout, 20, f"job {job_id} to look"
    )
    job = Job(job_id, said, *allocation(site, job_id), parse(site.run(["cat", output]).stdout))
    site.run(["scancel", job_id])
    return job


def expand_files(text: str) -> list[str]:
    """``/dev/x[0-1]`` → its files; a device's own files stay together."""
    found = re.fullmatch(r"(.*)\[(\d+)-(\d+)\]", text)
    return [f"{found[1]}{n}" for n in range(int(found[2]), int(found[3]) + 1)] if found else [text]
