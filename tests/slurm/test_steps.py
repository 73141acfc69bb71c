"""``srun --gres=compute:k`` inside a job: the step opens as many of the job's devices."""

from __future__ import annotations

import pytest

from lightcluster.site import ReferenceSite

pytestmark = pytest.mark.slurm

STEP = "srun -n1 --gres={asked} sh -c 'echo seen $HPCMGR_DEVICES'"


def steps(site: ReferenceSite, command: list[str], *asked: str) -> list[str]:
    """What each step of one job sees, or the refusal."""
    script = "; ".join(f"{STEP.format(asked=each)} 2>&1 | grep -v Note:" for each in asked)
    done = site.run([*command, "sh", "-c", script], user="alice")
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if "mpi" not in line]


@pytest.mark.parametrize(
    ("request_", "device"), [("compute:t4:4", "/dev/nvidia"), ("compute:npu:32", "/dev/davinci")]
)
def test_steps_of_an_allocation(site: ReferenceSite, request_: str, device: str) -> None:
    """The shell of salloc has no TaskProlog: Slurm is asked what a device stands for."""
    half = "compute:2" if "t4" in request_ else "compute:16"
    seen = steps(site, ["salloc", f"--gres={request_}"], half, request_, "compute:1000")

    assert seen[0].count(device) * 2 == seen[1].count(device) > 0
    assert "on a node: gres/compute:1000 takes" in seen[2]


def test_steps_of_a_batch_script(site: ReferenceSite) -> None:
    """The TaskProlog told what a device stands for; a step per task is refused."""
    body = f"""#!/bin/sh
echo "each $HPCMGR_EACH"
{STEP.format(asked="compute:8")}
srun -n1 --tres-per-task=gres/compute:8 true
echo "rc $?"
"""
    line = ["sbatch", "--parsable", "-W", "-o", "/shared/out/steps", "--gres=compute:npu:24"]
    site.run(line, user="alice", input=body, check=True)
    seen = site.run(["cat", "/shared/out/steps"]).stdout

    assert seen.count("/dev/davinci") == 1
    assert "each npu:ascend910b3:8:64" in seen
    assert "neutral units per task" in seen
    assert "rc 0" not in seen
