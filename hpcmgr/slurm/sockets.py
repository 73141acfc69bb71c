"""How Slurm is told to take something smaller than a package for a socket."""

from __future__ import annotations

from hpcmgr.slurm.capability import Release, has

NUMA, L3 = "numa_node_as_socket", "l3cache_as_socket"


def how_to_split(release: Release | None, word: str = NUMA) -> str:
    """What to write where; both ways if nobody knows the release."""
    everywhere = f"SlurmdParameters={word} in slurm.conf, which holds for all nodes"
    here = f"Parameters={word} on its NodeName line"
    if release is None:
        return f"{here} (Slurm 25.11 and newer) or {everywhere}"
    return here if has(release, "NODE_LINE_PARAMETERS") else everywhere
