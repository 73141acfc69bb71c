"""Partitions that follow the pools, departments and projects of the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from hpcmgr.settings.fields import Hostlist, NodeWord, Section
from hpcmgr.settings.nodes import NodeGroup
from hpcmgr.settings.ownership import Account, Owner

Sort = Literal["pool", "department", "project"]
SORTS: tuple[Sort, ...] = ("pool", "department", "project")

OWN_KEYS = {"nodes": "pools, departments, projects or nodes", "default": "default",
            "maxtime": "max_time", "allowaccounts": "accounts", "allowgroups": "groups",
            "allowqos": "qos"}  # fmt: skip
"""Keys of a PartitionName line that have a field of their own, in lower case."""


class SitePartition(Section):
    """A partition with the nodes of all that it names; of every node where it names nothing."""

    pools: tuple[NodeWord, ...] = ()
    """Nodes of these pools."""
    departments: tuple[NodeWord, ...] = ()
    """Nodes of these departments."""
    projects: tuple[NodeWord, ...] = ()
    """Nodes of these projects."""
    nodes: Hostlist | None = None
    """More nodes."""
    default: bool = False
    """Whether jobs go there that name none."""
    max_time: Annotated[str, Field(pattern=r"^[0-9:-]+$")] | None = None
    """`MaxTime`, like `7-00:00:00`."""
    accounts: tuple[Account, ...] = ()
    """`AllowAccounts`, with all accounts below them; none: everybody, and then nodes that a
    department or project keeps for itself are left out."""
    groups: tuple[NodeWord, ...] = ()
    """`AllowGroups`."""
    qos: tuple[NodeWord, ...] = ()
    """`AllowQos`."""
    options: dict[Annotated[str, Field(pattern=r"^[A-Za-z]+$")], str | int] = {}
    """More for the PartitionName line, as it stands: `{PriorityTier: 10}`."""

    def words(self, sort: Sort) -> tuple[str, ...]:
        """What it names of one sort."""
        return {"pool": self.pools, "department": self.departments, "project": self.projects}[sort]

    @property
    def everywhere(self) -> bool:
        """Whether it has every node."""
        return not any(self.words(sort) for sort in SORTS) and self.nodes is None


def word_of(group: NodeGroup, sort: Sort) -> str | None:
    """The pool, department or project of a group of nodes."""
    return {"pool": group.pool, "department": group.department, "project": group.project}[sort]


def partition_problems(
    partitions: Mapping[str, SitePartition],
    owners: Mapping[Sort, Mapping[str, Owner]],
    groups: Iterable[NodeGroup],
    *,
    accounting: bool,
) -> Iterator[str]:
    """What is wrong with them, seen together with the rest of site.yaml."""
    known = {sort: {word for g in groups if (word := word_of(g, sort))} for sort in SORTS}
    defaults = [name for name, partition in partitions.items() if partition.default]
    if len(defaults) > 1:
        yield f"partitions: {' and '.join(sorted(defaults))} are both the default one"
    for name, partition in partitions.items():
        if name.upper() == "DEFAULT":
            yield f"partitions.{name}: this name is reserved; put its keys into each partition"
        if (partition.accounts or partition.qos) and not accounting:
            yield f"partitions.{name}: accounts and qos need slurmdbd (accounting: true)"
        yield from (f"partitions.{name}{text}" for text in _problems(partition, known))
    for sort, mine in owners.items():
        for word in mine.keys() - known[sort]:
            yield f"{sort}s.{word}: {_nobody(sort, word, known[sort])}"


def _problems(partition: SitePartition, known: Mapping[Sort, set[str]]) -> Iterator[str]:
    for sort in SORTS:
        for word in partition.words(sort):
            if word not in known[sort]:
                yield f": {_nobody(sort, word, known[sort])}"
    for key in partition.options:
        if key.lower() in OWN_KEYS:
            yield f".options: {key} is set by {OWN_KEYS[key.lower()]}"


def _nobody(sort: Sort, word: str, known: set[str]) -> str:
    there = f"there is {', '.join(sorted(known))}" if known else "no group has any"
    return f"no group of nodes has {sort} {word!r}; {there}"
