"""The figures as plain data (``hpcmgr.capacity/1``, docs/capacity.md)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Literal

from hpcmgr.capacity.classes import Fitting
from hpcmgr.capacity.count import Capacity, Here, OnNode, disagreements, lost
from hpcmgr.capacity.demand import Group, Load, unseen
from hpcmgr.capacity.picture import Picture
from hpcmgr.capacity.preempt import basis
from hpcmgr.capacity.tally import Worth, total
from hpcmgr.slurm.hostlist import fold
from hpcmgr.slurm.state import SHARES

SCHEMA = "hpcmgr.capacity/1"
By = Literal["type", "node", "partition", "class", "user", "account"]
Data = dict[str, Any]


def as_data(picture: Picture, by: By = "type") -> Data:
    """Everything by type, what waits, the out-of-service nodes, and by whatever else is asked.

    ``by`` adds ``nodes``, ``partitions``, ``classes``, ``users`` or ``accounts``.
    """
    capacity, scope = picture.capacity, picture.scope
    nodes = shown_nodes(picture)
    data: Data = {
        "schema": SCHEMA,
        "cluster": picture.controller.cluster,
        "taken": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(picture.taken)),
        "age_s": round(picture.age, 3),
        "slurm": capacity.release,
        "scope": {
            "user": scope.user or None,
            "accounts": list(scope.accounts),
            "partitions": None if scope.partitions is None else sorted(scope.partitions),
            "nodes_of_others": fold(scope.others) or None,
            "no_account": scope.stranger,
        },
        "total": {
            **_worth(total(node.worth for node in nodes)),
            "waiting": _load(_all_waiting(picture)),
            "not_seen": unseen(capacity, picture.demand),
        },
        "types": [_type(picture, gres, places) for gres, places in capacity.by_type.items()],
        "waiting": _waiting(picture),
        "preemption": {"estimate": True, "basis": basis(picture.controller)},
    }
    data.update(_by(picture, by))
    data["lost"] = [
        group
        for group in lost_groups(capacity)
        if scope.every_node or group["devices"] or group["still_used"]
    ]
    data["notes"] = disagreements(capacity)
    return data


def shown_nodes(picture: Picture) -> list[OnNode]:
    """Nodes without devices show only where everything is asked for."""
    return [node for node in picture.capacity.nodes if node.here or picture.scope.every_node]


def _by(picture: Picture, by: By) -> Data:
    capacity, demand = picture.capacity, picture.demand
    if by == "node":
        return {"nodes": [_node(node) for node in shown_nodes(picture)]}
    if by == "partition":
        queues = demand.by(lambda job: job.partition.split(","))
        return {
            "partitions": [
                {**_partition(capacity, name, places), **_group(queues.get(name, Group()))}
                for name, places in capacity.by_partition.items()
            ]
        }
    if by == "user":
        return {"users": _named(demand.by(lambda job: [job.user]))}
    if by == "account":
        return {"accounts": _named(demand.by(lambda job: [job.account or "-"]))}
    return {"classes": _classes(picture)} if by == "class" else {}


def _named(groups: dict[str, Group]) -> list[Data]:
    return [{"name": name, **_group(group)} for name, group in groups.items()]


def _classes(picture: Picture) -> list[Data]:
    """Each class with what it could have, and the jobs that were bound by it; ``-``: jobs that
    hpcmgr did not bind (they asked for devices)."""
    queues = picture.demand.by(lambda job: [job.job_class or "-"])
    names = picture.classes.names
    rows = []
    for name in (*names, *(name for name in queues if name not in names)):
        row: Data = {"name": name}
        if name in names:
            capacity = picture.classes.capacity(name)
            row.update(_worth(total(node.worth for node in capacity.nodes if node.here)))
            row["types"] = list(capacity.by_type)
            row["largest"] = _fitting(picture.classes.largest(name, capacity))
        rows.append({**row, **_group(queues.get(name, Group()))})
    return rows


def _fitting(found: Fitting | None) -> Data | None:
    return None if found is None else {**asdict(found), "nodes": fold(found.nodes)}


def _group(group: Group) -> Data:
    return {
        "held": _load(group.held), "waiting": _load(group.waiting), "queued": _load(group.queued),
    }  # fmt: skip


def _load(load: Load) -> Data:
    return {
        "jobs": load.jobs,
        "devices": load.devices,
        "units": load.units,
        "types": dict(sorted(load.gres.items())),
    }


def _waiting(picture: Picture) -> list[Data]:
    """What waits, by type; ``queued``: for its turn alone, not for a dependency or a release."""
    rows = []
    for gres, group in picture.demand.by_type().items():
        if group.waiting.jobs:
            rows.append(
                {"gres": gres, "waiting": _load(group.waiting), "queued": _load(group.queued)}
            )
    return rows


def _all_waiting(picture: Picture) -> Load:
    groups = picture.demand.by(lambda _: ["all"])
    return groups["all"].waiting if groups else Load()


def _worth(worth: Worth) -> Data:
    """``units_unknown``: devices whose units are in no sum."""
    return {
        "devices": worth.devices.as_dict(),
        "units": worth.units.as_dict(),
        "memory_gib": worth.memory_gib.as_dict(),
        "units_unknown": worth.unknown,
        "memory_unknown": worth.unknown_memory,
    }


def _type(picture: Picture, gres: str, places: list[tuple[OnNode, Here]]) -> Data:
    capacity, profile = picture.capacity, places[0][1].profile
    stoppable = picture.preemptable.get(gres)
    devices = stoppable.devices if stoppable else 0
    each = profile.booked_units if profile else None
    return {
        "gres": gres,
        "profile": profile.name if profile else None,
        "vendor": profile.vendor if profile else None,
        "kind": profile.kind if profile else None,
        "units_each": each,
        "memory_gib_each": profile.memory_gib if profile else None,
        "nodes": len(places),
        **_worth(total(here.worth for _, here in places)),
        "shares": _shares(gres, places),
        "largest": _largest(capacity, gres),
        "spread": [
            {"devices": most, "count": len(names), "nodes": fold(names)}
            for most, names in capacity.spread(gres).items()
        ],
        "unusable": [
            {
                "lacks": lacks,
                "devices": sum(n for _, n in where),
                "nodes": fold(n for n, _ in where),
            }
            for lacks, where in capacity.hindered(gres).items()
        ],
        "preemptable": {
            "devices": devices,
            "units": None if each is None else each * devices,
            "by": dict(sorted(stoppable.by.items())) if stoppable else {},
        },
    }


def _shares(gres: str, places: list[tuple[OnNode, Here]]) -> list[Data]:
    """Shares of devices of that type; the devices of which any are in use count as used."""
    name, _, type_ = gres.partition(":")
    rows = []
    for share in sorted(SHARES) if name == "gpu" else ():
        key = f"{share}:{type_}" if type_ else share
        states = [node.state for node, _ in places if node.state.gres.get(key)]
        if states:
            every, used = (sum(m.get(key, 0) for m in maps) for maps in
                           ([s.gres for s in states], [s.used for s in states]))  # fmt: skip
            rows.append({"gres": share, "total": every, "used": used, "nodes": len(states)})
    return rows


def _largest(capacity: Capacity, gres: str) -> Data | None:
    largest = capacity.largest(gres)
    if largest is None:
        return None
    return {
        "gres": gres,
        "devices": largest.devices,
        "units": largest.units,
        "nodes": fold(largest.nodes),
    }


def _here(here: Here) -> Data:
    return {"gres": here.gres, **_worth(here.worth), "lacks": here.lacking or None}


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
    return [_lost_group(key, nodes) for key, nodes in groups.items()]


def _lost_group(key: tuple[str, str, str, str], nodes: Iterable[OnNode]) -> Data:
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
