"""compose.yaml describes the recorded machines: needs no Docker."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from dockercluster import composefile
from dockercluster.composefile import Service

from hpcmgr.discovery import open_host
from hpcmgr.discovery.cpu_topology import collect
from lightcluster.devices import FIRST_FREE_MAJOR, parse_dev_txt

SERVICES = {service.name: service for service in composefile.load({}).services}
NODES = [service.name for service in composefile.load({}).compute]


def inside() -> ModuleType:
    """docker-cluster/inside.py, which runs in the containers."""
    spec = importlib.util.spec_from_file_location("inside", composefile.HERE / "inside.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recorded(service: Service, hosts: Path) -> Path:
    return hosts / service.environment["HPCMGR_HOST"]


@pytest.mark.parametrize("name", NODES)
def test_a_node_may_open_the_devices_of_its_machine_and_no_others(name: str, hosts: Path) -> None:
    """One rule a device node, none for a whole major: a range cannot be taken away from a job."""
    devices = inside().recorded_devices(recorded(SERVICES[name], hosts))

    expected = {f"{d.type} {d.major}:{d.minor} rwm" for d in devices}
    assert set(SERVICES[name].device_cgroup_rules) == expected
    assert "*" not in "".join(SERVICES[name].device_cgroup_rules)


@pytest.mark.parametrize("name", NODES)
def test_no_device_has_a_major_that_a_driver_could_have(name: str, hosts: Path) -> None:
    """A machine that has the real device must never open it by mistake."""
    made = inside().recorded_devices(recorded(SERVICES[name], hosts))

    assert all(device.major >= FIRST_FREE_MAJOR for device in made)
    listed = parse_dev_txt((recorded(SERVICES[name], hosts) / "dev.txt").read_text())
    kept = [device.path for device in listed if device.major not in {1, 5}]
    assert [device.path for device in made] == kept


@pytest.mark.parametrize("name", NODES)
def test_slurmd_sees_the_cpus_of_the_machine(name: str, hosts: Path) -> None:
    """HWLOC_SYNTHETIC in compose.yaml is the topology that discovery finds."""
    cpu = collect(open_host(recorded(SERVICES[name], hosts))).cpu

    told = f"pack:{cpu.sockets} core:{cpu.cores_per_socket} pu:{cpu.threads_per_core}"
    assert SERVICES[name].environment["HWLOC_SYNTHETIC"] == told


@pytest.mark.parametrize("name", SERVICES)
def test_every_host_knows_all_hosts_and_all_nodes(name: str) -> None:
    """slurmctld resolves all its nodes, running or not: fixed addresses, in every /etc/hosts."""
    service = SERVICES[name]

    addresses = {other.name: other.address for other in SERVICES.values()}
    assert addresses.items() <= service.hosts.items()
    assert service.environment["HPCMGR_NODES"].split() == NODES


def test_only_compute_nodes_have_more_than_an_ordinary_container() -> None:
    """SYS_ADMIN and control groups of one's own are for slurmd alone."""
    more = {s.name for s in SERVICES.values() if s.cap_add or s.cgroup or s.device_cgroup_rules}

    assert more == set(NODES)


def test_variables_choose_release_network_and_confinement() -> None:
    """As docker compose would fill them in."""
    variables = {"HPCMGR_SLURM": "26.05", "HPCMGR_NET": "10.9.8", "HPCMGR_CONFINE": "no"}
    project = composefile.load(variables)

    assert project.subnet == "10.9.8.0/24"
    assert {service.image for service in project.services} == {"hpcmgr-cluster:26.05"}
    assert {service.environment["HPCMGR_CONFINE"] for service in project.services} == {"no"}
    assert all(service.address.startswith("10.9.8.") for service in project.services)
