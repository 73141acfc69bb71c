"""The network's switches."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, model_validator

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
