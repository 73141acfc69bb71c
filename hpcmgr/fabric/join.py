"""What several sources saw, joined into one scan: names for switches, hosts that are nodes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from hpcmgr.fabric.model import Domain, Domains, Scan, ScannedSwitch, Seen
from hpcmgr.slurm.hostlist import fold

T = TypeVar("T")
CORE = "core"
_LONGEST = 64
_MAKERS_WORD = re.compile(r"mellanox|infiniscale|switch-?x|switchib|quantum|technologies", re.I)


def join(
    seen: Sequence[Seen], domains: Domains, nodes: Collection[str]
) -> tuple[Scan, tuple[str, ...]]:
    """One scan of all sources, and the hosts in it that are no nodes.

    Args:
        seen: what each source saw.
        domains: NVLink domains by id.
        nodes: names of the nodes; a host is one of them by its name, else by its short name.
    """
    known = {name.lower(): name for name in nodes}
    switches: dict[str, ScannedSwitch] = {}
    strangers: set[str] = set()
    for source in seen:
        names = switch_names(source.switches, {*switches, *nodes})
        links = _links(source, names)
        hosts: dict[str, dict[str, set[str]]] = {}
        for host, nic, switch in source.ports:
            node = known.get(host.lower()) or known.get(host.lower().split(".")[0])
            if node is None:
                strangers.add(host)
            elif switch in names:
                hosts.setdefault(switch, {}).setdefault(nic, set()).add(node)
        switches |= {
            names[number]: ScannedSwitch(
                id=number,
                network=source.network,
                links=links[number],
                hosts={nic: fold(on) for nic, on in _sorted(hosts.get(number, {}))},
            )
            for number in source.switches
        }
    switches = dict(_sorted(_with_core(switches, nodes)))
    found = {
        f"nvl-{number.split('-')[0][:8]}-{number.rpartition('.')[2]}": (number, members)
        for number, members in domains.items()
    }
    named = {
        name if len(name) <= _LONGEST else f"nvl-{n}": Domain(id=number, nodes=fold(members))
        for n, (name, (number, members)) in enumerate(sorted(found.items()), start=1)
    }
    return Scan(switches=switches, domains=named), tuple(sorted(strangers))


def switch_names(described: Mapping[str, str], taken: Collection[str]) -> dict[str, str]:
    """Id → a name of its own: from the description, where it has one, else from the id.

    ``MF0;leaf-1:MQM9700/U1`` is leaf-1, ``leaf-1.example.org`` too; a maker's name is none. Names
    do not depend on other switches, but where two are called alike: then all of them carry their
    id.
    """
    wished = {number: _wish(text) for number, text in described.items()}
    counts = [name for name in wished.values() if name]
    names = {}
    for number, wish in sorted(wished.items()):
        own = re.sub(r"[^A-Za-z0-9_.-]", "", number)
        if not wish:
            name = f"sw-{own}"
        elif counts.count(wish) > 1 or wish in taken:
            name = f"{wish[: _LONGEST - 1 - len(own)]}-{own}"
        else:
            name = wish
        names[number] = name[:_LONGEST]
    return names


def _wish(text: str) -> str:
    text = text.strip()
    inner = re.match(r"MF0;([^:;]+):", text)
    if inner:
        text = inner[1]
    elif _MAKERS_WORD.search(text) or " " in text:
        return ""
    short = text.split(".")[0] if not re.fullmatch(r"[\d.]+", text) else text
    clean = re.sub(r"[^A-Za-z0-9_.-]+", "-", short).strip("-.")
    return clean if len(clean) <= _LONGEST else ""


def _links(source: Seen, names: Mapping[str, str]) -> dict[str, str]:
    """By switch id the other switches, as a hostlist."""
    others: dict[str, set[str]] = {number: set() for number in names}
    for a, b in source.cables:
        if a in names and b in names:
            others[a].add(names[b])
            others[b].add(names[a])
    return {number: fold(found) for number, found in others.items()}


def _with_core(
    switches: Mapping[str, ScannedSwitch], nodes: Collection[str]
) -> dict[str, ScannedSwitch]:
    """Nodes see their own switch by LLDP and nothing above it. Where no switch has told its cables,
    a core above all of them is the best that can be said."""
    leaves = [n for n, s in switches.items() if s.network == "ethernet" and s.hosts]
    told = any(s.links for s in switches.values() if s.network == "ethernet")
    if told or len(leaves) < 2:
        return dict(switches)
    core = CORE
    while core in switches or core in nodes:
        core += "-"
    below = {name: switches[name].model_copy(update={"links": core}) for name in leaves}
    return {
        **switches,
        **below,
        core: ScannedSwitch(network="ethernet", links=fold(leaves)),
    }


def _sorted(items: Mapping[str, T]) -> list[tuple[str, T]]:
    return sorted(items.items(), key=lambda item: natural(item[0]))


def natural(text: str) -> tuple[tuple[bool, int, str], ...]:
    """A key that puts leaf2 before leaf10."""
    parts = re.findall(r"\d+|\D+", text)
    return tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts)
