"""The proof copy: the site's files, changed as little as a throw-away cluster allows.

Every line remembers where it comes from, so that what Slurm says about the copy can be said about
the site's own files. Includes are put in place; the reader has already told which are missing.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hpcmgr.slurm.hostlist import fold
from hpcmgr.verify.conf import Conf, Entry, Pair
from hpcmgr.verify.configuration import LINE_KEYS, Configuration, Node, hosts
from hpcmgr.verify.finding import Place

FIRST_PORT = 7001
CONTROLLER_PORT = 6817

_DROPPED = re.compile(
    r"""
    # who talks to whom, and as whom
    (?:slurmctld|control|backup).*(?:host|machine|addr|port|parameters|timeout|pidfile|prog.*)
    | slurmctldpidfile | slurmdpidfile | slurmdport | slurmctldport | slurmduser | slurmuser
    | auth.* | cred.* | tls.* | cert.* | communicationparameters | slurmdparameters
    | clustername | federation.* | resumerate | http.* | url.* | dataparser.* | metrics.*
    # where state, logs and programs lie
    | statesavelocation | slurmdspooldir | slurm.*log.* | slurm.*debug | debugflags | logtimeformat
    | .*prolog.* | .*epilog.* | .*program | .*prog | mailprog | maildomain | plugstackconfig
    | resume.* | suspend.* | power.* | healthcheck.* | unkillable.* | reboot.* | tmpfs
    # other plugins than those that decide about devices, cores and topology
    | accounting.* | jobcomp.* | jobacct.* | acctgather.* | jobsubmit.* | clifilter.* | prep.*
    | jobcontainer.* | namespace.* | burstbuffer.* | mpi.* | switch.* | mcs.* | nodefeatures.*
    | task(?:plugin|pluginparam) | proctracktype | priority.* | preempt.* | usepam
    | returntoservice | requeueexit.*
    """,
    re.VERBOSE,
)
# RealMemory is a matter of the live machine, which is not the one that proves: in the copy it is 1.
_DROPPED_OF_NODE = re.compile(
    r"""nodename | nodeaddr | nodehostname | bcastaddr | port | state | reason | tmpdisk
    | memspeclimit | parameters | realmemory""",
    re.VERBOSE,
)
# TRESBillingWeights names TRES that only slurmdbd can keep; a rule of its own looks at it.
_DROPPED_OF_PARTITION = re.compile(
    r"""qos | (?:allow|deny).* | tresbillingweights | state | preemptmode | gracetime
    | (?:suspend|resume)time(?:out)? | powerdownonidle""",
    re.VERBOSE,
)
_DROPPED_OF_CGROUP = re.compile(r"cgroupplugin|cgroupmountpoint|ignoresystemd")

_OWN_SETTINGS = """\
ClusterName=proof
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool/%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
PriorityType=priority/basic
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SlurmctldDebug=info
SlurmdDebug=info
"""


@dataclass(slots=True)
class ProofFile:
    """Lines and where each comes from."""

    lines: list[tuple[Pair, ...]] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)

    def add(self, pairs: Iterable[Pair], place: Place) -> None:
        """Add one line."""
        self.lines.append(tuple(pairs))
        self.places.append(place)

    def place(self, line: int) -> Place:
        """The origin of a line, counted from 1."""
        return self.places[line - 1] if 0 < line <= len(self.places) else Place()

    def write(self, path: Path, unknown: frozenset[str]) -> None:
        """Write the lines without pairs of ``unknown`` keys (lower case)."""
        text = "".join(
            f"{' '.join(_pair(p) for p in line if p.key.lower() not in unknown)}\n"
            for line in self.lines
        )
        path.write_text(text, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class ProofCopy:
    """The written copy: its directory, its files by name, and the port of every proven node."""

    directory: Path
    files: Mapping[str, ProofFile]
    ports: Mapping[str, int]

    @property
    def slurm_conf(self) -> Path:
        """Its slurm.conf."""
        return self.directory / "slurm.conf"

    @property
    def root(self) -> Path:
        """Below it lie stand-ins for the device nodes."""
        return self.directory / "root"

    def as_site(self, text: str) -> str:
        """Slurm's words with the paths of the site instead of those of the copy."""
        return text.replace(f"{self.root}/", "/").replace(f"{self.directory}/", "")


def write_proof(
    c: Configuration,
    nodes: Iterable[Node],
    directory: Path,
    user: str,
    unknown: frozenset[str] = frozenset(),
) -> ProofCopy:
    """Write the copy; ``nodes`` are those that will register, ``unknown`` keys are left out."""
    ports = {node.name: FIRST_PORT + i for i, node in enumerate(nodes)}
    copy = ProofCopy(
        directory,
        {
            "slurm.conf": _slurm_conf(c, ports, directory, user),
            "gres.conf": _gres_conf(c, directory / "root"),
            "cgroup.conf": _cgroup_conf(c.cgroup),
            **({"topology.conf": _plain(c.topology)} if c.topology.exists else {}),
        },
        ports,
    )
    for name, file in copy.files.items():
        file.write(directory / name, unknown)
    yaml = c.directory / "topology.yaml"
    if yaml.is_file():
        shutil.copyfile(yaml, directory / "topology.yaml")
    (directory / "state").mkdir(mode=0o700, exist_ok=True)
    for name in ports:
        (directory / "spool" / name).mkdir(parents=True, exist_ok=True)
    _stand_ins(c, copy.root)
    return copy


