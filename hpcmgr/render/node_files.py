"""Files that lie on the compute node itself: the TaskProlog and its table of devices."""

from __future__ import annotations

from hpcmgr.plan import NO_ENV, NodePlan, PlannedDevice
from hpcmgr.render.environment import fill

DEVICE_TABLE = "/etc/hpcmgr/devices"


def render_node(node: NodePlan) -> dict[str, str]:
    """File name (below /etc/hpcmgr) → text."""
    return {
        "devices": fill(
            "devices.j2", rows=[_row(device, _brands_mix(node, device)) for device in node.devices]
        ),
        "task_prolog.sh": fill("task_prolog.sh.j2", table=DEVICE_TABLE),
    }


def _brands_mix(node: NodePlan, device: PlannedDevice) -> bool:
    """Whether Slurm is told to set no variable, since another brand has the same GRES name."""
    flags = node.env_flags(device.profile.gres.name)
    return flags == NO_ENV and device.profile.gres.flags != NO_ENV


def _row(device: PlannedDevice, mixed: bool) -> tuple[str, ...]:
    """files, gres, profile, runtime, variable, how it counts, number, units, GiB of memory.

    The first file is what the prolog tries to open. ``-`` stands for what is not known, and for no
    variable to set: none is known, or Slurm sets it itself.
    """
    profile, visible = device.profile, device.profile.visible
    head = (",".join(_render_nodes_first(device)), profile.gres_key, profile.name, profile.runtime)
    tail = (str(profile.booked_units or "-"), str(profile.memory_gib or "-"))
    if visible is not None and visible.slurm and mixed:
        # As Slurm itself would: 0, 1, … of what the step may open.
        return (*head, visible.variable, "local", "-", *tail)
    if visible is None or visible.slurm:
        return (*head, "-", "-", "-", *tail)
    number = {"index": device.index, "local": None, "uuid": device.uuid}[visible.by]
    return (*head, visible.variable, visible.by, "-" if number is None else str(number), *tail)


def _render_nodes_first(device: PlannedDevice) -> list[str]:
    """Users may open a render node; a card node is often for the group video alone."""
    return sorted(device.files, key=lambda file: "renderD" not in file)
