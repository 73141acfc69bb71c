"""The network's switches, and what Slurm is told of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from hpcmgr.settings.fields import Hostlist, Section, SwitchName
from hpcmgr.slurm.hostlist import expand


class Switch(Section):
    """A switch of the network: above other ``switches``, or above ``nodes``."""

    switches: Hostlist | None = None
    """The switches below this one."""
    nodes: Hostlist | None = None
    """The nodes below this one; those that do not exist are left out of the file."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.switches) is bool(self.nodes):
            raise ValueError("give either switches or nodes: what is below this switch")
        return self

    @property
    def below(self) -> list[str]:
        """Names of what is below it."""
        return expand(self.switches or self.nodes or "")


def _tree(fabric: dict[str, Switch]) -> dict[str, Switch]:
    """Slurm accepts two parents silently, and a missing child stops slurmctld."""
    problems = []
    parents: dict[str, str] = {}
    for name, switch in fabric.items():
        for child in switch.below:
            first = parents.setdefault(child, name)
            if first != name:
                problems.append(f"{child} is below {first} and below {name}")
            if switch.switches and child not in fabric:
                problems.append(f"{name}: there is no switch {child}")
            if switch.nodes and child in fabric:
                problems.append(f"{child} is a switch and a node of {name}")
    problems += [f"{name} is above itself" for name in fabric if _is_above_itself(name, parents)]
    if problems:
        raise ValueError("; ".join(problems))
    return fabric


def _is_above_itself(name: str, parents: dict[str, str]) -> bool:
    above, seen = parents.get(name), set[str]()
    while above is not None and above not in seen:
        if above == name:
            return True
        seen.add(above)
        above = parents.get(above)
    return False


Fabric = Annotated[dict[SwitchName, Switch], AfterValidator(_tree)]


def _nic_pattern(text: str) -> str:
    expand(text.replace("*", "").replace("?", ""))
    return text


def _blocks(blocks: dict[str, str]) -> dict[str, str]:
    """Slurm accepts a node in two blocks silently."""
    first: dict[str, str] = {}
    problems = [
        f"{node} is in {first[node]} and in {name}"
        for name, nodes in blocks.items()
        for node in expand(nodes)
        if first.setdefault(node, name) != name
    ]
    if problems:
        raise ValueError("; ".join(problems))
    return blocks


def _block_sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """slurmctld refuses all others."""
    powers = {sizes[0] << k for k in range(16)} if sizes else set()
    wrong = [size for size in sizes if size not in powers]
    if wrong or list(sizes) != sorted(set(sizes)):
        raise ValueError(
            "the first is the base size, each further one twice, four times, eight times … of it, "
            "rising: [18, 36]"
        )
    return sizes


def _once(plugins: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(plugins)) != len(plugins):
        raise ValueError("each once only")
    return plugins


NicPattern = Annotated[str, AfterValidator(_nic_pattern)]
Blocks = Annotated[dict[SwitchName, Hostlist], AfterValidator(_blocks)]


class Rails(Section):
    """Which NICs carry the jobs' traffic. Without a rule: InfiniBand where there is any, and of a
    node's NICs there the ones nearest to its devices."""

    include: tuple[NicPattern, ...] = ()
    """NICs that count, in place of the nearest: `mlx5_[0-7]`, `mlx5_*`."""
    exclude: tuple[NicPattern, ...] = ()
    """NICs that do not count."""
    network: Literal["infiniband", "ethernet"] | None = None
    """The network of the compute rails; `null`: InfiniBand where there is any."""


class Topology(Section):
    """What Slurm is told of the network. See [fabric.md](fabric.md)."""

    scan: Path | None = None
    """What `hpcmgr fabric scan` wrote; stands in place of `fabric`."""
    rails: Rails = Rails()
    """Which NICs of the scan count."""
    plugins: Annotated[
        tuple[Literal["tree", "block"], ...], Field(min_length=1), AfterValidator(_once)
    ] = ("tree",)
    """`[tree]` or `[block]`: topology.conf for that plugin. Both: topology.yaml with two topologies
    of these names, the first for partitions that name none (Slurm 25.05 and newer; before, only the
    first is written)."""
    blocks: Blocks = {}
    """Blocks and their nodes; without it the NVLink domains of the scan, else one for each leaf
    switch."""
    block_sizes: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...], AfterValidator(_block_sizes)
    ] = ()
    """`BlockSizes`, the first is the base size. Without it: the size that most blocks have; before
    25.05, where no block may be smaller, the size of the smallest."""
