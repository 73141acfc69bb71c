"""What an administrator changes in the site's own files, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcmgr.adopt.meaning import Meaning
from hpcmgr.apply.beside import KEYS, includes, is_foreign
from hpcmgr.plan import NEUTRAL, NodePlan
from hpcmgr.slurm.hostlist import fold
from hpcmgr.verify.conf import Entry
from hpcmgr.verify.configuration import FRAGMENT, GRES_FRAGMENT, Configuration, Node, Shape, hosts
from hpcmgr.verify.finding import Place

_CARRIED = frozenset(
    {"nodename", "sockets", "socketsperboard", "corespersocket", "threadspercore", "cpus", "procs",
     "realmemory", "gres", "feature", "features", "state", "reason", "boards"}
)  # fmt: skip
"""Keys that the rendered line has, or that say nothing of the node."""


@dataclass(frozen=True, slots=True)
class Step:
    """One change by hand: where, and what to do."""

    place: Place
    text: str


def first_steps(c: Configuration) -> list[Step]:
    """What must be so before the first node moves."""
    return [*_include_steps(c), *_key_steps(c), *_common_record_steps(c)]


def unit_steps(c: Configuration, names: Sequence[str], plan: NodePlan) -> Iterator[Step]:
    """Nodes that stay for now need their units all the same: once job_submit.lua books units beside
    devices, no job could start on a node without. Mere counts may be added under running jobs."""
    node = c.nodes[names[0]]
    missing = {n: plan.gres[n] for n in NEUTRAL if n in plan.gres and f"{n}:" not in _gres(node)}
    if not missing:
        return
    counts = ",".join(f"{name}:{count}" for name, count in missing.items())
    others = (
        ""
        if len(hosts(node.entry.pairs[0].value, Place(), [])) == len(names)
        else (f" (of {fold(names)} alone)")
    )
    yield Step(node.place, f"add {counts} to Gres={others}")
    for name, count in missing.items():
        line = f"NodeName={fold(names)} Name={name} Count={count} Flags=CountOnly"
        yield Step(Place(c.gres.path), f"at the end add: {line}")


def _gres(node: Node) -> str:
    return "".join(f"{item.name}:," for item in node.gres)


def shim_steps(c: Configuration) -> Iterator[Step]:
    """Last of all: requests are rewritten from then on."""
    if "lua" not in c.plugins("jobsubmitplugins"):
        others = c.setting("jobsubmitplugins")
        value = f"{others},lua" if others else "lua"
        place = c.place_of("jobsubmitplugins")
        yield Step(place, f"set JobSubmitPlugins={value}; 'hpcmgr serve' must run by then")


def _include_steps(c: Configuration) -> Iterator[Step]:
    if c.slurm.exists and not includes(c.slurm.path, FRAGMENT):
        lines = [e.place.line or 0 for e in c.slurm.settings("nodename", "partitionname", "nodeset")
                 if e.place.file == c.slurm.path]  # fmt: skip
        place = Place(c.slurm.path, min(lines, default=0) or None)
        yield Step(place, f"above this line add: Include {FRAGMENT}")
    if is_foreign(c.gres.path) and not includes(c.gres.path, GRES_FRAGMENT):
        yield Step(Place(c.gres.path), f"at the end add: Include {GRES_FRAGMENT}")


def _key_steps(c: Configuration) -> Iterator[Step]:
    for key in KEYS:
        value, place = c.settings.get(key.lower(), ("", Place()))
        if place.file is None or place.file.name == FRAGMENT:
            continue
        if key == "TaskProlog":
            text = f"{key}={value} stays; let it also run /etc/hpcmgr/task_prolog.sh"
        elif key == "GresTypes":
            text = f"remove {key}: {FRAGMENT} has it, with all its names"
        else:
            text = f"{key} stays; add gres/compute,gres/vram and what else 'hpcmgr verify' names"
        yield Step(place, text)


def _common_record_steps(c: Configuration) -> Iterator[Step]:
    """Records that hold for every node hold for one that was handed over, too."""
    for entry in c.gres.entries:
        if entry.get("nodename") is not None or _ours(entry):
            continue
        name = entry.get("name")
        if name is None and (entry.get("autodetect") or "off").lower() == "off":
            continue
        users = [n for n, node in c.nodes.items()
                 if name is None or any(item.name == name for item in node.gres)]  # fmt: skip
        if users:
            yield Step(
                entry.place,
                f"holds for every node, also for those that are handed over: put NodeName="
                f"{fold(users)} in front",
            )


def _ours(entry: Entry) -> bool:
    return entry.place.file is not None and entry.place.file.name == GRES_FRAGMENT


def hand_over_steps(c: Configuration, shape: Shape, names: Sequence[str]) -> list[Step]:
    """The lines that these nodes leave: whoever has the NodeName line has the node."""
    nameless = [e for e in c.gres.settings("nodename") if e.get("name") is None]
    gres = [*(record.entry for record in shape.records), *nameless]
    entries = [shape.node.entry, *(entry for entry in gres if not _ours(entry))]
    return [step for entry in entries for step in _without(entry, set(names))]


def _without(entry: Entry, leaving: set[str]) -> Iterator[Step]:
    text = entry.get("nodename")
    here = hosts(text, entry.place, []) if text else []
    if not leaving & set(here):
        return
    others = [name for name in here if name not in leaving]
    if others:
        yield Step(entry.place, f"NodeName={text} becomes NodeName={fold(others)}")
    else:
        yield Step(entry.place, f"remove the line of {text}")


def site_yaml(
    c: Configuration, names: Sequence[str], meaning: Meaning, plan: NodePlan
) -> list[str]:
    """What site.yaml must say so that nothing of the NodeName line is lost, as YAML lines."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name in names:
        groups.setdefault(tuple(_lost_keys(c, name)), []).append(name)
    features = [word for word in meaning.features if word not in plan.features]
    memory = meaning.keys.get("realmemory", "")
    lines = []
    for options, group in groups.items():
        body = []
        if features:
            body.append(f"  features: [{', '.join(features)}]")
        if memory.isdecimal() and int(memory) < plan.memory_mib:
            body.append(f"  memory_mib: {memory}")
        if options:
            body.append(f"  options: {{{', '.join(f'{k}: {v}' for k, v in options)}}}")
        if body:
            lines += [f"- nodes: {fold(group)}", *body]
    return lines


def _lost_keys(c: Configuration, name: str) -> Iterator[tuple[str, str]]:
    node = c.nodes[name]
    spelt = {pair.key.lower(): pair.key for pair in node.entry.pairs}
    for key, value in sorted(node.keys.items()):
        if key not in _CARRIED:
            own = _own_value(node.entry, name, value)
            if own != name:  # NodeAddr=NODE is what Slurm takes anyway
                yield spelt.get(key, key), own


def _own_value(entry: Entry, name: str, value: str) -> str:
    """NodeAddr=10.0.0.[1-4] has one value for each node of the line."""
    if "[" not in value and "," not in value:
        return value
    names, values = hosts(entry.pairs[0].value, Place(), []), hosts(value, Place(), [])
    if len(names) == len(values) and name in names:
        return values[names.index(name)]
    return value


def relative(place: Place, directory: Path) -> str:
    """A place as people name it: inside the directory by its name there."""
    if place.file is None:
        return "-"
    inside = place.file.is_relative_to(directory)
    file = place.file.relative_to(directory) if inside else place.file
    return f"{file}:{place.line}" if place.line else str(file)
