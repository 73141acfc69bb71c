"""A candidate and its binding → the job_desc fields that are written, and what the user reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hpcmgr.slurm.tres import format_tres
from hpcmgr.submit.binding import BOTH, SOCKET, Binding
from hpcmgr.submit.candidates import Candidate
from hpcmgr.submit.messages import text
from hpcmgr.submit.places import require
from hpcmgr.submit.remember import is_pinned, remember
from hpcmgr.submit.request import Ask, JobFields

MARK = "hpcmgr:"
"""What admin_comment of a job of ours starts with."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """``set``: job_desc fields; ``binding``: what admin_comment and the journal keep."""

    set: Mapping[str, str | int]
    enforce: bool
    messages: tuple[str, ...]
    binding: Mapping[str, object] = field(default_factory=dict)


def rewrite(
    ask: Ask,
    fields: JobFields,
    candidate: Candidate,
    binding: Binding,
    class_name: str,
    trace: str,
    *,
    features: Sequence[str] = (),
    one_switch: bool = False,
    exclusive: bool = False,
) -> Rewrite:
    """Everything that changes with the device, together. ``features``: what the class wants of the
    nodes; ``one_switch``: all of them below one."""
    values: dict[str, str | int] = {}
    devices = {part.gres: part.devices for part in candidate.parts}
    devices |= {"compute": candidate.units, "vram": candidate.vram_gib}
    devices = {name: count for name, count in devices.items() if count}
    places, notes = require(fields, features, candidate.avoid)
    values |= places
    if one_switch:
        values["req_switch"] = 1
    if ask.per_task:
        # Other GRES of the node stay; a job that was held gives its mark back here.
        values["gres"] = ",".join(ask.others)
        values["tres_per_task"] = _per_task(fields, devices)
    elif binding.form == SOCKET:
        # All in one field: srun takes its step's request from tres_per_node where there is one.
        values["gres"] = ",".join(ask.others)
        values["tres_per_socket"] = format_tres(devices)
        values["sockets_per_node"] = 1
    else:
        here = [f"{name}:{count}" for name, count in devices.items()]
        values["gres"] = ",".join([*here, *ask.others])
        if binding.form == BOTH:
            values["tres_per_socket"] = format_tres({candidate.gres: candidate.devices})
            values["sockets_per_node"] = 1
    if binding.tasks is not None:
        values["num_tasks"] = binding.tasks
    need = candidate.need
    if exclusive:
        need = need._replace(cpus_given=True, memory_given=True)  # it has all of the node
    if not need.cpus_given and need.cpus > 1:
        values["cpus_per_task"] = need.cpus
    if not need.memory_given and need.memory_mib:
        values["min_mem_per_node"] = need.memory_mib
    record = _record(ask, fields, candidate, binding)
    if "exc_nodes" in places:
        record["avoids"] = True
    comment = {
        "v": 1,
        "state": "pinned" if is_pinned(fields.string("comment")) else "bound",
        "trace": trace,
        "request": str(ask),
        "class": class_name,
        "binding": record,
        "moves": 0,
        **remember(ask, fields),
    }
    values["admin_comment"] = MARK + json.dumps(comment, separators=(",", ":"))
    messages = (*_messages(ask, fields, candidate, binding), *notes)
    return Rewrite(values, binding.enforce, messages, record)


def _record(
    ask: Ask, fields: JobFields, candidate: Candidate, binding: Binding
) -> dict[str, object]:
    record: dict[str, object] = {
        "profile": candidate.name,
        "gres": candidate.gres,
        "devices": candidate.devices,
        "units": candidate.units,
        "vram": candidate.vram_gib,
        "per": "task" if ask.per_task else "node",
        "nodes": fields.nodes,
        "enforced": binding.enforce,
    }
    if candidate.beside:
        record["beside"] = {part.gres: part.devices for part in candidate.beside}
    if binding.fixed:
        record["fixed"] = True
    return record


def _per_task(fields: JobFields, devices: Mapping[str, int]) -> str:
    """The user's tres_per_task with the neutral entry replaced in its place and its spelling."""
    parts = []
    for part in fields.string("tres_per_task").split(","):
        bare = part.strip().removeprefix("gres/").removeprefix("gres:")
        if bare.startswith("compute") and (len(bare) == 7 or bare[7] in ":="):
            sign = "=" if "=" in bare else ":"
            parts += [f"gres/{name}{sign}{count}" for name, count in devices.items()]
        elif part.strip():
            parts.append(part.strip())
    return ",".join(parts)


def _messages(
    ask: Ask, fields: JobFields, candidate: Candidate, binding: Binding
) -> tuple[str, ...]:
    where = text("each_task") if ask.per_task else ""
    if not where and fields.nodes > 1:
        where = text("each_node", nodes=fields.nodes)
    lines = [
        *ask.notes,
        text(
            "bound",
            request=ask,
            devices=candidate.becomes,
            units=candidate.units,
            vram=candidate.vram_gib,
            per_node=where,
        ),
    ]
    if ask.units and candidate.units > ask.units and not candidate.beside:
        lines.append(text("more_units", granted=candidate.units, asked=ask.units))
    lines += candidate.notes
    if candidate.waits:
        lines.append(text("waits", why=candidate.waits))
    if binding.why_not:
        lines.append(text("not_near", why=binding.why_not))
    return tuple(lines)
