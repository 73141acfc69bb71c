"""The whole of site.yaml, and how it is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from hpcmgr.errors import ConfigError, Problem
from hpcmgr.settings.classes import RESERVED_CLASS_NAMES, JobClass
from hpcmgr.settings.fabric import Fabric, Topology
from hpcmgr.settings.fields import NodeWord, Section, Word
from hpcmgr.settings.nodes import NodeGroup
from hpcmgr.settings.ownership import Owned, Owner, owned_nodes
from hpcmgr.settings.partitions import SitePartition, Sort, partition_problems
from hpcmgr.settings.profiles import Profiles
from hpcmgr.settings.rebind import Rebind
from hpcmgr.settings.service import Service, Weights
from hpcmgr.settings.sharing import Sharing
from hpcmgr.settings.slurm import Apply, Billing, Cgroup, Slurm
from hpcmgr.slurm.hostlist import expand
from hpcmgr.yamlfile import load_model

DEFAULT_PATH = Path("/etc/hpcmgr/site.yaml")


class Site(Section):
    """The whole of site.yaml."""

    schema_: Literal["hpcmgr.site/1"] = Field("hpcmgr.site/1", alias="schema")
    """The format of this file."""
    inventory: Path = Path("/var/lib/hpcmgr/inventory")
    """The folder of the nodes' inventories."""
    publish: Literal["shared", "push"] = "shared"
    """How nodes publish: `shared` writes into the folder, which all of them see; `push` sends it to
    `service.door`, and the folder lies on the controller alone. See [publish.md](publish.md)."""
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
    performance: tuple[Path, ...] = ()
    """Performance tables of the site's own, above the packaged one
    ([performance.md](performance.md))."""
    nodes: tuple[NodeGroup, ...] = ()
    """What holds for some nodes: a list of groups."""
    sharing: dict[str, Sharing] = {}
    """Devices that several jobs use at once, on every node, by profile: `{t4: {shard: 4}}`. See
    [slicing.md](slicing.md)."""
    departments: dict[NodeWord, Owner] = {}
    """Departments that keep their nodes for themselves. See [ownership.md](ownership.md)."""
    projects: dict[NodeWord, Owner] = {}
    """Projects that do."""
    partitions: dict[NodeWord, SitePartition] = {}
    """Partitions by name, for hpcmgr.conf; those of the site's own slurm.conf stay there."""
    classes: dict[Word, JobClass] = {}
    """What users may ask for by name (`compute:NAME:8`); `default` is the class of `compute:8`. A
    class that says nothing allows everything."""
    fabric: Fabric = {}
    """Switches by name (at most 64 characters), for topology.conf; without it none is written. A
    tree: one parent each, no circle."""
    topology: Topology = Topology()
    """What Slurm is told of the network: from which scan, as tree or blocks."""
    messages: Path | None = None
    """The site's own words for what users read at submission: a YAML file of ids and texts with the
    same placeholders ([classes.md](classes.md))."""
    service: Service = Service()
    """`hpcmgr serve`."""
    rebind: Rebind = Rebind()
    """Late binding: see [late-binding.md](late-binding.md)."""
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
    _file: Path | None = None

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @model_validator(mode="after")
    def _one_source_of_switches(self) -> Self:
        if self.fabric and self.topology.scan:
            raise ValueError("fabric and topology.scan: give one of both, they say the same thing")
        return self

    def group_values(self, node: str) -> list[NodeGroup]:
        """The groups that name ``node``, in the order of the file."""
        return self._groups_of.get(node, [])

    @cached_property
    def _groups_of(self) -> dict[str, list[NodeGroup]]:
        found: dict[str, list[NodeGroup]] = {}
        for group in self.nodes:
            for node in expand(group.nodes):
                found.setdefault(node, []).append(group)
        return found

    def sharing_on(self, node: str) -> dict[str, Sharing]:
        """How the devices of ``node`` are shared, by profile; of several groups the last holds."""
        found: dict[str, Sharing | None] = dict(self.sharing)
        for group in self.group_values(node):
            found.update(group.sharing)
        return {profile: sharing for profile, sharing in found.items() if sharing is not None}

    @property
    def file(self) -> Path | None:
        """The file that it was read from; None: there is none, the defaults hold."""
        return self._file

    @property
    def owned(self) -> Owned:
        """Nodes that serve the accounts of their department or project only."""
        return owned_nodes(self.nodes, self.departments, self.projects)

    def ownership_problems(self) -> Iterator[str]:
        """What is wrong with partitions, departments and projects taken together."""
        owners: dict[Sort, dict[NodeWord, Owner]]
        owners = {"department": self.departments, "project": self.projects}
        return partition_problems(self.partitions, owners, self.nodes, accounting=self.accounting)

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
    site._file = file
    problems = [
        Problem(file, None, f"classes.{name}: this name is reserved")
        for name in site.classes
        if name in RESERVED_CLASS_NAMES
    ]
    if site.publish == "push" and not site.service.door:
        text = "publish: push needs service.door, where the nodes send their inventories"
        problems.append(Problem(file, None, text))
    problems += [Problem(file, None, text) for text in site.ownership_problems()]
    if problems:
        raise ConfigError(problems)
    return site


def override_fields(site: Site) -> dict[str, dict[str, Any]]:
    """Overrides by profile name, only the fields that were set."""
    return {
        name: override.model_dump(exclude_none=True)
        for name, override in site.profiles.override.items()
    }
