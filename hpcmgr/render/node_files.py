"""Files that lie on the compute node itself: the TaskProlog and its table of devices."""

from __future__ import annotations

import re

from hpcmgr.plan import NO_ENV, NodePlan, PlannedDevice
from hpcmgr.render.environment import fill

DEVICE_TABLE = "/etc/hpcmgr/devices"


def render_node(node: NodePlan) -> dict[str, str]:
    """File name (below /etc/hpcmgr) → text."""
    told = _told_by_prolog(node)
    return {
        "devices": fill("devices.j2", rows=[_row(device, told) for device in node.devices]),
        "task_prolog.sh": fill("task_prolog.sh.j2", table=DEVICE_TABLE),
    }


def _told_by_prolog(node: NodePlan) -> frozenset[str]:
    """Variables of which Slurm's word does not count on this node: it is told to set none, since
    brands share a GRES name, or it would give a number to a slice, which has none, or it says
    nothing to jobs with shares (of mps, where other nodes have shards)."""
    told = set()
    for device in node.devices:
        visible = device.profile.visible
        if visible is None:
            continue
        silent = node.env_flags(device.profile.gres.name) == NO_ENV
        mixed = silent and device.profile.gres.flags != NO_ENV
        if device.profile.slice_of or device.sharing or mixed:
            told.add(visible.variable)
    return frozenset(told)


def _row(device: PlannedDevice, told: frozenset[str]) -> tuple[str, ...]:
    """files, gres, profile, runtime, variable, how it counts, number, units, GiB of memory.

    The first file is what the prolog tries to open. ``-`` stands for what is not known, and for no
    variable to set: none is known, or Slurm sets it itself.
    """
    profile, visible = device.profile, device.profile.visible
    head = (",".join(_tried_first(device)), profile.gres_key, profile.name, profile.runtime)
    tail = (str(profile.booked_units or "-"), str(profile.memory_gib or "-"))
    if visible is None or (visible.slurm and visible.variable not in told):
        return (*head, "-", "-", "-", *tail)
    # Slurm itself would count 0, 1, … of what the step may open.
    by = "local" if visible.slurm else visible.by
    numbers = {"index": device.index, "local": None, "uuid": device.uuid, "node": _node(device)}
    number = numbers[by]
    return (*head, visible.variable, by, "-" if number is None else str(number), *tail)


def _node(device: PlannedDevice) -> int | None:
    found = re.search(r"[0-9]+$", device.own_files[-1])
    return int(found[0]) if found else None


def _tried_first(device: PlannedDevice) -> list[str]:
    """A slice's own file: several jobs may open its GPU's. Of others the render node: a card node
    is often for the group video alone."""
    own = sorted(device.own_files, key=lambda file: "renderD" not in file)
    return [*own, *(file for file in device.files if file not in own)]
