"""``hpcmgr capacity`` beside what Slurm's own tools say of the same moment.

Slurm's side is counted here anew, from other fields than hpcmgr reads: CfgTRES and AllocTRES of the
nodes (hpcmgr: Gres and GresUsed), one line of squeue for each task with what it asked per node
(hpcmgr: tres-alloc).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lightcluster.site import ReferenceSite

_OUT = re.compile(r"DOWN|DRAIN|MAINT|FAIL|INVAL|NOT_RESPONDING")
_TYPED = re.compile(r"gres/((?:gpu|npu):[\w.-]+)=(\d+)")
_ASKED = re.compile(r"gres/((?:gpu|npu)(?::[A-Za-z][\w.-]*)?):(\d+)")
KEYS = {"compute": "units", "vram": "memory_gib"}


@dataclass(frozen=True)
class Figure:
    """One number, as Slurm has it and as hpcmgr tells it."""

    what: str
    of: str
    slurm: int
    hpcmgr: int

    @property
    def agrees(self) -> bool:
        """Whether they are the same."""
        return self.slurm == self.hpcmgr


@dataclass(frozen=True)
class _Node:
    """From one record of ``scontrol show node``."""

    name: str
    out: bool
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    have: Counter[str]
    used: Counter[str]
    numbers: dict[str, int]

    @classmethod
    def read(cls, record: str) -> _Node:
        fields = dict(re.findall(r"(\w+)=(\S*)", record.partition(" Reason=")[0]))
        have, used = fields["CfgTRES"], fields["AllocTRES"]
        numbers = {
            "cpus": int(fields["CPUEfctv"]),
            "cpus free": int(fields["CPUEfctv"]) - _of(used, "cpu"),
            "memory": int(fields["RealMemory"]),
            "memory free": int(fields["RealMemory"]) - _of(used, "mem"),
            **{f"{key} have": _of(have, f"gres/{key}") for key in KEYS},
            **{f"{key} used": _of(used, f"gres/{key}") for key in KEYS},
        }  # fmt: skip
        return cls(
            fields["NodeName"],
            bool(_OUT.search(fields["State"])),
            tuple(fields["Partitions"].split(",")),
            tuple(fields["AvailableFeatures"].split(",")),
            _typed(have),
            _typed(used),
            numbers,
        )


def _typed(tres: str) -> Counter[str]:
    return Counter({key: int(number) for key, number in _TYPED.findall(tres)})


def _of(tres: str, key: str) -> int:
    found = re.search(rf"(?:^|,){key}=(\d+)", tres)
    return int(found[1]) if found else 0


def compare(site: ReferenceSite) -> list[Figure]:
    """Every figure; the cluster must stand still meanwhile."""
    text = site.run(["scontrol", "-o", "show", "nodes"], check=True).stdout
    nodes = [_Node.read(line) for line in text.splitlines() if line]
    return [
        *_by_type(site, nodes), *_by_node(site, nodes), *_by_partition(site, nodes),
        *_by_owner(site, "user", "%u"), *_by_owner(site, "account", "%a"),
        *_by_class(site, nodes),
    ]  # fmt: skip


def told(site: ReferenceSite, *options: str) -> dict[str, Any]:
    """hpcmgr's side."""
    done = site.run(["hpcmgr", "capacity", "--all", "--json", *options], check=True, timeout=60)
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def _by_type(site: ReferenceSite, nodes: list[_Node]) -> Iterator[Figure]:
    data = told(site)
    waiting = _jobs(site, "PENDING", "%t")["PD"]
    rows = {each["gres"]: each["waiting"]["devices"] for each in data["waiting"]}
    for key in sorted({*rows, *waiting}):
        yield Figure("devices waited for", key, waiting[key], rows.get(key, 0))
    for each in data["types"]:
        key, devices = each["gres"], each["devices"]
        have, used, out = (sum(counts) for counts in zip(*(
            (n.have[key], n.used[key], (n.have[key] - n.used[key]) * n.out) for n in nodes),
            strict=True))  # fmt: skip
        yield Figure("devices", key, have, devices["total"])
        yield Figure("devices used", key, used, devices["used"])
        yield Figure("devices out", key, out, devices["out"])
        rest = devices["reserved"] + devices["free"]
        yield Figure("devices free or reserved", key, have - used - out, rest)
    for key, word in KEYS.items():
        have = sum(node.numbers[f"{key} have"] for node in nodes)
        used = sum(node.numbers[f"{key} used"] for node in nodes)
        yield Figure(word, "all nodes", have, data["total"][word]["total"])
        yield Figure(f"{word} used", "all nodes", used, data["total"][word]["used"])


