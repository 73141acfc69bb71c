"""What ``lldpcli show neighbors -f json`` (or json0) printed on one host or switch.

json0 makes a list of everything. json makes an object of what is there once and a list of what is
there more often, and keys a chassis by its name where it has one::

    {"lldp": {"interface": {"eth0": {"chassis": {"leaf-1": {"id": {"type": "mac", "value": "…"}}},
                                     "port": {"id": {…}, "descr": "Ethernet12"}}}}}
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hpcmgr.fabric.model import Seen


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Who is at the other end of ``interface``. ``forwards``: whether it is a bridge or a router;
    None if it does not say."""

    interface: str
    id: str
    name: str
    forwards: bool | None


def parse(text: str) -> list[Neighbour]:
    """Neighbours, in the order of the text.

    Raises:
        ValueError: it is not what lldpcli prints; says why.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from error
    inner = _only(document)
    if isinstance(inner, dict) and "neighbors" in inner:
        inner = _only(inner["neighbors"])
    if not isinstance(inner, dict) or "lldp" not in inner:
        raise ValueError("no key 'lldp': it is no output of 'lldpcli show neighbors -f json'")
    body = _only(inner["lldp"])
    interfaces = body.get("interface") if isinstance(body, dict) else None
    return [_neighbour(name, value) for name, value in _interfaces(interfaces)]


def scan(texts: Mapping[str, str], nodes: Collection[str]) -> Seen:
    """Files by host name (of nodes, and of switches that run lldpd) → what they saw together.

    A neighbour that forwards is a switch, unless it is called like one of the ``nodes``: a host
    with containers forwards, too. A file of a switch tells its cables to other switches.
    """
    seen = Seen("ethernet")
    found: dict[str, list[Neighbour]] = {}
    for host, text in sorted(texts.items()):
        try:
            found[host] = parse(text)
        except ValueError as error:
            seen.problems.append(f"{host}: {error}")
    for neighbour in (n for listed in found.values() for n in listed):
        if neighbour.forwards is not False and neighbour.name.split(".")[0] not in nodes:
            seen.switches[neighbour.id] = neighbour.name
    by_name = {name: number for number, name in seen.switches.items() if name}
    by_name |= {name.split(".")[0]: number for name, number in by_name.items()}
    for host, listed in found.items():
        own = by_name.get(host)
        for neighbour in listed:
            if neighbour.id not in seen.switches:
                continue
            if own is not None:
                seen.cable(own, neighbour.id)
            else:
                seen.ports.add((host, neighbour.interface, neighbour.id))
    if not seen.ports and not seen.problems:
        seen.problems.append("no node sees a switch by LLDP")
    return seen


def _interfaces(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Interfaces with their bodies: an object by name, a list of such, or a list with names."""
    for item in map(_object, _listed(value)):
        if isinstance(item.get("name"), str):
            yield item["name"], item
            continue
        for name, body in item.items():
            yield from ((name, _object(one)) for one in _listed(body))


def _neighbour(interface: str, body: dict[str, Any]) -> Neighbour:
    chassis = _object(_only(body.get("chassis")) or {})
    name = _value(chassis.get("name"))
    if "id" not in chassis:
        name, inner = next(iter(chassis.items()), ("", {}))
        chassis = _object(_only(inner))
    number = _value(chassis.get("id"))
    if not number:
        raise ValueError(f"the chassis behind interface {interface} has no id")
    return Neighbour(interface, number, name, _forwards(chassis.get("capability")))


def _forwards(value: Any) -> bool | None:
    words = [word for word in _listed(value) if isinstance(word, dict)]
    if not words:
        return None
    return any(
        word.get("enabled") is True and word.get("type") in {"Bridge", "Router"} for word in words
    )


def _listed(value: Any) -> list[Any]:
    """A list of what may be one thing, several or none."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise ValueError(f"an object was expected where {str(value)[:40]!r} stands")


def _only(value: Any) -> Any:
    """The one item of a list, where json0 made a list of it."""
    return value[0] if isinstance(value, list) and value else value


def _value(value: Any) -> str:
    inner = _only(value)
    inner = inner.get("value") if isinstance(inner, dict) else inner
    return inner if isinstance(inner, str) else ""
