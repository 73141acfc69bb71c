"""The figures as plain data (``hpcmgr.capacity/1``, docs/capacity.md)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Literal

from hpcmgr.capacity.count import Capacity, Here, OnNode, disagreements, lost
from hpcmgr.capacity.tally import Worth, total
from hpcmgr.slurm.hostlist import fold

SCHEMA = "hpcmgr.capacity/1"
By = Literal["type", "node", "partition"]
Data = dict[str, object]


def as_data(
    capacity: Capacity, by: By, *, taken: float, age: float, every_node: bool = False
) -> Data:
    """Everything by type, the out-of-service nodes, and nodes or partitions if asked for.

    Args:
        capacity: what was counted.
        by: adds ``nodes`` or ``partitions``.
        taken: when Slurm was asked (seconds since 1970); the figures are not older.
        age: seconds since then.
        every_node: nodes without devices too.
    """
    nodes = [node for node in capacity.nodes if node.here or every_node]
    data: Data = {
        "schema": SCHEMA,
        "taken": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(taken)),
        "age_s": round(age, 3),
        "slurm": capacity.release,
        "total": _worth(total(node.worth for node in nodes)),
        "types": [_type(capacity, gres, places) for gres, places in capacity.by_type.items()],
    }
    if by == "node":
        data["nodes"] = [_node(node) for node in nodes]
    if by == "partition":
        data["partitions"] = [
            _partition(capacity, name, places) for name, places in capacity.by_partition.items()
        ]
    data["lost"] = [
        group
        for group in lost_groups(capacity)
        if every_node or group["devices"] or group["still_used"]
    ]
    data["notes"] = disagreements(capacity)
    return data


def _worth(worth: Worth) -> Data:
    """``units_unknown``: devices whose units are in no sum."""
    return {
        "devices": worth.devices.as_dict(),
        "units": worth.units.as_dict(),
        "memory_gib": worth.memory_gib.as_dict(),
        "units_unknown": worth.unknown,
        "memory_unknown": worth.unknown_memory,
    }


def _type(capacity: Capacity, gres: str, places: list[tuple[OnNode, Here]]) -> Data:
    profile = places[0][1].profile
    largest = capacity.largest(gres)
    return {
        "gres": gres,
        "profile": profile.name if profile else None,
        "vendor": profile.vendor if profile else None,
        "kind": profile.kind if profile else None,
        "units_each": profile.booked_units if profile else None,
        "memory_gib_each": profile.memory_gib if profile else None,
        "nodes": len(places),
        **_worth(total(here.worth for _, here in places)),
        "largest": largest
        and {
            "devices": largest.devices,
            "units": largest.units,
            "nodes": fold(largest.nodes),
        },
    }


def _here(here: Here) -> Data:
    return {"gres": here.gres, **_worth(here.worth)}


def _node(node: OnNode) -> Data:
    state = node.state
    return {
        "name": state.name,
        "state": state.state,
        "takes_jobs": not node.why_out,
        "reservation": state.reservation or None,
        "partitions": list(state.partitions),
        "cpus": {"total": state.cpus, "free": max(0, state.cpus - state.cpus_used)},
        "memory_mib": {"total": state.memory, "free": max(0, state.memory - state.memory_used)},
        **_worth(node.worth),
        "types": [_here(here) for here in node.here],
    }


def _partition(capacity: Capacity, name: str, places: list[OnNode]) -> Data:
    known = {part.name: part for part in capacity.partitions}.get(name)
    by_type: dict[str, Worth] = {}
    for node in places:
        for here in node.here:
            by_type[here.gres] = by_type.get(here.gres, Worth()) + here.worth
    return {
        "name": name,
        "up": known.up if known else None,
        "default": bool(known and known.default),
        "nodes": len(places),
        **_worth(total(by_type.values())),
        "types": [{"gres": gres, **_worth(worth)} for gres, worth in sorted(by_type.items())],
    }


def lost_groups(capacity: Capacity) -> list[Data]:
    """Nodes that are down, drained or reserved, folded where state, reason, who and when agree."""
    groups: dict[tuple[str, str, str, str], list[OnNode]] = {}
    for node in lost(capacity):
        state = node.state
        reason = node.why_out or f"reservation {state.reservation}"
        mine = node.why_out and node.why_out == state.reason
        by, since = (state.reason_by, state.reason_since) if mine else ("", "")
        groups.setdefault((state.state, reason, by, since), []).append(node)
    return [_group(key, nodes) for key, nodes in groups.items()]


def _group(key: tuple[str, str, str, str], nodes: Iterable[OnNode]) -> Data:
    state, reason, by, since = key
    nodes = list(nodes)
    worth = total(node.worth for node in nodes)
    return {
        "nodes": fold(node.state.name for node in nodes),
        "state": state,
        "reason": reason,
        "by": by or None,
        "since": since or None,
        "devices": worth.devices.out + worth.devices.reserved,
        "units": worth.units.out + worth.units.reserved,
        "memory_gib": worth.memory_gib.out + worth.memory_gib.reserved,
        "still_used": worth.devices.used,
    }