def _slurm_conf(
    c: Configuration, ports: Mapping[str, int], directory: Path, user: str
) -> ProofFile:
    file = ProofFile()
    partitions = False
    for entry in c.slurm.entries:
        if entry.head == "nodename":
            _node_lines(c, entry, ports, file)
        elif entry.head == "partitionname":
            partitions |= entry.pairs[0].value.upper() != "DEFAULT"
            file.add(_kept(entry.pairs, _DROPPED_OF_PARTITION), entry.place)
        elif entry.head == "nodeset":
            file.add(entry.pairs, entry.place)
        elif entry.head not in LINE_KEYS:
            for pair in entry.pairs:
                if not _DROPPED.fullmatch(pair.key.lower()) and not _waits_for_topology(c, pair):
                    file.add([pair], entry.place)
    own = _OWN_SETTINGS.format(port=CONTROLLER_PORT, user=user, directory=directory)
    if not partitions:
        own += "PartitionName=proof Nodes=ALL Default=YES\n"
    for line in own.splitlines():
        file.add((_own_pair(word) for word in line.split()), Place(c.slurm.path))
    return file


def _waits_for_topology(c: Configuration, pair: Pair) -> bool:
    """Slurm waits a minute for a topology.conf that is missing; the rules have told it."""
    there = c.topology.exists or (c.directory / "topology.yaml").exists()
    plugin = pair.value.lower().rpartition("/")[2]
    return pair.key.lower() == "topologyplugin" and plugin in {"tree", "block"} and not there


def _node_lines(c: Configuration, entry: Entry, ports: Mapping[str, int], file: ProofFile) -> None:
    """One line for each node that registers, one for all others of the entry."""
    names = [n for n in hosts(entry.pairs[0].value, entry.place, []) if n in c.nodes]
    names = [n for n in names if c.nodes[n].entry is entry]
    if not names:
        return
    keys = [
        Pair(key, value)
        for key, value in c.nodes[names[0]].keys.items()
        if not _DROPPED_OF_NODE.fullmatch(key)
    ]
    others = [n for n in names if n not in ports]
    lines = [(n, ports[n]) for n in names if n in ports]
    if others:
        lines.append((fold(others), FIRST_PORT - 1))
    for name, port in lines:
        where = {"NodeAddr": "127.0.0.1", "NodeHostname": "localhost", "Port": str(port)}
        own = {"NodeName": name, **where, "RealMemory": "1"}
        file.add([*(Pair(key, value) for key, value in own.items()), *keys], entry.place)


def _gres_conf(c: Configuration, root: Path) -> ProofFile:
    file = ProofFile()
    readable = {record.entry: record.files for record in c.records}
    for entry in c.gres.entries:
        # What AutoDetect finds is known on the node only; here nothing may be detected.
        pairs = [p for p in entry.pairs if p.key.lower() != "autodetect"]
        if readable.get(entry):
            pairs = [_moved(p, root) for p in pairs]
        if pairs and entry.get("name") is not None:
            file.add(pairs, entry.place)
    return file


def _moved(pair: Pair, root: Path) -> Pair:
    if pair.key.lower() not in {"file", "files", "multiplefiles"}:
        return pair
    parts = re.split(r",(?![^\[]*\])", pair.value)
    return Pair(pair.key, ",".join(str(_below(root, part)) for part in parts))


def _below(root: Path, file: str) -> Path:
    """``file`` below ``root``, and never above it."""
    return root / os.path.normpath(f"/{file}").lstrip("/")


def _stand_ins(c: Configuration, root: Path) -> None:
    """Links to /dev/null stand for device nodes: slurmd only asks whether they are there."""
    root.mkdir(exist_ok=True)
    for file in {f for record in c.records for f in record.files or ()}:
        path = _below(root, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink() and not path.exists():
            path.symlink_to("/dev/null")


def _cgroup_conf(conf: Conf) -> ProofFile:
    file = ProofFile()
    for entry in conf.entries:
        for pair in _kept(entry.pairs, _DROPPED_OF_CGROUP):
            file.add([pair], entry.place)
    file.add([Pair("CgroupPlugin", "disabled")], Place(conf.path))
    return file


def _plain(conf: Conf) -> ProofFile:
    file = ProofFile()
    for entry in conf.entries:
        file.add(entry.pairs, entry.place)
    return file


def _kept(pairs: Iterable[Pair], dropped: re.Pattern[str]) -> list[Pair]:
    return [pair for pair in pairs if not dropped.fullmatch(pair.key.lower())]


def _own_pair(text: str) -> Pair:
    key, _, value = text.partition("=")
    return Pair(key, value)


def _pair(pair: Pair) -> str:
    return f"{pair.key}={_quoted(pair.value)}"


def _quoted(value: str) -> str:
    text = value.replace("#", r"\#").replace("\n", " ").replace("\0", "")
    return f'"{text}"' if not text or re.search(r"\s", text) else text
