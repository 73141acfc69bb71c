"""What each class could have: by admission's own rules, not by a second set of them.

Admission is asked for the smallest request of the class, as if every node were in service: what it
would take tells which devices serve the class; what of them is out, reserved or in use is counted
as everywhere else. The largest request that fits now is found by asking for larger ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from hpcmgr.capacity.count import Capacity, count
from hpcmgr.capacity.scope import Scope, in_service
from hpcmgr.errors import RequestError
from hpcmgr.profile import ProfileLibrary
from hpcmgr.settings import JobClass, Site
from hpcmgr.slurm.state import ClusterState
from hpcmgr.submit.candidates import Candidate
from hpcmgr.submit.facts import Known
from hpcmgr.submit.request import Ask, JobFields
from hpcmgr.submit.selectors import Selection
from hpcmgr.submit.template import all_candidates
from hpcmgr.submit.view import ClusterView, make_view


@dataclass(frozen=True, slots=True)
class Fitting:
    """A request that one node could take now: what is typed, what it becomes, and such nodes."""

    request: str
    gres: str
    devices: int
    units: int
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Classes:
    """The classes of a site; ``scope``: whose jobs they would be, ``state``: what he sees."""

    site: Site
    library: ProfileLibrary
    state: ClusterState
    scope: Scope
    known: Known

    @property
    def names(self) -> tuple[str, ...]:
        """Those of site.yaml, and ``default``."""
        return tuple(sorted({"default", *self.site.classes}))

    def capacity(self, name: str) -> Capacity:
        """The devices that serve the class, usable by its own CPUs and memory."""
        places: dict[str, set[str]] = {}
        for candidate in self._candidates(name, 1):
            nodes = {node.name for pool in candidate.pools for node in pool.nodes}
            for part in candidate.parts:
                places.setdefault(part.gres, set()).update(nodes)
        return count(self.state, self.library, self._class(name), places, self.known.facts)

    def largest(self, name: str, capacity: Capacity) -> Fitting | None:
        """The largest request of the class that fits on a node now, of its ``capacity``."""
        usable = {gres: {node.state.name: here.devices.usable for node, here in places}
                  for gres, places in capacity.by_type.items()}  # fmt: skip
        for units in self._sizes(name, capacity, usable):
            for candidate in self._candidates(name, units):
                nodes = tuple(_fitting(candidate, usable))
                if nodes:
                    gres = "+".join(part.gres for part in candidate.parts)
                    devices = sum(part.devices for part in candidate.parts)
                    request = f"compute:{units}" if name == "default" else f"compute:{name}:{units}"
                    return Fitting(request, gres, devices, candidate.units, nodes)
        return None

    def _sizes(
        self, name: str, capacity: Capacity, usable: Mapping[str, Mapping[str, int]]
    ) -> list[int]:
        """What is worth asking for, largest first: whole devices of each type; sets of a
        template."""
        sizes: set[int] = set()
        for gres, nodes in usable.items():
            profile = capacity.by_type[gres][0][1].profile
            units = profile.booked_units if profile else None
            each = 1 if self._class(name).groups else units or 0
            sizes.update(each * n for n in range(1, max(nodes.values(), default=0) + 1) if each)
        return sorted(sizes, reverse=True)

    def _class(self, name: str) -> JobClass:
        return self.site.classes.get(name, JobClass())

    def _candidates(self, name: str, units: int) -> Iterator[Candidate]:
        """What a request for so many units could become, in any of the user's accounts."""
        selection = Selection(name, self._class(name))
        ask = Ask(units, None if name == "default" else name)
        for fields in self._fields:
            try:
                found = all_candidates(
                    ask, fields, selection, self._view, self.site.units_per_device_rule
                )
            except RequestError:  # no partition lets him in
                continue
            yield from (candidate for candidate in found if not candidate.refused)

    @cached_property
    def _fields(self) -> tuple[JobFields, ...]:
        """A job of each account, in all partitions that can be seen."""
        partitions = ",".join(part.name for part in self.state.partitions)
        who = {"user_name": self.scope.user, "partition": partitions}
        accounts: Iterable[str] = self.scope.accounts or ("",)
        return tuple(JobFields({**who, "account": account}) for account in accounts)

    @cached_property
    def _view(self) -> ClusterView:
        """The cluster with all nodes, devices and partitions in service."""
        state = replace(
            self.state,
            nodes=tuple(replace(node, usable=True) for node in self.state.nodes),
            partitions=in_service(self.state.partitions),
        )
        facts = {
            node: {gres: replace(fact, failed=0) for gres, fact in types.items()}
            for node, types in self.known.facts.items()
        }
        return make_view(state, self.library, replace(self.known, facts=facts))


def _fitting(candidate: Candidate, usable: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Nodes on which it could start now."""
    need, parts = candidate.need, [(part.gres, part.devices) for part in candidate.parts]
    for pool in candidate.pools:
        for node in pool.nodes:
            if (
                all(usable.get(gres, {}).get(node.name, 0) >= n for gres, n in parts)
                and node.cpus - node.cpus_used >= need.cpus
                and node.memory - node.memory_used >= need.memory_mib
            ):
                yield node.name
