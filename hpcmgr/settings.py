"""site.yaml: what a site decides. Defined once: key, type, default, meaning.

Where it is looked for: ``--config``, ``HPCMGR_CONFIG``, ``/etc/hpcmgr/site.yaml``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from hpcmgr.errors import ConfigError, Problem
from hpcmgr.slurm.hostlist import expand
from hpcmgr.yamlfile import load_model

DEFAULT_PATH = Path("/etc/hpcmgr/site.yaml")
RESERVED_CLASS_NAMES = frozenset({"unbound", "each", "compute", "vram"})


class Section(BaseModel):
    """Base of all sections: unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def split_address(text: str) -> tuple[str, int]:
    """``"0.0.0.0:7321"``, ``"[::]:7321"``, ``"ctl:7321"`` → host and port.

    Raises:
        ValueError: not of that form.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"{text!r} is not of the form HOST:PORT, for example 0.0.0.0:7321")
    return host, int(port)


def _address(text: str) -> str:
    split_address(text)
    return text


def _hostlist(text: str) -> str:
    expand(text)
    return text


Hostlist = Annotated[str, AfterValidator(_hostlist)]
Word = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]*$")]
NodeWord = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")]
SwitchName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class Slurm(Section):
    """Where Slurm lives. ``version`` None: asked from ``slurmctld -V`` or ``scontrol -V``."""

    conf_dir: Path = Path("/etc/slurm")
    """Where slurm.conf lies, and where `apply` writes."""
    version: str | None = None
    """The release to write for, like `24.11.5`; `null` asks the installed Slurm."""
    user: str = "slurm"
    """SlurmUser of slurm.conf, the user of `hpcmgr serve`."""


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


class ProfileOverride(Section):
    """Fields of a device profile that a site may set for itself."""

    units: int | None = Field(None, ge=1)
    """Units of one device: 1 is an eighth of an A100-80G, or what the site takes it for."""
    cpus_per_device: int | None = Field(None, ge=1)
    """CPUs a device, where neither the user nor the class says."""
    mem_per_device_mib: int | None = Field(None, ge=1)
    """Memory of the node a device (MiB), where neither the user nor the class says."""
    features: tuple[Word, ...] | None = None
    """Features of nodes that have it, in place of the profile's own."""


class Profiles(Section):
    """Own profile files and overrides by profile name."""

    dirs: tuple[Path, ...] = ()
    """Folders with profiles of the site's own, one YAML file each."""
    override: dict[str, ProfileOverride] = {}
    """By name of profile."""


class NodeGroup(Section):
    """What holds for some nodes. ``memory_mib`` caps RealMemory; ``reserve_mib`` is left to the
    system; ``options`` go to the NodeName line as they stand (``Weight: 10``)."""

    nodes: Hostlist
    """Which nodes. Groups add up; of `reserve_mib` and of an option the last group holds."""
    pool: NodeWord | None = None
    """A feature of these nodes."""
    department: NodeWord | None = None
    """A feature of these nodes."""
    project: NodeWord | None = None
    """A feature of these nodes."""
    features: tuple[NodeWord, ...] = ()
    """More features."""
    memory_mib: int | None = Field(None, ge=1)
    """RealMemory at most (MiB)."""
    reserve_mib: int | None = Field(None, ge=0)
    """Memory left to the system (MiB)."""
    options: dict[Annotated[str, Field(pattern=r"^[A-Za-z]+$")], str | int] = {}
    """More for the NodeName line, as it stands: `{Weight: 10}`."""


class JobClass(Section):
    """What a request may become. Empty lists mean no restriction; ``prefer`` names kinds,
    vendors, runtimes or profiles, best first.

    ``binding`` near: devices and cores on one socket are enforced where the release can do it, and
    the job then stays on the device types for which it holds. ``movable``: never enforced, the job
    may move to every type of its class.
    """

    kinds: tuple[Word, ...] = ()
    """`gpu`, `npu`."""
    runtimes: tuple[Word, ...] = ()
    """`cuda`, `cann`, …"""
    vendors: tuple[Word, ...] = ()
    """`nvidia`, `huawei`, …"""
    profiles: tuple[str, ...] = ()
    """Names of profiles."""
    features: tuple[NodeWord, ...] = ()
    """What the node must have: `rdma`, `roce`, or features of a group."""
    prefer: tuple[str, ...] = ()
    """Kinds, vendors, runtimes or profiles, best first."""
    devices_min: int = Field(1, ge=1)
    """Devices on a node, at least."""
    devices_max: int | None = Field(None, ge=1)
    """Devices on a node, at most."""
    units_per_device_min: int | None = Field(None, ge=1)
    """Smallest device, in units."""
    memory_per_device_gib: int | None = Field(None, ge=1)
    """Smallest device, in GiB of its memory."""
    cpus_per_device: int | None = Field(None, ge=1)
    """CPUs a device, where the user does not say."""
    mem_per_device_mib: int | None = Field(None, ge=1)
    """Memory of the node a device (MiB), where the user does not say."""
    binding: Literal["near", "movable"] = "near"
    """`near`: cores and devices on one socket, enforced where this release can, and the job stays
    on device types for which it holds. `movable`: never enforced; the job may move to every type of
    its class."""


