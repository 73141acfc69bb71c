"""The configuration as the rules see it: nodes, GRES records, settings, each with its place."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from hpcmgr.slurm.capability import Release
from hpcmgr.slurm.hostlist import expand, fold
from hpcmgr.slurm.tres import GresItem, parse_count
from hpcmgr.verify.conf import Conf, Entry, read_conf
from hpcmgr.verify.finding import Finding, Place, error
from hpcmgr.verify.values import Machine, expand_files, positive

NEUTRAL = frozenset({"compute", "vram"})
SHARED = frozenset({"mps", "shard"})
"""Parts of GPUs: their records name the same files, and their counts are not numbers of files."""
ENV_FLAGS = frozenset(
    {"nvidia_gpu_env", "amd_gpu_env", "intel_gpu_env", "opencl_env", "no_gpu_env", "env_uuid"}
)
"""Flags that only say which variables Slurm sets."""
FRAGMENT = "hpcmgr.conf"
GRES_FRAGMENT = "hpcmgr-gres.conf"
"""What hpcmgr writes where gres.conf is the site's own, which includes it."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node of slurm.conf; ``keys`` are lower case and include those of NodeName=DEFAULT."""

    name: str
    entry: Entry
    keys: Mapping[str, str]
    gres: tuple[GresItem, ...]

    @property
    def place(self) -> Place:
        """Its NodeName line."""
        return self.entry.place

    @property
    def machine(self) -> Machine | None:
        """What the line says of the machine; None if it names no cores."""
        keys = self.keys
        if not ({"sockets", "socketsperboard", "corespersocket"} & keys.keys()):
            return None
        boards = positive(keys.get("boards"), 1)
        sockets = positive(keys.get("sockets"), 0)
        if not sockets:
            sockets = boards * positive(keys.get("socketsperboard"), 1)
        return Machine(
            sockets,
            positive(keys.get("corespersocket"), 1),
            positive(keys.get("threadspercore"), 1),
        )


@dataclass(frozen=True, slots=True)
class GresRecord:
    """One line of gres.conf. ``nodes`` None: every node. ``files`` None: it names none, or in a
    way nobody can read (a finding of its own)."""

    entry: Entry
    nodes: tuple[str, ...] | None
    name: str
    type: str | None
    files: tuple[str, ...] | None
    multiple: bool
    flags: tuple[str, ...]

    @property
    def place(self) -> Place:
        """Its line."""
        return self.entry.place

    @property
    def cores(self) -> str | None:
        """The text of Cores= (or its old name CPUs=)."""
        return self.entry.get("cores", "cpus")

    @property
    def has_file(self) -> bool:
        """Whether it names a device file at all."""
        return self.entry.get("file", "files", "multiplefiles") is not None

    @property
    def count(self) -> int | None:
        """Devices it stands for; None if that cannot be read."""
        text = self.entry.get("count")
        if self.multiple:
            return 1
        if text is not None:
            return parse_count(text)
        if self.has_file:
            return None if self.files is None else len(self.files)
        return 1


@dataclass(frozen=True, slots=True)
class Shape:
    """Nodes of one line that also have the same GRES records."""

    names: tuple[str, ...]
    node: Node
    records: tuple[GresRecord, ...]

    @property
    def label(self) -> str:
        """The nodes as a hostlist, shortened where it is long."""
        text = fold(self.names)
        return text if len(text) <= 60 else f"{self.names[0]} and {len(self.names) - 1} more"


