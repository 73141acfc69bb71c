"""A busy mixed cluster: jobs of two users that run, wait and stand in each other's way, nodes that
drain and a reservation. Needs mix01, npu01, t401 and t402; what else there is makes it busier."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from lightcluster.site import ReferenceSite

RUNNING = (
    ("alice", "--gres=compute:npu:16 -w mix01"),
    ("bob", "--gres=compute:t4:2 -w t401"),
    ("bob", "--gres=compute:cuda:1 -w t402"),
    ("alice", "--gres=compute:infer:8 -w npu01"),
    ("bob", "--gres=npu:ascend910b3:2 -w npu01"),
    ("alice", "--array=0-1 --gres=compute:t4:2 -w t402"),
    ("bob", "-w t402 -c 10"),  # no device, and the last one has no CPUs beside it any more
)
WAITING = (
    ("alice", "-N2 --gres=npu:ascend910b3:2"),
    ("alice", "--array=0-4%2 --gres=compute:npu:64"),
    ("bob", "--gres=compute:train:8 -H"),
    ("bob", "--gres=npu:8"),
    ("alice", "--gres=compute:a100:8 --begin=now+1hour"),
)
MORE = (("bob", "--gres=compute:train:24 -w sxm01"), ("alice", "--gres=compute:a100:16 -w sxm01"))
"""Where sxm01 is there too."""


@contextmanager
def crowded(site: ReferenceSite) -> Iterator[None]:
    """The cluster is busy and changes no more meanwhile; afterwards the reservation is gone and the
    nodes are back (their jobs are not)."""
    here = {spec.name for spec in site.nodes}
    running = [*RUNNING, *(MORE if "sxm01" in here else ())]
    jobs = [_submit(site, user, options) for user, options in running]
    for job in jobs:
        site.wait_until(partial(_runs, site, job), 40, f"job {job} to run")
    reservation = _reserve(site)
    for user, options in WAITING:
        _submit(site, user, options)
    _drain(site, "t401", "fan 3 <slow> & loud")
    try:
        yield
    finally:
        site.run(["scontrol", "delete", f"ReservationName={reservation}"])
        site.run(["scontrol", "update", "NodeName=t401", "State=RESUME"])


def _submit(site: ReferenceSite, user: str, options: str) -> str:
    line = f"sbatch --parsable -o /dev/null -t 40 {options} --wrap 'sleep 900'"
    done = site.run(["sh", "-c", line], user=user, check=True)
    return done.stdout.strip().split(";")[0]


def _runs(site: ReferenceSite, job: str) -> bool:
    """All tasks of it."""
    return set(site.run(["squeue", "-h", "-j", job, "-o", "%T"]).stdout.split()) == {"RUNNING"}


def _reserve(site: ReferenceSite) -> str:
    """One NPU of npu01 for bob; returns when Slurm has marked the node."""
    what = ("starttime=now", "duration=60", "users=bob", "nodes=npu01", "nodecnt=1",
            "flags=ignore_jobs", "tres=gres/npu:ascend910b3=1")  # fmt: skip
    line = ["scontrol", "create", "reservation", *what]
    done = site.run(line, check=True)
    site.wait_until(
        lambda: "RESERVED" in site.run(["scontrol", "show", "node", "npu01"]).stdout,
        40,
        "npu01 to be reserved",
    )
    found = re.search(r"Reservation created: (\S+)", done.stdout + done.stderr)
    assert found, done
    return found[1]


def _drain(site: ReferenceSite, node: str, reason: str) -> None:
    site.run(
        ["scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}"], check=True
    )
