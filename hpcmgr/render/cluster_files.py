"""gres.conf, hpcmgr.conf, cgroup.conf and the topology of a whole cluster.

``hpcmgr.conf`` is included by the site's own slurm.conf, before its partitions; the site's file is
never written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from hpcmgr.plan import NEUTRAL, ClusterPlan, NodePlan, PlannedDevice
from hpcmgr.render.environment import fill
from hpcmgr.render.partitions import node_sets, partition_lines
from hpcmgr.render.topology import render_topology
from hpcmgr.slurm.hostlist import fold

TASK_PROLOG = "/etc/hpcmgr/task_prolog.sh"
"""Written on every node by ``hpcmgr sync``."""


@dataclass(frozen=True, slots=True)
class GresRecord:
    """One gres.conf record; empty or None means that the key is left out."""

    name: str
    type: str = ""
    count: int | None = None
    file: str = ""
    multiple_files: str = ""
    cores: str = ""
    flags: str = ""


def render_cluster(plan: ClusterPlan) -> dict[str, str]:
    """File name → text, in the order in which people read them. topology.conf or topology.yaml is
    there only where the site describes its fabric."""
    return {
        "hpcmgr.conf": _hpcmgr_conf(plan),
        "gres.conf": _gres_conf(plan),
        "cgroup.conf": fill("cgroup.conf.j2", cgroup=plan.site.cgroup),
        **render_topology(plan),
    }


def _gres_conf(plan: ClusterPlan) -> str:
    groups: dict[tuple[GresRecord, ...], list[str]] = {}
    known: dict[object, tuple[GresRecord, ...]] = {}
    for node in plan.nodes:
        alike = _alike(node)
        if alike not in known:
            known[alike] = tuple(gres_records(node))
        if known[alike]:
            groups.setdefault(known[alike], []).append(node.name)
    blocks = sorted((fold(names), records) for records, names in groups.items())
    notes = [(node.name, note) for node in plan.nodes for note in node.notes]
    return fill("gres.conf.j2", blocks=blocks, notes=notes)


def _alike(node: NodePlan) -> tuple[object, ...]:
    """What the records of a node depend on: there are thousands of nodes and few kinds."""
    devices = tuple((d.profile.name, d.files, d.socket) for d in node.devices)
    return node.cores_per_socket, devices, tuple(node.gres.items())


def gres_records(node: NodePlan) -> list[GresRecord]:
    """The records of one node in Slurm's order: devices, shares of them, then counts."""
    records: list[GresRecord] = []
    for name in dict.fromkeys(d.profile.gres.name for d in node.devices):
        devices = node.of_name(name)
        # Slurm refuses cores on some records of a name only: all or none.
        with_cores = all(device.socket is not None for device in devices)
        records += _device_records(node, devices, with_cores=with_cores)
    records += _share_records(node)
    records += [
        GresRecord(name, count=node.gres[name], flags="CountOnly")
        for name in NEUTRAL
        if name in node.gres
    ]
    return records


def _share_records(node: NodePlan) -> list[GresRecord]:
    """Shares of each device that has any; type and cores are the device's, Slurm takes them from
    there."""
    records: list[GresRecord] = []
    for run in _runs(tuple(d for d in node.devices if d.sharing is not None), _same_shares):
        sharing = run[0].sharing
        if sharing is not None:
            count = sharing.shares * len(run)
            records.append(GresRecord(sharing.name, count=count, file=_files(run)))
    return records


def _same_shares(a: PlannedDevice, b: PlannedDevice) -> bool:
    return a.sharing == b.sharing and _follows(a, b)


def _device_records(
    node: NodePlan, devices: tuple[PlannedDevice, ...], *, with_cores: bool
) -> list[GresRecord]:
    def same(a: PlannedDevice, b: PlannedDevice) -> bool:
        if a.profile.gres != b.profile.gres or (with_cores and a.socket != b.socket):
            return False
        return _follows(a, b)

    return [_record(node, run, with_cores=with_cores) for run in _runs(devices, same)]


def _runs(
    devices: tuple[PlannedDevice, ...], same: Callable[[PlannedDevice, PlannedDevice], bool]
) -> list[list[PlannedDevice]]:
    """Neighbours that may stand in one record together."""
    runs: list[list[PlannedDevice]] = []
    for device in devices:
        if runs and same(runs[-1][-1], device):
            runs[-1].append(device)
        else:
            runs.append([device])
    return runs


def _follows(a: PlannedDevice, b: PlannedDevice) -> bool:
    """Whether ``b`` may follow ``a`` in one record: File=/dev/x[0-1] keeps the order only if the
    numbers follow each other."""
    if len(a.files) != 1 or len(b.files) != 1:
        return False
    (stem_a, number_a), (stem_b, number_b) = _numbered(a.files[0]), _numbered(b.files[0])
    return stem_a == stem_b and number_a is not None and number_b == number_a + 1


def _record(node: NodePlan, run: list[PlannedDevice], *, with_cores: bool) -> GresRecord:
    first = run[0]
    gres, several = first.profile.gres, len(first.files) > 1
    return GresRecord(
        name=gres.name,
        type=gres.type,
        file="" if several else _files(run),
        multiple_files=",".join(first.files) if several else "",
        cores=_cores(node, first.socket) if with_cores else "",
        flags=",".join(node.env_flags(gres.name)),
    )


def _files(run: list[PlannedDevice]) -> str:
    file = run[0].files[0]
    if len(run) == 1:
        return file
    stem, low = _numbered(file)
    return f"{stem}[{low}-{_numbered(run[-1].files[0])[1]}]"


def _cores(node: NodePlan, socket: int | None) -> str:
    """Abstract core ids of one whole socket (24.11.2 and newer refuse anything else)."""
    if socket is None:
        return ""
    first = socket * node.cores_per_socket
    last = first + node.cores_per_socket - 1
    return f"{first}-{last}" if last > first else str(first)


def _numbered(file: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(.*?)(0|[1-9]\d*)", file)
    return (found[1], int(found[2])) if found else (file, None)


def _hpcmgr_conf(plan: ClusterPlan) -> str:
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for node in plan.nodes:
        groups.setdefault(tuple(_node_keys(node)), []).append(node.name)
    lines = sorted(
        (fold(names), " ".join(f"{key}={value}" for key, value in keys))
        for keys, names in groups.items()
    )
    billing = plan.site.billing
    weights = ",".join(f"{tres}={weight}" for tres, weight in billing.weights.items())
    return fill(
        "hpcmgr.conf.j2",
        gres_types=",".join(plan.gres_types),
        accounting_tres=",".join(plan.tracked_tres) if plan.site.accounting else "",
        billing_weights=weights if plan.site.accounting and billing.enabled else "",
        task_prolog=TASK_PROLOG,
        nodes=lines,
        node_sets=node_sets(plan),
        partitions=partition_lines(plan),
    )


def _node_keys(node: NodePlan) -> list[tuple[str, str]]:
    keys = [
        ("Sockets", str(node.sockets)),
        ("CoresPerSocket", str(node.cores_per_socket)),
        ("ThreadsPerCore", str(node.threads_per_core)),
        ("RealMemory", str(node.memory_mib)),
    ]
    if node.gres:
        keys.append(("Gres", ",".join(f"{key}:{count}" for key, count in node.gres.items())))
    if node.features:
        keys.append(("Features", ",".join(node.features)))
    return keys + sorted(node.options.items())