@dataclass
class Configuration:
    """All files of one directory. ``fragment``: there is no slurm.conf, hpcmgr.conf stands in."""

    directory: Path
    release: Release
    slurm: Conf
    gres: Conf
    cgroup: Conf
    topology: Conf
    fragment: bool = False
    devices: frozenset[str] | None = None
    machines: Mapping[str, Machine] = field(default_factory=dict)
    problems: list[Finding] = field(default_factory=list)

    @cached_property
    def settings(self) -> dict[str, tuple[str, Place]]:
        """Keys of slurm.conf outside the lines of nodes and partitions; the last one holds."""
        found: dict[str, tuple[str, Place]] = {}
        for entry in self.slurm.entries:
            if entry.head not in LINE_KEYS:
                for pair in entry.pairs:
                    found[pair.key.lower()] = (pair.value, entry.place)
        return found

    def setting(self, key: str, default: str = "") -> str:
        """The value of a key (lower case)."""
        return self.settings.get(key, (default, Place()))[0]

    def place_of(self, key: str) -> Place:
        """Where a key is set, else slurm.conf as a whole."""
        return self.settings.get(key, ("", Place(self.slurm.path)))[1]

    def words(self, key: str) -> list[str]:
        """The items of a comma list, in lower case."""
        return [w.strip().lower() for w in self.setting(key).split(",") if w.strip()]

    def plugins(self, key: str, default: str = "") -> list[str]:
        """Plugin names without their kind, which Slurm lets one leave out: ``cons_tres``."""
        words = self.words(key) or ([default] if default else [])
        return [word.rpartition("/")[2] for word in words]

    @property
    def files(self) -> frozenset[Path]:
        """The files of slurm.conf and gres.conf that have something to say, with includes."""
        confs = (self.slurm, self.gres)
        return frozenset(e.place.file for conf in confs for e in conf.entries if e.place.file)

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """Nodes by name, in the order of the file."""
        return _nodes(self.slurm, self.problems)

    @cached_property
    def records(self) -> tuple[GresRecord, ...]:
        """Records with a name, in the order of the file."""
        return tuple(
            record
            for entry in self.gres.entries
            if (record := _record(entry, self.problems)) is not None
        )

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """Nodes folded by line and records."""
        common = [i for i, r in enumerate(self.records) if r.nodes is None]
        own: dict[str, list[int]] = {}
        for i, record in enumerate(self.records):
            for name in record.nodes or ():
                own.setdefault(name, []).append(i)
        groups: dict[tuple[Place, tuple[int, ...]], list[str]] = {}
        for name, node in self.nodes.items():
            indices = tuple(sorted({*common, *own.get(name, ())}))
            groups.setdefault((node.place, indices), []).append(name)
        return tuple(
            Shape(tuple(names), self.nodes[names[0]], tuple(self.records[i] for i in indices))
            for (_, indices), names in groups.items()
        )

    @cached_property
    def autodetect(self) -> str:
        """The AutoDetect value of a line of its own, for all nodes; empty without one."""
        lines = (entry.get("autodetect") for entry in self.gres.settings("autodetect"))
        return next((value.lower() for value in lines if value), "")

    @cached_property
    def autodetect_by_node(self) -> dict[str, str]:
        """AutoDetect values that stand beside a NodeName."""
        found: dict[str, str] = {}
        for entry in self.gres.settings("nodename"):
            value = entry.get("autodetect")
            if value:
                for name in hosts(entry.get("nodename") or "", entry.place, []):
                    found.setdefault(name, value.lower())
        return found

    def detection(self, node: str) -> str:
        """The AutoDetect value that holds for one node; empty without one, or where it is off."""
        value = self.autodetect_by_node.get(node, self.autodetect)
        return "" if value == "off" else value

    def detecting(self, record: GresRecord) -> bool:
        """Whether AutoDetect is on for the nodes of this record."""
        nodes = record.nodes if record.nodes is not None else tuple(self.nodes)
        return bool(self.detection(nodes[0]) if nodes else self.autodetect not in {"", "off"})

    def machine(self, node: Node) -> Machine | None:
        """The machine as known from elsewhere (the inventory), else as its line says."""
        return self.machines.get(node.name) or node.machine


_GRES_KEYS = (
    "AutoDetect", "Count", "CPUs", "Cores", "File", "Files", "Flags", "Link", "Links",
    "MultipleFiles", "Name", "NodeName", "Type",
)  # fmt: skip
GRES_KEYS = {key.lower(): key for key in _GRES_KEYS}
"""The keys of gres.conf, the same from 22.05 to 26.05."""

LINE_KEYS = frozenset({"nodename", "partitionname", "nodeset", "downnodes", "frontendname"})
"""First keys of slurm.conf's records; other lines are plain settings."""


def read_configuration(
    directory: Path,
    release: Release,
    machines: Mapping[str, Machine] | None = None,
    stands_for: Path | None = None,
) -> Configuration:
    """Read the files of ``directory``; what is missing or odd is left to the rules."""

    def read(name: str) -> Conf:
        return read_conf(directory / name, stands_for)

    slurm = read("slurm.conf")
    fragment = not slurm.exists and (directory / FRAGMENT).exists()
    configuration = Configuration(
        directory=directory,
        release=release,
        slurm=read(FRAGMENT) if fragment else slurm,
        gres=read("gres.conf"),
        cgroup=read("cgroup.conf"),
        topology=read("topology.conf"),
        fragment=fragment,
        machines=machines or {},
    )
    configuration.devices = _device_list(directory / "dev.txt")
    configuration.gres.entries = [
        _spelt(entry, configuration.problems) for entry in configuration.gres.entries
    ]
    return configuration


