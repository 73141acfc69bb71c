"""CPUs and memory that a job takes on a node beside its devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from hpcmgr.submit.request import NTASKS_SET, JobFields


class Need(NamedTuple):
    """CPUs and memory of one node that the job takes beside its devices (MiB)."""

    cpus: int
    memory_mib: int
    cpus_given: bool
    memory_given: bool


NO_NEED = Need(1, 0, cpus_given=False, memory_given=False)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user himself asked of a node, read once for all device types. ``cpus`` and the two
    of memory (MiB) are None where he said nothing."""

    cpus: int | None
    memory_per_node: int | None
    memory_per_cpu: int | None
    together: int
    """Tasks that must share a node."""

    def need(self, devices_cpus: int, devices_memory: int) -> Need:
        """What he asked; where he said nothing, what the site sets for the devices (0: nothing)."""
        cpus = (devices_cpus or 1) if self.cpus is None else self.cpus
        memory = self.memory_per_node
        if memory is None and self.memory_per_cpu is not None:
            memory = self.memory_per_cpu * cpus
        if memory is None:
            return Need(cpus, devices_memory, self.cpus is not None, False)
        return Need(cpus, memory, self.cpus is not None, True)


def read_asked(fields: JobFields) -> Asked:
    """CPUs and memory of the request."""
    per_task, tasks = fields.number("cpus_per_task"), tasks_per_node(fields)
    least = fields.number("pn_min_cpus")
    together = _tasks_together(fields)
    given = bool(per_task or tasks or (least and least > 1))
    return Asked(
        max((per_task or 1) * together, least or 1) if given else None,
        fields.number("min_mem_per_node"),
        fields.number("min_mem_per_cpu"),
        together,
    )


def tasks_per_node(fields: JobFields) -> int | None:
    """Tasks on one node, if the user gave a task count of any sort."""
    per_node = fields.number("ntasks_per_node")
    if per_node:
        return per_node
    tasks = fields.number("num_tasks")
    if tasks and fields.flag(NTASKS_SET):
        return -(-tasks // fields.nodes)
    return None


def _tasks_together(fields: JobFields) -> int:
    """Without a number of nodes Slurm spreads tasks as they fit."""
    if fields.number("min_nodes") is None and not fields.number("ntasks_per_node"):
        return 1
    return tasks_per_node(fields) or 1
