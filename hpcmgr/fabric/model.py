"""What a scan found, ``hpcmgr.fabric/1``: switches, their cables, and where each NIC of a node is.

Facts only: which rails count, and what tree or blocks come of it, is decided when Slurm's files are
rendered, so that another rule needs no other scan. Nodes are folded to hostlists by switch and NIC,
so that a person can read the file and compare two of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hpcmgr.settings.fields import Hostlist, SwitchName
from hpcmgr.slurm.hostlist import expand
from hpcmgr.yamlfile import load_model

SCHEMA: Literal["hpcmgr.fabric/1"] = "hpcmgr.fabric/1"
Network = Literal["infiniband", "ethernet"]
NicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:/-]{1,64}$")]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class ScannedSwitch(_Frozen):
    """A switch: its GUID or chassis id, the switches it is cabled to, and by name of NIC the nodes
    that have it here (``mlx5_0``; a second port is ``mlx5_0/2``)."""

    id: str = ""
    network: Network
    links: Hostlist = ""
    hosts: dict[NicName, Hostlist] = {}


class Domain(_Frozen):
    """Nodes whose accelerators share one fabric (an NVLink domain: one GB200 NVL72 rack)."""

    id: str = ""
    nodes: Hostlist


class Scan(_Frozen):
    """All that one scan found, of all sources that it was given."""

    schema_: Literal["hpcmgr.fabric/1"] = Field(SCHEMA, alias="schema")
    switches: dict[SwitchName, ScannedSwitch] = {}
    domains: dict[SwitchName, Domain] = {}

    def ports(self) -> Iterator[Port]:
        """Every NIC of every node."""
        for name, switch in self.switches.items():
            for nic, nodes in switch.hosts.items():
                for node in expand(nodes):
                    yield Port(node, nic, name, switch.network)

    @property
    def below_switches(self) -> frozenset[str]:
        """Nodes with any NIC in it."""
        return frozenset(port.node for port in self.ports())

    @property
    def in_domains(self) -> frozenset[str]:
        """Nodes of NVLink domains."""
        return frozenset(node for d in self.domains.values() for node in expand(d.nodes))

    def to_json(self) -> str:
        """Stable text: equal scans give equal bytes."""
        plain = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return json.dumps({"schema": SCHEMA, **plain}, indent=1, ensure_ascii=False) + "\n"


def load_scan(path: Path) -> Scan:
    """Read a scan, JSON as it was written or YAML of the same shape.

    Raises:
        ConfigError: it is missing, or is none; with file and line.
    """
    try:
        # YAML is read a hundred times slower; a fault is told by that reader, with its line.
        return Scan.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return load_model(path, Scan)


@dataclass(frozen=True, slots=True)
class Port:
    """One NIC of one node, and the switch at the other end of its cable."""

    node: str
    nic: str
    switch: str
    network: Network


@dataclass(slots=True)
class Seen:
    """What one source saw, in its own words. ``switches``: id → description. ``cables``: pairs of
    ids. ``ports``: host and NIC as described, and the id of the switch. ``problems``: parts that
    could not be read, so that nobody knows what stood there."""

    network: Network
    switches: dict[str, str] = field(default_factory=dict)
    cables: set[tuple[str, str]] = field(default_factory=set)
    ports: set[tuple[str, str, str]] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def cable(self, a: str, b: str) -> None:
        """Two switches are connected; once is enough."""
        if a != b:
            self.cables.add((min(a, b), max(a, b)))


Domains = Mapping[str, tuple[str, ...]]
"""Id of an NVLink domain → its nodes."""
