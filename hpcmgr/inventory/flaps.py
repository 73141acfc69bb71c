"""Links of RDMA ports that come and go: a port that was active stays so for a while.

Whether a node has RDMA becomes a feature in Slurm's files, and a feature that is taken away makes
jobs wait. A link that is down for a moment (a flap, a switch that restarts, a port that is not yet
up when the node boots) must not do that; a link that stays down must.
"""

from __future__ import annotations

from collections.abc import Mapping

from hpcmgr.inventory.drift import nics_by_place
from hpcmgr.inventory.node import Nic, NodeInventory

WAIT = 600.0
"""Seconds for which a link must have been down before it is published so."""


def settle(
    before: NodeInventory | None, after: NodeInventory, down_since: Mapping[str, float], now: float
) -> tuple[NodeInventory, dict[str, float]]:
    """``after`` with the last state of links that went down a short time ago.

    Args:
        before: what was published last.
        after: what was found.
        down_since: when the links of ports (by interface) were first found down, in seconds since
            1970, as the last call told.
        now: the same clock.

    Returns:
        what to publish, and the ports that wait with the time since when.
    """
    if before is None:
        return after, {}
    old, new = nics_by_place(before, after)
    waiting: dict[str, float] = {}
    for key, nic in new.items():
        if _went_down(old.get(key), nic):
            # A clock that was set back must not make it wait for longer.
            since = min(down_since.get(nic.name, now), now)
            if now - since < WAIT:
                waiting[nic.name] = since
    if not waiting:
        return after, {}
    kept = tuple(
        _as_before(old[key], nic) if nic.name in waiting else nic for key, nic in new.items()
    )
    return after.model_copy(update={"nics": kept}).with_digest(), waiting


def _went_down(before: Nic | None, after: Nic) -> bool:
    return (
        before is not None
        and before.rdma is not None
        and before.rdma == after.rdma
        and before.state == "active"
        and after.state != "active"
    )


def _as_before(before: Nic, after: Nic) -> Nic:
    keep = ("state", "link_layer", "speed_mbps")
    return after.model_copy(update={name: getattr(before, name) for name in keep})
