"""NodeSets and partitions of hpcmgr.conf, from the pools, departments and projects of the nodes."""

from __future__ import annotations

from collections.abc import Iterator

from hpcmgr.plan import ClusterPlan
from hpcmgr.settings import SORTS, SitePartition, Sort, word_of
from hpcmgr.slurm.hostlist import expand, fold


def node_sets(plan: ClusterPlan) -> list[tuple[str, str]]:
    """Name and nodes of each set that some partition names."""
    used = {
        (sort, word)
        for partition in plan.site.partitions.values()
        if not _kept_out(plan, partition)
        for sort in SORTS
        for word in partition.words(sort)
    }
    sets = ((set_name(*each), _nodes_of(plan, *each)) for each in used)
    return sorted((name, fold(nodes)) for name, nodes in sets if nodes)


def partition_lines(plan: ClusterPlan) -> list[str]:
    """PartitionName lines, in the order of their names."""
    return [
        " ".join(f"{key}={value}" for key, value in _keys(plan, name, partition))
        for name, partition in sorted(plan.site.partitions.items())
    ]


def set_name(sort: Sort, word: str) -> str:
    """``pool_train``: no node has such a name."""
    return f"{sort}_{word}"


def _keys(
    plan: ClusterPlan, name: str, partition: SitePartition
) -> Iterator[tuple[str, str | int]]:
    yield "PartitionName", name
    yield "Nodes", _nodes(plan, partition)
    if partition.default:
        yield "Default", "YES"
    if partition.max_time:
        yield "MaxTime", partition.max_time
    for key, words in (
        ("AllowAccounts", partition.accounts),
        ("AllowGroups", partition.groups),
        ("AllowQos", partition.qos),
    ):
        if words:
            yield key, ",".join(words)
    yield from sorted(partition.options.items())


def _nodes(plan: ClusterPlan, partition: SitePartition) -> str:
    """Sets by name where they serve whole; else the very nodes. Slurm wants an empty list
    quoted."""
    kept_out = _kept_out(plan, partition)
    if kept_out:
        return fold(sorted(_meant(plan, partition) - kept_out)) or '""'
    if partition.everywhere:
        return "ALL"
    names = [
        set_name(sort, word)
        for sort in SORTS
        for word in partition.words(sort)
        if _nodes_of(plan, sort, word)
    ]
    more = fold(sorted(set(expand(partition.nodes or "")) & _all(plan)))
    return ",".join([*names, *([more] if more else [])]) or '""'


def _kept_out(plan: ClusterPlan, partition: SitePartition) -> set[str]:
    """Nodes that their owners keep for themselves, of a partition that is open to everybody."""
    if partition.accounts:
        return set()
    return _meant(plan, partition) & plan.site.owned.keys()


def _meant(plan: ClusterPlan, partition: SitePartition) -> set[str]:
    if partition.everywhere:
        return _all(plan)
    found = set(expand(partition.nodes or "")) & _all(plan)
    for sort in SORTS:
        for word in partition.words(sort):
            found |= set(_nodes_of(plan, sort, word))
    return found


def _nodes_of(plan: ClusterPlan, sort: Sort, word: str) -> list[str]:
    groups = [group for group in plan.site.nodes if word_of(group, sort) == word]
    return sorted(_all(plan) & {name for group in groups for name in expand(group.nodes)})


def _all(plan: ClusterPlan) -> set[str]:
    return {node.name for node in plan.nodes}
