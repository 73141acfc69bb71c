"""A corpus file as part of a small site that is right in everything else.

The site is laid out twice: ``site`` as an administrator would have it, for hpcmgr, and ``raw`` as
throw-away daemons can run it, with the corpus file byte for byte as it is.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hpcmgr.slurm.capability import NEWEST
from hpcmgr.slurm.hostlist import fold
from hpcmgr.verify.conf import read_conf
from hpcmgr.verify.configuration import Configuration, hosts, read_configuration
from hpcmgr.verify.finding import Place
from hpcmgr.verify.values import Machine, format_cores, parse_cores

CGROUP = "ConstrainDevices=yes\nConstrainCores=yes\nConstrainRAMSpace=yes\n"
SITE = """\
ClusterName=corpus
SlurmctldHost=ctl(127.0.0.1)
AuthType=auth/munge
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity,task/cgroup
"""
RAW = """\
ClusterName=corpus
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={0}/state
SlurmdSpoolDir={0}/spool-%n
SlurmctldPidFile={0}/slurmctld.pid
SlurmdPidFile={0}/slurmd-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MailProg=/bin/true
ReturnToService=2
"""
COMMON = """\
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
"""

# What a file's INDEX says of the slurm.conf beside it, or the machine it was written for.
GRES_OF_NODES = {
    "gres/005": "gpu:1",
    "gres/007": "gpu:tty:4,mps:1000",
    "gres/009": "gpu:1",
    "gres/015": "gpu:tesla:2,gpu:gtx:1",
    "gres/040": "gpu:2",
    "gres/073": "gpu:1",
    "gres/085": "gpu:1",
}
MACHINES = {"gres/035": Machine(2, 16, 2)}
# Written with a prefix forgotten: these nodes do not exist (its INDEX entry).
NO_NODES = {"topology/027": {"n019", "n020"}}
MOST_TO_START = 6
_OTHER_MACHINE = re.compile(rb"(?im)^\s*PluginDir\s*=.*$")


@dataclass(frozen=True, slots=True)
class Case:
    """One corpus file. ``start``: nodes to register, with their machines in hwloc's words."""

    name: str
    path: Path
    index: str
    site: dict[str, bytes]
    raw: dict[str, bytes] = field(default_factory=dict)
    start: dict[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()

    def lay_out(self, folder: Path, inside: Path) -> None:
        """Write both sites below ``folder``, which the daemons know as ``inside``."""
        for kind, files in (("site", self.site), ("raw", self.raw)):
            for name, data in files.items():
                place = folder / kind / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data.replace(b"@HERE@", str(inside / kind).encode()))
        about = {"start": self.start, "devices": self.devices}
        (folder / "case.json").write_text(json.dumps(about))


def cases(corpus: Path, scratch: Path) -> list[Case]:
    """All of the corpus, sorted by name."""
    makers = {"gres": _gres_case, "topology": _topology_case, "slurmconf": _slurm_case}
    found = []
    for kind, make in makers.items():
        index = _index(corpus / kind / "INDEX.md")
        for path in sorted((corpus / kind).iterdir()):
            if path.name != "INDEX.md":
                name = f"{kind}/{path.stem}"
                place = scratch / kind / path.stem
                place.mkdir(parents=True)
                found.append(make(name, path, index.get(path.name, ""), place))
    return found


