"""Who plays, and what is asked: the demo's machines and requests."""

from __future__ import annotations

from dataclasses import dataclass

from lightcluster.probe import LOOK

MACHINES = {
    "mix01": "mixed",
    "npu01": "npu8",
    "t401": "t4x4",
    "t402": "t4x4",
    "sxm01": "a100x8",
    "cpu01": "cpu01",
}
"""Node → recorded machine of tests/hosts."""

SCRIPTS = {
    "look.sh": f"#!/bin/sh\n# Which devices does this job see?\n{LOOK}\n"
    'look "${1:-batch}"\n[ -n "$1" ] || { echo ready; sleep 600; }\n',
    "steps.sh": "#!/bin/sh\n"
    "# Two steps: with one device of what the job became, then with all that it has.\n"
    "srun -n1 --gres=$HPCMGR_GRES:1 ./look.sh one-device\n"
    "srun -n1 ./look.sh plain\n"
    "exec ./look.sh\n",
}
"""What lies in alice's home."""


@dataclass(frozen=True)
class Request:
    """One thing that alice types, and why it is worth seeing. ``refused``: it must not pass."""

    title: str
    line: str
    tasks: int = 0
    refused: bool = False
    pictured: bool = False

    @property
    def shown(self) -> str:
        """What --gres asks."""
        return self.line.partition("--gres=")[2].split()[0]


REQUESTS = (
    Request("Eight units, whatever the brand", "sbatch --gres=compute:8 look.sh", pictured=True),
    Request(
        "Sixteen units of NPU: two devices near each other",
        "sbatch --gres=compute:npu:16 look.sh",
        pictured=True,
    ),
    Request(
        "One unit for a CUDA program: a T4, no A100 is wasted on it",
        "sbatch --gres=compute:cuda:1 look.sh",
        pictured=True,
    ),
    Request(
        "Twelve units: whole devices, so sixteen are booked", "sbatch --gres=compute:12 look.sh"
    ),
    Request(
        "Eight units, at least 40 GiB on each device",
        "sbatch --gres=compute:8,vram:each:40G look.sh",
    ),
    Request(
        "An array: a device of its own for every task",
        "sbatch --array=0-2 --gres=compute:npu:8 look.sh",
        tasks=3,
    ),
    Request(
        "srun inside a job: a step with one of the two devices, then one with both",
        "sbatch --gres=compute:npu:16 steps.sh",
    ),
    Request(
        "More than any node has",
        "sbatch --gres=compute:800 look.sh",
        refused=True,
        pictured=True,
    ),
)
