"""Sockets, cores, threads, NUMA nodes and memory, counted as slurmd counts them.

Slurm numbers sockets by their lowest CPU, not by the package id that the firmware gave.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from hpcmgr.discovery.host import Host
from hpcmgr.inventory import CpuTopology, NumaNode, SourceReport, cpu_list

NAME = "cpu"
_CPUS = "/sys/devices/system/cpu"
_NODES = "/sys/devices/system/node"


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """Processors and memory of the host."""

    report: SourceReport
    cpu: CpuTopology
    memory_mib: int


def collect(host: Host) -> CpuFacts:
    """Read sysfs and /proc/meminfo."""
    sockets, cores, threads, offline = _count(host)
    memory = _kib(host.read_text("/proc/meminfo"), "MemTotal")
    problems, notes = [], []
    if not sockets:
        problems.append(f"{_CPUS} tells no processors; one stands for them")
    elif len(cores) % len(sockets) or threads % len(cores):
        notes.append("sockets or cores differ in size; counted as slurmd does")
    if offline:
        notes.append(f"CPUs offline: {cpu_list.text_of(offline)}")
    if memory is None:
        problems.append("/proc/meminfo tells no memory")
    counted = CpuTopology(
        sockets=len(sockets) or 1,
        cores_per_socket=len(cores) // len(sockets) if sockets else 1,
        threads_per_core=threads // len(cores) if cores else 1,
        numa=_numa(host, sockets),
    )
    state = "broken" if problems else "present"
    report = SourceReport(name=NAME, state=state, detail="; ".join(problems + notes))
    return CpuFacts(report, counted, (memory or 0) // 1024)


def only_numa_node(cpu: CpuTopology) -> int | None:
    """The NUMA node of everything, where just one has CPUs; else None.

    Firmware of such machines often leaves ``numa_node`` of PCI functions at -1.
    """
    with_cpus = [node.id for node in cpu.numa if node.cpus]
    return with_cpus[0] if len(with_cpus) == 1 else None


def _count(host: Host) -> tuple[list[frozenset[int]], set[object], int, list[int]]:
    """CPU ids of each socket in Slurm's order, cores, number of threads, offline CPUs."""
    packages: dict[str, set[int]] = defaultdict(set)
    cores: set[object] = set()
    threads, offline = 0, []
    for name in host.listdir(_CPUS):
        if not re.fullmatch(r"cpu[0-9]{1,6}", name):
            continue
        cpu = int(name[3:])
        base = f"{_CPUS}/{name}/topology"
        package = host.read_text(f"{base}/physical_package_id")
        if package is None:
            offline.append(cpu)
            continue
        threads += 1
        packages[package.strip()].add(cpu)
        cores.add(_core(host, base, package.strip(), cpu))
    ordered = sorted((frozenset(ids) for ids in packages.values()), key=min)
    return ordered, cores, threads, sorted(offline)


def _core(host: Host, base: str, package: str, cpu: int) -> object:
    """What tells cores apart. ``core_id`` alone repeats over dies and is not contiguous."""
    for name in ("core_cpus_list", "thread_siblings_list"):
        siblings = cpu_list.parse(host.read_text(f"{base}/{name}"))
        if siblings:
            return siblings
    core = host.read_text(f"{base}/core_id")
    die = host.read_text(f"{base}/die_id") or ""
    return (package, die.strip(), core.strip()) if core else (package, cpu)


def _numa(host: Host, sockets: list[frozenset[int]]) -> tuple[NumaNode, ...]:
    nodes = []
    for name in host.listdir(_NODES):
        if not re.fullmatch(r"node[0-9]{1,6}", name):
            continue
        cpus = cpu_list.parse(host.read_text(f"{_NODES}/{name}/cpulist")) or frozenset()
        memory = _kib(host.read_text(f"{_NODES}/{name}/meminfo"), "MemTotal")
        nodes.append(
            NumaNode(
                id=int(name[4:]),
                cpus=cpu_list.text_of(cpus),
                memory_mib=None if memory is None else memory // 1024,
                socket=_socket_of(cpus, sockets),
            )
        )
    return tuple(sorted(nodes, key=lambda node: node.id))


def _socket_of(cpus: frozenset[int], sockets: list[frozenset[int]]) -> int | None:
    """The socket that holds all online CPUs of a NUMA node."""
    online = cpus & frozenset().union(*sockets)
    holding = [number for number, ids in enumerate(sockets) if online and online <= ids]
    return holding[0] if holding else None


def _kib(text: str | None, key: str) -> int | None:
    found = re.search(rf"\b{key}:\s*([0-9]{{1,15}})\s*kB", text or "")
    return int(found[1]) if found else None
