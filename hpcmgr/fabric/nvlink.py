"""NVLink domains, from the inventories: nodes whose GPUs all tell the same cluster and clique.

A GPU tells them once the fabric manager has let it in; GPUs of an ordinary machine tell none.
"""

from __future__ import annotations

from collections.abc import Iterable

from hpcmgr.fabric.model import Domains
from hpcmgr.inventory import NodeInventory


def domains(inventories: Iterable[NodeInventory]) -> tuple[Domains, list[str]]:
    """Domains by their id, and what is wrong: a node with GPUs in several, or some in none."""
    found: dict[str, list[str]] = {}
    problems = []
    for inventory in inventories:
        said = {d.nvlink_domain for d in inventory.devices if d.vendor == "nvidia"}
        if not said - {None}:
            continue
        if len(said) > 1:
            words = ", ".join(sorted(domain or "none" for domain in said))
            problems.append(f"{inventory.node}: its GPUs are in several NVLink domains: {words}")
            continue
        found.setdefault(str(said.pop()), []).append(inventory.node)
    return {number: tuple(sorted(found[number])) for number in sorted(found)}, problems
