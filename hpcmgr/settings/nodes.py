"""Sections on groups of nodes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hpcmgr.settings.fields import Hostlist, NodeWord, Section
from hpcmgr.settings.sharing import Sharing


class NodeGroup(Section):
    """What holds for some nodes. ``memory_mib`` caps RealMemory; ``reserve_mib`` is left to the
    system; ``options`` go to the NodeName line as they stand (``Weight: 10``)."""

    nodes: Hostlist
    """Which nodes. Groups add up; of `reserve_mib`, `sockets` and an option the last holds."""
    pool: NodeWord | None = None
    """A feature of these nodes."""
    department: NodeWord | None = None
    """A feature of these nodes."""
    project: NodeWord | None = None
    """A feature of these nodes."""
    features: tuple[NodeWord, ...] = ()
    """More features."""
    sockets: Literal["package", "numa"] | None = None
    """What Slurm takes for a socket there, which is what it binds by. `numa` where it was told so:
    `options: {Parameters: numa_node_as_socket}` from Slurm 25.11 on, before that
    `SlurmdParameters=numa_node_as_socket` in slurm.conf (then for all nodes)."""
    memory_mib: int | None = Field(None, ge=1)
    """RealMemory at most (MiB)."""
    reserve_mib: int | None = Field(None, ge=0)
    """Memory left to the system (MiB)."""
    sharing: dict[str, Sharing | None] = {}
    """Devices of these nodes that several jobs use at once, by profile: `{t4: {shard: 4}}`; `null`
    takes back what the key `sharing` of the site says."""
    options: dict[Annotated[str, Field(pattern=r"^[A-Za-z]+$")], str | int] = {}
    """More for the NodeName line, as it stands: `{Weight: 10}`."""
