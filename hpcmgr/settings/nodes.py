"""Sections on groups of nodes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hpcmgr.settings.fields import Hostlist, NodeWord, Section


class NodeGroup(Section):
    """What holds for some nodes. ``memory_mib`` caps RealMemory; ``reserve_mib`` is left to the
    system; ``options`` go to the NodeName line as they stand (``Weight: 10``)."""

    nodes: Hostlist
    """Which nodes. Groups add up; of `reserve_mib` and of an option the last group holds."""
    pool: NodeWord | None = None
    """A feature of these nodes."""
    department: NodeWord | None = None
    """A feature of these nodes."""
    project: NodeWord | None = None
    """A feature of these nodes."""
    features: tuple[NodeWord, ...] = ()
    """More features."""
    memory_mib: int | None = Field(None, ge=1)
    """RealMemory at most (MiB)."""
    reserve_mib: int | None = Field(None, ge=0)
    """Memory left to the system (MiB)."""
    options: dict[Annotated[str, Field(pattern=r"^[A-Za-z]+$")], str | int] = {}
    """More for the NodeName line, as it stands: `{Weight: 10}`."""
