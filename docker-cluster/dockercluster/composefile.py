"""compose.yaml, read as far as this cluster uses it: one description for compose and for us."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dockercluster.errors import DockerClusterError

HERE = Path(__file__).resolve().parent.parent
FILE = HERE / "compose.yaml"
CHECKOUT = HERE.parent
DEFAULT_NET = "10.78.0"
RELEASES = ("24.11", "26.05")

_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


@dataclass(frozen=True)
class Service:
    """One host. ``volumes`` are (source, target, mode): a path of this machine or a volume."""

    name: str
    image: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str]
    volumes: tuple[tuple[str, str, str], ...]
    tmpfs: tuple[str, ...]
    hosts: Mapping[str, str]
    address: str
    cgroup: str | None
    cap_add: tuple[str, ...]
    security_opt: tuple[str, ...]
    device_cgroup_rules: tuple[str, ...]

    @property
    def is_compute(self) -> bool:
        """Whether jobs run here."""
        return self.command == ("compute",)


@dataclass(frozen=True)
class Project:
    """The whole file."""

    services: tuple[Service, ...]
    subnet: str
    volumes: tuple[str, ...]

    @property
    def compute(self) -> tuple[Service, ...]:
        """The compute nodes."""
        return tuple(service for service in self.services if service.is_compute)


def load(variables: Mapping[str, str], file: Path = FILE) -> Project:
    """Read the file with these variables (HPCMGR_SLURM, HPCMGR_NET, HPCMGR_CONFINE)."""
    text = _VARIABLE.sub(lambda found: variables.get(found[1]) or found[2], file.read_text())
    data = yaml.safe_load(text)
    services = tuple(_service(name, spec) for name, spec in data["services"].items())
    subnet = data["networks"]["cluster"]["ipam"]["config"][0]["subnet"]
    return Project(services, subnet, tuple(data["volumes"]))


def _service(name: str, spec: dict[str, Any]) -> Service:
    if spec["hostname"] != name:
        raise DockerClusterError(f"{FILE}: service {name} has the host name {spec['hostname']}")
    return Service(
        name=name,
        image=spec["image"],
        entrypoint=tuple(spec["entrypoint"]),
        command=tuple(spec["command"]),
        environment={key: str(value) for key, value in spec["environment"].items()},
        volumes=tuple(_volume(text) for text in spec["volumes"]),
        tmpfs=tuple(spec["tmpfs"]),
        hosts=dict(line.split(":", 1) for line in spec["extra_hosts"]),
        address=spec["networks"]["cluster"]["ipv4_address"],
        cgroup=spec.get("cgroup"),
        cap_add=tuple(spec.get("cap_add", ())),
        security_opt=tuple(spec.get("security_opt", ())),
        device_cgroup_rules=tuple(spec.get("device_cgroup_rules", ())),
    )


def _volume(text: str) -> tuple[str, str, str]:
    source, target, *mode = text.split(":")
    if source.startswith("."):
        source = str((HERE / source).resolve())
    return source, target, mode[0] if mode else "rw"
