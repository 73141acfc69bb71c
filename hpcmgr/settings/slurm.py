"""Sections on Slurm itself: where it lies, cgroups, billing, `hpcmgr apply`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from hpcmgr.settings.fields import Section


class Slurm(Section):
    """Where Slurm lives. ``version`` None: asked from ``slurmctld -V`` or ``scontrol -V``."""

    conf_dir: Path = Path("/etc/slurm")
    """Where slurm.conf lies, and where `apply` writes."""
    version: str | None = None
    """The release to write for, like `24.11.5`; `null` asks the installed Slurm."""
    user: str = "slurm"
    """SlurmUser of slurm.conf, the user of `hpcmgr serve`."""
    reader: Literal["commands", "pyslurm"] = "commands"
    """What `serve`, `quote` and `rebind` read the cluster's state with: Slurm's `commands`, or
    `pyslurm` of the same release, which the site installs itself. See [slurm.md](slurm.md)."""


class Cgroup(Section):
    """What cgroup.conf constrains. Devices are always constrained: isolation rests on it."""

    plugin: Literal["autodetect", "cgroup/v1", "cgroup/v2"] = "autodetect"
    """`CgroupPlugin`."""
    ignore_systemd: bool = False
    """`IgnoreSystemd`: for containers with cgroup v2."""
    constrain_cores: bool = True
    """`ConstrainCores`."""
    constrain_ram: bool = True
    """`ConstrainRAMSpace`."""


class Billing(Section):
    """``weights`` of TRESBillingWeights on every partition that does not set its own."""

    enabled: bool = True
    """Whether hpcmgr.conf has `PartitionName=DEFAULT TRESBillingWeights=…`."""
    weights: dict[str, float] = {"CPU": 0.0, "Mem": 0.0, "gres/compute": 1.0}
    """What a job is billed for."""


class Apply(Section):
    """``hpcmgr apply``: seconds to wait for nodes to come back and for drained nodes to become
    free, and how many backups are kept."""

    node_limit: float = Field(120.0, gt=0)
    """Seconds to wait for nodes to come back."""
    drain_limit: float = Field(86_400.0, gt=0)
    """Seconds to wait for drained nodes to become free."""
    backups: int = Field(10, ge=1)
    """How many backups are kept."""
