"""site.yaml: what a site decides. Defined once: key, type, default, meaning.

Where it is looked for: ``--config``, ``HPCMGR_CONFIG``, ``/etc/hpcmgr/site.yaml``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hpcmgr.errors import ConfigError, Problem
from hpcmgr.slurm.hostlist import expand
from hpcmgr.yamlfile import load_model

DEFAULT_PATH = Path("/etc/hpcmgr/site.yaml")
RESERVED_CLASS_NAMES = frozenset({"unbound", "each", "compute", "vram"})


class Section(BaseModel):
    """Base of all sections: unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _hostlist(text: str) -> str:
    expand(text)
    return text


Hostlist = Annotated[str, AfterValidator(_hostlist)]
Word = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]*$")]
NodeWord = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")]


class Slurm(Section):
    """Where Slurm lives. ``version`` None: asked from ``slurmctld -V`` or ``scontrol -V``."""

    conf_dir: Path = Path("/etc/slurm")
    version: str | None = None
    user: str = "slurm"


class Cgroup(Section):
    """What cgroup.conf constrains. Devices are always constrained: isolation rests on it."""

    plugin: Literal["autodetect", "cgroup/v1", "cgroup/v2"] = "autodetect"
    ignore_systemd: bool = False
    constrain_cores: bool = True
    constrain_ram: bool = True


class ProfileOverride(Section):
    """Fields of a device profile that a site may set for itself."""

    units: int | None = Field(None, ge=1)
    cpus_per_device: int | None = Field(None, ge=1)
    mem_per_device_mib: int | None = Field(None, ge=1)
    features: tuple[Word, ...] | None = None


class Profiles(Section):
    """Own profile files and overrides by profile name."""

    dirs: tuple[Path, ...] = ()
    override: dict[str, ProfileOverride] = {}


class NodeGroup(Section):
    """What holds for some nodes. ``memory_mib`` caps RealMemory; ``reserve_mib`` is left to the
    system; ``options`` go to the NodeName line as they stand (``Weight: 10``)."""

    nodes: Hostlist
    pool: NodeWord | None = None
    department: NodeWord | None = None
    project: NodeWord | None = None
    features: tuple[NodeWord, ...] = ()
    memory_mib: int | None = Field(None, ge=1)
    reserve_mib: int | None = Field(None, ge=0)
    options: dict[Annotated[str, Field(pattern=r"^[A-Za-z]+$")], str | int] = {}


class JobClass(Section):
    """What a request may become. Empty lists mean no restriction; ``prefer`` names kinds,
    vendors, runtimes or profiles, best first.

    ``binding`` near: devices and cores on one socket are enforced where the release can do it, and
    the job then stays on the device types for which it holds. ``movable``: never enforced, the job
    may move to every type of its class.
    """

    kinds: tuple[Word, ...] = ()
    runtimes: tuple[Word, ...] = ()
    vendors: tuple[Word, ...] = ()
    profiles: tuple[str, ...] = ()
    features: tuple[NodeWord, ...] = ()
    prefer: tuple[str, ...] = ()
    devices_min: int = Field(1, ge=1)
    devices_max: int | None = Field(None, ge=1)
    units_per_device_min: int | None = Field(None, ge=1)
    memory_per_device_gib: int | None = Field(None, ge=1)
    cpus_per_device: int | None = Field(None, ge=1)
    mem_per_device_mib: int | None = Field(None, ge=1)
    binding: Literal["near", "movable"] = "near"


class Service(Section):
    """The scoring service. Times in seconds unless the name says otherwise."""

    socket: Path = Path("/run/hpcmgr/submit.sock")
    state_dir: Path = Path("/var/lib/hpcmgr/service")
    refresh: float = Field(2.0, gt=0)
    tentative: float = Field(30.0, gt=0)
    snapshot_max_age: float = Field(120.0, gt=0)


class Weights(Section):
    """Weights of the score terms; higher fits better, every term lies in 0…1."""

    fit: float = Field(3.0, ge=0)
    free_now: float = Field(4.0, ge=0)
    queue_ahead: float = Field(2.0, ge=0)
    preference: float = Field(2.0, ge=0)
    few_devices: float = Field(1.0, ge=0)


class Billing(Section):
    """``weights`` of TRESBillingWeights on every partition that does not set its own."""

    enabled: bool = True
    weights: dict[str, float] = {"CPU": 0.0, "Mem": 0.0, "gres/compute": 1.0}


class Site(Section):
    """The whole of site.yaml."""

    schema_: Literal["hpcmgr.site/1"] = Field("hpcmgr.site/1", alias="schema")
    inventory: Path = Path("/var/lib/hpcmgr/inventory")
    slurm: Slurm = Slurm()
    cgroup: Cgroup = Cgroup()
    accounting: bool = True
    billing: Billing = Billing()
    profiles: Profiles = Profiles()
    nodes: tuple[NodeGroup, ...] = ()
    classes: dict[Word, JobClass] = {}
    service: Service = Service()
    score: Weights = Weights()
    direct_totals: Literal["per_node", "refuse", "unbilled"] = "per_node"
    units_per_device_rule: int = Field(8, ge=1)
    _path: Path | None = None

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    def group_values(self, node: str) -> list[NodeGroup]:
        """The groups that name ``node``, in the order of the file."""
        return [group for group in self.nodes if node in expand(group.nodes)]

    @property
    def default_class(self) -> JobClass:
        """The class of ``compute:N`` without a selector."""
        return self.classes.get("default", JobClass())


def load_site(path: Path | None = None) -> Site:
    """Read site.yaml; without any file the defaults hold.

    Raises:
        ConfigError: every problem with file and line. A file that was named must exist.
    """
    named = path or (Path(os.environ["HPCMGR_CONFIG"]) if os.environ.get("HPCMGR_CONFIG") else None)
    if named is None and not DEFAULT_PATH.exists():
        return Site()
    file = named or DEFAULT_PATH
    site = load_model(file, Site)
    problems = [
        Problem(file, None, f"classes.{name}: this name is reserved")
        for name in site.classes
        if name in RESERVED_CLASS_NAMES
    ]
    if problems:
        raise ConfigError(problems)
    return site


def override_fields(site: Site) -> dict[str, dict[str, Any]]:
    """Overrides by profile name, only the fields that were set."""
    return {
        name: override.model_dump(exclude_none=True)
        for name, override in site.profiles.override.items()
    }