def _index(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    entries = (re.match(r"- `([^`]+)` — .*? — (.*)", line) for line in lines)
    return {entry[1]: entry[2] for entry in entries if entry}


def _gres_case(name: str, path: Path, index: str, scratch: Path) -> Case:
    (scratch / "gres.conf").write_bytes(path.read_bytes())
    c = read_configuration(scratch, NEWEST)
    nodes = list(dict.fromkeys(n for r in c.records for n in r.nodes or ())) or ["n1"]
    machine = MACHINES.get(name) or _machine(c)
    gres = {node: GRES_OF_NODES.get(name) or _gres_of(c, node) for node in nodes}
    lines = [
        f"NodeName={fold(group)} {{0}}Sockets={machine.sockets} "
        f"CoresPerSocket={machine.cores_per_socket} ThreadsPerCore={machine.threads_per_core} "
        f"RealMemory={{1}}" + (f" Gres={words}" if words else "")
        for words, group in _grouped(gres).items()
    ]
    names = sorted({part.split(":")[0] for words in gres.values() for part in words.split(",")})
    head = COMMON + "".join(f"GresTypes={','.join(names)}\n" if any(names) else "")
    started = {nodes[0]: "", **{group[0]: "" for group in _grouped(gres).values()}}
    start = dict.fromkeys(list(started)[:MOST_TO_START], machine.synthetic)
    return _framed(name, path, index, head, lines, "gres.conf", start, _devices(c))


def _topology_case(name: str, path: Path, index: str, scratch: Path) -> Case:
    # What is no file of Slurm's at all is looked at as if it were one.
    target = "topology.yaml" if path.suffix == ".yaml" else "topology.conf"
    (scratch / target).write_bytes(path.read_bytes())
    conf = read_conf(scratch / "topology.conf")
    heads = {entry.head for entry in conf.entries}
    plugin = "block" if "blockname" in heads or "blocksizes" in heads else "tree"
    nodes = {
        n
        for entry in conf.entries
        for n in hosts(entry.get("nodes") or "", Place(), [])
        if entry.get("nodes")
    } | _yaml_nodes(path)
    nodes = nodes - NO_NODES.get(name, set()) or {"n1"}
    head = COMMON if target == "topology.yaml" else f"{COMMON}TopologyPlugin=topology/{plugin}\n"
    lines = [
        f"NodeName={fold(nodes)} {{0}}Sockets=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory={{1}}"
    ]
    first = fold(nodes) if len(nodes) == 1 else min(nodes)
    return _framed(name, path, index, head, lines, target, {first: Machine(1, 2, 1).synthetic}, ())


def _slurm_case(name: str, path: Path, index: str, scratch: Path) -> Case:
    """A slurm.conf with a gres.conf that has what its Gres= asks for."""
    (scratch / "slurm.conf").write_bytes(path.read_bytes())
    c = read_configuration(scratch, NEWEST)
    lines = []
    for shape in c.shapes:
        first: dict[str, int] = {}
        for item in shape.node.gres:
            number = min(item.number or 0, 64)
            low = first.get(item.name, 0)
            first[item.name] = low + number
            kind = f" Type={item.type}" if item.type else ""
            what = (
                f"Count={item.number}"
                if item.name in {"mps", "shard"}
                else f"File=/dev/{item.name}[{low}-{low + number - 1}]"
            )
            lines.append(f"NodeName={fold(shape.names)} Name={item.name}{kind} {what}\n")
    site = {
        "slurm.conf": _OTHER_MACHINE.sub(b"", path.read_bytes()),
        "gres.conf": "".join(lines).encode(),
        "cgroup.conf": CGROUP.encode(),
    }
    return Case(name, path, index, site)


def _framed(
    name: str,
    path: Path,
    index: str,
    head: str,
    node_lines: list[str],
    target: str,
    start: dict[str, str],
    devices: tuple[str, ...],
) -> Case:
    partition = "PartitionName=all Nodes=ALL Default=YES\n"
    away = "NodeAddr=127.0.0.1 "
    site = SITE + head + "".join(f"{line.format('', 1000)}\n" for line in node_lines) + partition
    raw = RAW.format("@HERE@") + head
    raw += "".join(_single(line, start, away) for line in node_lines) + partition
    data = path.read_bytes()
    return Case(
        name,
        path,
        index,
        {"slurm.conf": site.encode(), "cgroup.conf": CGROUP.encode(), target: data},
        {"slurm.conf": raw.encode(), "cgroup.conf": b"CgroupPlugin=disabled\n", target: data},
        start,
        devices,
    )


def _single(line: str, start: dict[str, str], away: str) -> str:
    """Nodes that are started get a port each."""
    text, _, rest = line.format(away, 1).removeprefix("NodeName=").partition(" ")
    names = hosts(text, Place(), [])
    ports = {name: 7001 + i for i, name in enumerate(start)}
    others = [name for name in names if name not in ports]
    lines = [f"NodeName={n} NodeHostname=localhost Port={ports[n]} {rest}\n"
             for n in names if n in ports]  # fmt: skip
    if others:
        lines.append(f"NodeName={fold(others)} NodeHostname=localhost Port=7000 {rest}\n")
    return "".join(lines)


def _machine(c: Configuration) -> Machine:
    """The machine for which the file's Cores= seem to be written: whole sockets of equal size."""
    texts = [record.cores for record in c.records if record.cores]
    sets = []
    for text in texts:
        try:
            sets.append(parse_cores(text))
        except ValueError:
            continue
    if not sets:
        return Machine(1, 2, 1)
    size = min(len(_first_run(cores)) for cores in sets)
    return Machine(math.ceil((max(map(max, sets)) + 1) / size), size, 1)


def _first_run(cores: set[int]) -> set[int]:
    low, _, high = format_cores(cores).split(",")[0].partition("-")
    return set(range(int(low), int(high or low) + 1))


def _gres_of(c: Configuration, node: str) -> str:
    """Gres= as the records have it."""
    counts: dict[str, int] = {}
    for record in c.records:
        if record.nodes is None or node in record.nodes:
            key = record.name + (f":{record.type}" if record.type else "")
            counts[key] = counts.get(key, 0) + (record.count or 1)
    return ",".join(f"{key}:{count}" for key, count in counts.items())


def _grouped(gres: dict[str, str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for node, words in gres.items():
        groups.setdefault(words, []).append(node)
    return groups


def _devices(c: Configuration) -> tuple[str, ...]:
    return tuple(sorted({f for r in c.records for f in r.files or () if f.startswith("/dev/")}))


def _yaml_nodes(path: Path) -> set[str]:
    if path.suffix != ".yaml":
        return set()
    try:
        document = yaml.safe_load(path.read_text())
    except yaml.YAMLError:
        return set()
    return {n for text in _values_of_nodes(document) for n in hosts(text, Place(), [])}


def _values_of_nodes(document: Any) -> Iterable[str]:
    if isinstance(document, list):
        for item in document:
            yield from _values_of_nodes(item)
    elif isinstance(document, dict):
        for key, value in document.items():
            if key == "nodes" and isinstance(value, str):
                yield value
            else:
                yield from _values_of_nodes(value)
