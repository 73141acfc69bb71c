"""The cluster as the supervisor gets it: plain data, one JSON line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lightcluster.devices import DeviceNode, nodes_of_host
from lightcluster.spec import CONTROLLER, CONTROLLER_HWLOC, NodeSpec, addresses


@dataclass(frozen=True)
class Member:
    """One host of the cluster: the controller or a compute node."""

    name: str
    address: str
    compute: bool
    hwloc: str
    host: str | None = None
    devices: list[DeviceNode] = field(default_factory=list)


@dataclass(frozen=True)
class Layout:
    """All that is needed to make the namespaces; the first member is the controller."""

    name: str
    release: str
    rootfs: str
    checkout: str
    members: list[Member]

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Layout:
        """Read what ``to_json`` wrote."""
        data = json.loads(text)
        members = [
            Member(**{**each, "devices": [DeviceNode(**node) for node in each["devices"]]})
            for each in data.pop("members")
        ]
        return cls(members=members, **data)


def plan(name: str, release: str, rootfs: Path, checkout: Path, nodes: list[NodeSpec]) -> Layout:
    """Give everyone an address and every node its devices."""
    table = addresses(nodes)
    members = [Member(CONTROLLER, table[CONTROLLER], compute=False, hwloc=CONTROLLER_HWLOC)]
    for node in nodes:
        host = node.host.resolve() if node.host else None
        members.append(
            Member(
                node.name,
                table[node.name],
                compute=True,
                hwloc=node.hwloc,
                host=str(host) if host else None,
                devices=nodes_of_host(host) if host else [],
            )
        )
    return Layout(name, release, str(rootfs), str(checkout), members)