def _by_node(site: ReferenceSite, nodes: list[_Node]) -> Iterator[Figure]:
    rows = {each["name"]: each for each in told(site, "--by=node")["nodes"]}
    for node in nodes:
        row = rows.pop(node.name)
        ours = {here["gres"]: here["devices"] for here in row["types"]}
        for key in sorted({*node.have, *ours}):
            mine = ours.get(key, {"total": 0, "used": 0})
            yield Figure("devices", f"{node.name} {key}", node.have[key], mine["total"])
            yield Figure("devices used", f"{node.name} {key}", node.used[key], mine["used"])
        yield Figure("takes jobs", node.name, int(not node.out), int(row["takes_jobs"]))
        for what, found in (
            ("cpus", row["cpus"]["total"]), ("cpus free", row["cpus"]["free"]),
            ("memory", row["memory_mib"]["total"]), ("memory free", row["memory_mib"]["free"]),
        ):  # fmt: skip
            yield Figure(what, node.name, node.numbers[what], found)
    yield Figure("nodes that only hpcmgr has", "-", 0, len(rows))


def _by_partition(site: ReferenceSite, nodes: list[_Node]) -> Iterator[Figure]:
    for part in told(site, "--by=partition")["partitions"]:
        mine = [node for node in nodes if part["name"] in node.partitions]
        for here in part["types"]:
            key = here["gres"]
            of = f"{part['name']} {key}"
            yield Figure("devices", of, sum(n.have[key] for n in mine), here["devices"]["total"])
            yield Figure("devices used", of, sum(n.used[key] for n in mine),
                         here["devices"]["used"])  # fmt: skip


def _by_owner(site: ReferenceSite, by: str, form: str) -> Iterator[Figure]:
    rows = {each["name"]: each for each in told(site, f"--by={by}")[f"{by}s"]}
    for word, state in (("held", "RUNNING"), ("waiting", "PENDING")):
        theirs = _jobs(site, state, form)
        for name in sorted({*theirs, *rows}):
            ours = rows.get(name, {}).get(word, {"types": {}})["types"]
            for key in sorted({*theirs[name], *ours}):
                yield Figure(f"devices {word}", f"{by} {name}, {key}", theirs[name][key],
                             ours.get(key, 0))  # fmt: skip


def _by_class(site: ReferenceSite, nodes: list[_Node]) -> Iterator[Figure]:
    """Devices of nodes that have the class's features, of its kinds (slurm-conf/site.yaml); and its
    jobs, of which JSON tells the class (hpcmgr: a line of squeue)."""
    rows = {each["name"]: each for each in told(site, "--by=class")["classes"]}
    for name, kind, feature in (("default", "", ""), ("infer", "", ""), ("train", "gpu", "rdma")):
        mine = [n for n in nodes if not feature or feature in n.features]
        for word, out in (("total", None), ("used", None), ("out", True)):
            slurm = sum(
                _part(node, key, word)
                for node in mine
                for key in node.have
                if key.startswith(kind) and (out is None or node.out)
            )
            yield Figure(f"devices {word}", f"class {name}", slurm, rows[name]["devices"][word])
    text = site.run(["squeue", "--json"], check=True).stdout
    classes = {
        str(job["job_id"]): (re.findall(r'"class":"(\w+)"', job["admin_comment"]) or ["-"])[0]
        for job in json.loads(text)["jobs"]
    }
    for word, state in (("held", "RUNNING"), ("waiting", "PENDING")):
        found: Counter[str] = Counter()
        for number, devices in _jobs(site, state, "%A").items():
            found[classes[number]] += devices.total()
        for name in sorted({*rows, *found}):
            ours = rows[name][word]["devices"] if name in rows else 0
            yield Figure(f"devices {word}", f"class {name}", found[name], ours)


def _part(node: _Node, key: str, word: str) -> int:
    have, used = node.have[key], node.used[key]
    return {"total": have, "used": used, "out": have - used}[word]


class _ByName(dict[str, Counter[str]]):
    def __missing__(self, key: str) -> Counter[str]:
        return self.setdefault(key, Counter())


def _jobs(site: ReferenceSite, state: str, form: str) -> _ByName:
    """Devices by what ``form`` prints; ``-r``: each waiting task of an array has its own line."""
    line = ["squeue", "-h", "-r", "-t", state, "-o", f"{form}|%D|%b"]
    found = _ByName()
    for row in site.run(line, check=True).stdout.splitlines():
        name, nodes, asked = row.split("|", 2)
        for key, number in _ASKED.findall(asked):
            found[name][key] += int(number) * int(nodes)
    return found


def pestat(site: ReferenceSite) -> list[list[str]]:
    """A line a node, as pestat prints it: state, CPUs and memory in use, GRES in use."""
    rows = []
    for line in site.run(["scontrol", "-o", "-d", "show", "nodes"], check=True).stdout.splitlines():
        fields = dict(re.findall(r"(\w+)=(\S*)", line.partition(" Reason=")[0]))
        if "NodeName" in fields:
            rows.append(
                [fields["NodeName"], fields["State"].lower(),
                 f"{fields['CPUAlloc']}/{fields['CPUTot']}",
                 f"{fields['AllocMem']}/{fields['RealMemory']}", fields.get("GresUsed", "-")]
            )  # fmt: skip
    return rows
