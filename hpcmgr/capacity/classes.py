"""What each class could have: by admission's own decisions, not by a second set of rules.

Admission is asked for the smallest request of the class, as if every node were in service: what the
job could become tells which devices serve the class; what of them is out, reserved or in use is
counted as everywhere else. The largest request that fits now is found by asking for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from hpcmgr.admit import Decision, Policy, decide
from hpcmgr.capacity.count import Capacity, count
from hpcmgr.capacity.scope import Scope, in_service
from hpcmgr.settings import JobClass
from hpcmgr.slurm.state import ClusterState
from hpcmgr.submit.candidates import Candidate
from hpcmgr.submit.facts import Known
from hpcmgr.submit.request import JobFields
from hpcmgr.submit.view import ClusterView, make_view


@dataclass(frozen=True, slots=True)
class Fitting:
    """A request that one node could take now: what is typed, what it becomes, and such nodes."""

    request: str
    becomes: str
    gres: str
    devices: int
    units: int
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Classes:
    """The classes of a site; ``scope``: whose jobs they would be, ``state``: what he sees."""

    policy: Policy
    known: Known
    state: ClusterState
    scope: Scope

    @property
    def names(self) -> tuple[str, ...]:
        """Those of site.yaml, and ``default``."""
        return tuple(sorted({"default", *self.policy.site.classes}))

    def capacity(self, name: str) -> Capacity:
        """The devices that serve the class, usable by its own CPUs and memory."""
        places: dict[str, set[str]] = {}
        for decision in self._decisions(_request(name, 1), self._all_in_service):
            for candidate in decision.ranked:
                nodes = {node.name for pool in candidate.pools for node in pool.nodes}
                for part in candidate.parts:
                    places.setdefault(part.gres, set()).update(nodes)
        return count(self.state, self.policy.library, self._class(name), places, self.known.facts)

    def largest(self, name: str, capacity: Capacity) -> Fitting | None:
        """The largest request of the class that a node takes now, of its ``capacity``."""
        usable = {gres: {node.state.name: here.devices.usable for node, here in places}
                  for gres, places in capacity.by_type.items()}  # fmt: skip
        for units in self._sizes(name, capacity, usable):
            request = _request(name, units)
            for decision in self._decisions(request, self.view):
                best = decision.ranked[0] if decision.rewrite else None
                nodes = tuple(_fitting(best, usable)) if best else ()
                if best and nodes:
                    return _fits(request, best, nodes)
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
        return self.policy.site.classes.get(name, JobClass())

    def _decisions(self, request: str, view: ClusterView) -> Iterator[Decision]:
        """On such a job of each of the user's accounts, in all partitions that can be seen."""
        job: dict[str, str | int | bool] = {"tres_per_node": request, "batch": True}
        job["partition"] = ",".join(part.name for part in self.state.partitions)
        job["user_name"] = self.scope.user
        for account in self.scope.accounts or ("",):
            yield decide(JobFields({**job, "account": account}), self.policy, view, {}, "capacity")

    @cached_property
    def view(self) -> ClusterView:
        """The cluster as admission sees it."""
        return make_view(self.state, self.policy.library, self.known)

    @cached_property
    def _all_in_service(self) -> ClusterView:
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
        return make_view(state, self.policy.library, replace(self.known, facts=facts))


def _request(name: str, units: int) -> str:
    return f"compute:{units}" if name == "default" else f"compute:{name}:{units}"


def _fits(request: str, candidate: Candidate, nodes: tuple[str, ...]) -> Fitting:
    parts = candidate.parts
    return Fitting(
        request,
        candidate.becomes,
        "+".join(part.gres for part in parts),
        sum(part.devices for part in parts),
        candidate.units,
        nodes,
    )


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