def _spelt(entry: Entry, problems: list[Finding]) -> Entry:
    """The record with misspelt keys put right, so that one slip of the pen is one finding."""
    pairs = []
    for pair in entry.pairs:
        if pair.key.lower() in GRES_KEYS:
            pairs.append(pair)
            continue
        near = difflib.get_close_matches(pair.key.lower(), GRES_KEYS, 1)
        maybe = f"; did you mean {GRES_KEYS[near[0]]}?" if near else ""
        problems.append(
            error(
                "unknown-key",
                entry.place,
                f"gres.conf has no key {pair.key}{maybe}",
                "slurmd refuses the whole file.",
                f"use one of {', '.join(sorted({*GRES_KEYS.values()}))}",
            )
        )
        if near:
            pairs.append(replace(pair, key=GRES_KEYS[near[0]]))
    return replace(entry, pairs=tuple(pairs))


def _device_list(path: Path) -> frozenset[str] | None:
    """Paths of ``dev.txt`` (path type major minor mode), None without one."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return frozenset(
        fields[0] for line in lines if (fields := line.split()) and not line.startswith("#")
    )


def _nodes(slurm: Conf, problems: list[Finding]) -> dict[str, Node]:
    nodes: dict[str, Node] = {}
    defaults: dict[str, str] = {}
    for entry in slurm.settings("nodename"):
        names = entry.pairs[0].value
        keys = {pair.key.lower(): pair.value for pair in entry.pairs[1:]}
        if names.upper() == "DEFAULT":
            defaults.update(keys)
            continue
        merged = {**defaults, **keys}
        gres = _node_gres(merged.get("gres", ""), entry, problems)
        for name in hosts(names, entry.place, problems):
            if name in nodes:
                problems.append(_twice(name, entry.place, nodes[name].place))
            nodes[name] = Node(name, entry, merged, gres)
    return nodes


def hosts(text: str, place: Place, problems: list[Finding]) -> list[str]:
    """Names of a hostlist; one that cannot be read becomes a problem."""
    try:
        return expand(text)
    except ValueError as problem:
        problems.append(
            error(
                "hostlist",
                place,
                str(problem),
                "Slurm would not know which nodes are meant.",
                "write node names as in gpu[01-04,07]",
            )
        )
        return []


def _node_gres(text: str, entry: Entry, problems: list[Finding]) -> tuple[GresItem, ...]:
    if text.lower() in {"", "none", "(null)"}:
        return ()
    items = []
    # no_consume stands between type and count; it changes no count.
    for part in text.replace(":no_consume", "").split(","):
        item = _gres_item(part.strip())
        if item is None or item.number is None:
            problems.append(
                error(
                    "gres-form",
                    entry.place,
                    f"Gres=: {part[:60]!r} is not of the form name:type:count",
                    "Slurm would drop the entry or take it for something else.",
                    "write for example Gres=gpu:a100:8",
                )
            )
        else:
            items.append(item)
    return tuple(items)


def _gres_item(text: str) -> GresItem | None:
    """``gpu``, ``gpu:8``, ``gpu:a100``, ``gpu:a100:8``; a type may be a number, as Slurm has it."""
    words = text.split(":")
    if len(words) > 3 or not all(words):
        return None
    if len(words) == 3:
        return GresItem(words[0], words[1], words[2])
    if len(words) == 2 and not words[1][0].isdigit():
        return GresItem(words[0], words[1], None)
    return GresItem(words[0], None, words[1] if len(words) == 2 else None)


def _twice(name: str, place: Place, first: Place) -> Finding:
    return error(
        "node-twice",
        place,
        f"node {name} is already defined at {first}",
        "slurmctld refuses a node that is defined twice.",
        "keep one of the two lines",
    )


def _record(entry: Entry, problems: list[Finding]) -> GresRecord | None:
    name = entry.get("name")
    if not name:
        return None
    nodes = entry.get("nodename")
    multiple = entry.get("multiplefiles")
    return GresRecord(
        entry=entry,
        nodes=None if nodes is None else tuple(hosts(nodes, entry.place, problems)),
        name=name,
        type=entry.get("type"),
        files=_files(multiple or entry.get("file", "files"), entry.place, problems),
        multiple=multiple is not None,
        flags=tuple(f for f in (entry.get("flags") or "").split(",") if f),
    )


def _files(text: str | None, place: Place, problems: list[Finding]) -> tuple[str, ...] | None:
    if text is None:
        return None
    try:
        return tuple(expand_files(text))
    except ValueError as problem:
        problems.append(
            error(
                "file-list",
                place,
                f"File={problem}",
                "slurmd would find no such device and refuse to start.",
                "write files as in /dev/nvidia[0-3,6] or /dev/a,/dev/b",
            )
        )
        return None
