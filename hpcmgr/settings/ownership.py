"""Whose the nodes are: the accounts of departments and projects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import Field

from hpcmgr.settings.fields import Section
from hpcmgr.settings.nodes import NodeGroup
from hpcmgr.slurm.hostlist import expand

Owners = tuple[frozenset[str], ...]
"""Accounts that a node serves, by each of its owners; all of them must agree."""
Owned = Mapping[str, Owners]
"""By name of node; nodes of nobody are not in it."""
Account = Annotated[str, Field(pattern=r"^[a-z0-9_.@-]+$")]


class Owner(Section):
    """A department or project that keeps its nodes for itself. One that is not listed shares
    them."""

    accounts: tuple[Account, ...] = Field(min_length=1)
    """Slurm accounts that its nodes serve, with all accounts below them."""


def owned_nodes(
    groups: Iterable[NodeGroup], departments: Mapping[str, Owner], projects: Mapping[str, Owner]
) -> dict[str, Owners]:
    """Nodes that some owner keeps for himself. A node of such a department and such a project
    serves accounts that are both's."""
    found: dict[str, set[frozenset[str]]] = {}
    for group in groups:
        mine = (departments.get(group.department or ""), projects.get(group.project or ""))
        owners = {frozenset(owner.accounts) for owner in mine if owner}
        for node in expand(group.nodes) if owners else ():
            found.setdefault(node, set()).update(owners)
    return {node: tuple(sorted(owners, key=sorted)) for node, owners in found.items()}