class Switch(Section):
    """A switch of the network: above other ``switches``, or above ``nodes``."""

    switches: Hostlist | None = None
    """The switches below this one."""
    nodes: Hostlist | None = None
    """The nodes below this one; those that do not exist are left out of the file."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.switches) is bool(self.nodes):
            raise ValueError("give either switches or nodes: what is below this switch")
        return self

    @property
    def below(self) -> list[str]:
        """Names of what is below it."""
        return expand(self.switches or self.nodes or "")


def _tree(fabric: dict[str, Switch]) -> dict[str, Switch]:
    """Slurm accepts two parents silently, and a missing child stops slurmctld."""
    problems = []
    parents: dict[str, str] = {}
    for name, switch in fabric.items():
        for child in switch.below:
            first = parents.setdefault(child, name)
            if first != name:
                problems.append(f"{child} is below {first} and below {name}")
            if switch.switches and child not in fabric:
                problems.append(f"{name}: there is no switch {child}")
            if switch.nodes and child in fabric:
                problems.append(f"{child} is a switch and a node of {name}")
    problems += [f"{name} is above itself" for name in fabric if _is_above_itself(name, parents)]
    if problems:
        raise ValueError("; ".join(problems))
    return fabric


def _is_above_itself(name: str, parents: dict[str, str]) -> bool:
    above, seen = parents.get(name), set[str]()
    while above is not None and above not in seen:
        if above == name:
            return True
        seen.add(above)
        above = parents.get(above)
    return False


Fabric = Annotated[dict[SwitchName, Switch], AfterValidator(_tree)]


class Service(Section):
    """The scoring service. Times in seconds unless the name says otherwise. ``door``: where it
    answers ordinary users (HOST:PORT; 0.0.0.0 listens everywhere), None: it does not."""

    socket: Path = Path("/run/hpcmgr/submit.sock")
    """Where job_submit.lua asks; the shim's `socket` must be the same."""
    door: Annotated[str, AfterValidator(_address)] | None = None
    """Where ordinary users ask (HOST:PORT; `0.0.0.0:7321` listens everywhere); `null`: nowhere. See
    [door.md](door.md)."""
    state_dir: Path = Path("/var/lib/hpcmgr/service")
    """Where the journal lies."""
    refresh: float = Field(2.0, gt=0)
    """Seconds between two looks at Slurm."""
    tentative: float = Field(30.0, gt=0)
    """Seconds for which a granted device counts as taken, until Slurm shows it."""
    snapshot_max_age: float = Field(120.0, gt=0)
    """Seconds after which the picture is too old to answer from; requests are then held."""


class Apply(Section):
    """``hpcmgr apply``: seconds to wait for nodes to come back and for drained nodes to become
    free, and how many backups are kept."""

    node_limit: float = Field(120.0, gt=0)
    """Seconds to wait for nodes to come back."""
    drain_limit: float = Field(86_400.0, gt=0)
    """Seconds to wait for drained nodes to become free."""
    backups: int = Field(10, ge=1)
    """How many backups are kept."""


class Weights(Section):
    """Weights of the score terms; higher fits better, every term lies in 0…1."""

    fit: float = Field(3.0, ge=0)
    """Share of the booked units that was asked for."""
    free_now: float = Field(4.0, ge=0)
    """Whether it could start at once."""
    queue_ahead: float = Field(2.0, ge=0)
    """Falls with the devices that others wait for."""
    preference: float = Field(2.0, ge=0)
    """The class's order."""
    few_devices: float = Field(1.0, ge=0)
    """One over the number of devices."""


class Billing(Section):
    """``weights`` of TRESBillingWeights on every partition that does not set its own."""

    enabled: bool = True
    """Whether hpcmgr.conf has `PartitionName=DEFAULT TRESBillingWeights=…`."""
    weights: dict[str, float] = {"CPU": 0.0, "Mem": 0.0, "gres/compute": 1.0}
    """What a job is billed for."""


class Site(Section):
    """The whole of site.yaml."""

    schema_: Literal["hpcmgr.site/1"] = Field("hpcmgr.site/1", alias="schema")
    """The format of this file."""
    inventory: Path = Path("/var/lib/hpcmgr/inventory")
    """The folder where nodes publish what they have; all must see it."""
    ledger: Path = Path("/var/lib/hpcmgr/ledger.sqlite")
    """The history of all devices, on a local disk of the controller: SQLite, never on NFS."""
    slurm: Slurm = Slurm()
    """Where Slurm lives."""
    cgroup: Cgroup = Cgroup()
    """cgroup.conf. Devices are always constrained: isolation rests on it."""
    accounting: bool = True
    """Whether slurmdbd runs; without it slurmctld refuses GRES in `AccountingStorageTRES`."""
    billing: Billing = Billing()
    """Billing by units."""
    profiles: Profiles = Profiles()
    """Device profiles."""
    nodes: tuple[NodeGroup, ...] = ()
    """What holds for some nodes: a list of groups."""
    classes: dict[Word, JobClass] = {}
    """What users may ask for by name (`compute:NAME:8`); `default` is the class of `compute:8`. A
    class that says nothing allows everything."""
    fabric: Fabric = {}
    """Switches by name (at most 64 characters), for topology.conf; without it none is written. A
    tree: one parent each, no circle."""
    service: Service = Service()
    """`hpcmgr serve`."""
    apply: Apply = Apply()
    """`hpcmgr apply`."""
    score: Weights = Weights()
    """Weights of the score's terms; each term lies in 0…1, more is better."""
    direct_totals: Literal["per_node", "refuse", "unbilled"] = "per_node"
    """What becomes of `--gpus=N`, which cannot carry units truly over several nodes. `per_node`:
    with a fixed number of nodes that divides N it is asked per node, else refused; `refuse`;
    `unbilled`: it passes without units. Untyped requests of several types pass unbilled, or
    `refuse`."""
    units_per_device_rule: int = Field(8, ge=1)
    """At most one device for every so many units begun: no eight T4 for `compute:16`."""
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
