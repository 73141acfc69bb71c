"""Cores near the devices: which form of it a request can have on this release.

Slurm's enforce-binding cannot be changed after submission, makes some requests impossible and, on
some releases, some wait for ever. So it is used only where it is known to hold; where it is left
out the user is told why. What holds where was seen running (docs/slurm.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpcmgr.slurm.capability import Release, has
from hpcmgr.submit.candidates import Candidate
from hpcmgr.submit.need import tasks_per_node
from hpcmgr.submit.request import DISABLE_BIND, ENFORCE_BIND, NTASKS_SET, JobFields

NODE, SOCKET = "node", "socket"


@dataclass(frozen=True, slots=True)
class Binding:
    """``form``: whether the devices are asked per node or per socket (with one socket a node).
    ``tasks``: task count to set (None: leave). ``why_not``: for the user, "" if nothing is to be
    said. ``fixed``: the job must keep its device type."""

    enforce: bool = False
    form: str = NODE
    tasks: int | None = None
    why_not: str = ""
    fixed: bool = False


def choose_binding(
    chosen: Candidate,
    able: Sequence[Candidate],
    fields: JobFields,
    release: Release,
    *,
    movable: bool,
    exclusive: bool,
) -> Binding:
    """The binding for ``chosen``; ``able`` are all types that the job may be moved to.

    ``exclusive``: the job gets its nodes alone, by its own wish or by its partition's.
    """
    if fields.flag(ENFORCE_BIND) or fields.flag(DISABLE_BIND):
        return Binding()  # the user has decided
    if all(pool.sockets == 1 for pool in chosen.pools):
        return Binding()  # every core is near
    form, why_not = _form(chosen, fields, release, exclusive=exclusive)
    if why_not:
        return Binding(why_not=why_not)
    others = [c for c in able if c.name != chosen.name]
    everywhere = not any(_why_not_kept(c, fields, release, exclusive=exclusive) for c in others)
    if movable and others and not everywhere:
        return Binding(why_not="the job may still move to another device type")
    tasks = None if tasks_per_node(fields) else fields.nodes
    return Binding(True, form, tasks, fixed=bool(others) and not everywhere)


def late_binding(
    candidate: Candidate, fields: JobFields, release: Release, *, enforced: bool, exclusive: bool
) -> Binding:
    """The binding for a job that is already in the queue: its enforce-binding stays as it is, its
    form goes with the device type. With ``why_not`` it does not hold for this one."""
    if not enforced:
        return Binding()
    why_not = _why_not_kept(candidate, fields, release, exclusive=exclusive)
    if why_not or all(pool.sockets == 1 for pool in candidate.pools):
        return Binding(True, why_not=why_not)
    return Binding(True, _form(candidate, fields, release, exclusive=exclusive)[0])


def _why_not_kept(
    candidate: Candidate, fields: JobFields, release: Release, *, exclusive: bool
) -> str:
    """Why enforce-binding would not hold for a type that the job may move to."""
    if all(pool.sockets == 1 for pool in candidate.pools):
        return ""
    return _form(candidate, fields, release, exclusive=exclusive)[1]


def _form(
    candidate: Candidate, fields: JobFields, release: Release, *, exclusive: bool
) -> tuple[str, str]:
    """The form that holds for this type, or why none does."""
    why_not = _why_never(candidate, fields, exclusive=exclusive)
    if why_not:
        return NODE, why_not
    tasks = tasks_per_node(fields) or 1
    by_count = fields.flag(NTASKS_SET)
    if tasks > 1 and by_count and not has(release, "ENFORCE_BINDING_SEVERAL_TASKS"):
        return NODE, f"Slurm {release} would take all cores of a socket for several tasks"
    if candidate.profile.gres.name == "gpu" or has(release, "NPU_ENFORCE_BINDING_ALL_SOCKETS"):
        return NODE, ""
    if not has(release, "NPU_BINDING_PER_SOCKET"):
        return NODE, f"Slurm {release} cannot do it for {candidate.profile.gres.name} devices"
    if tasks > 1:
        return NODE, f"Slurm {release} cannot do it for several tasks with {candidate.gres}"
    if candidate.devices > _surely_on_one_socket(candidate):
        return NODE, f"{candidate.devices} x {candidate.gres} do not fit on one socket"
    return SOCKET, ""


def _why_never(candidate: Candidate, fields: JobFields, *, exclusive: bool) -> str:
    """Reasons that hold on every release."""
    if candidate.per_task:
        return "the request is per task"
    if candidate.beside:
        return "its device groups may lie on different sockets"
    if not fields.fixed_nodes:
        return "the number of nodes is not fixed"
    if exclusive:
        return "--exclusive takes all cores of the node"
    if fields.number("ntasks_per_node") and fields.flag(NTASKS_SET):
        return "-n and --ntasks-per-node are both given"
    if any(not pool.device_sockets for pool in candidate.pools):
        return "the place of the devices is not known on every node"
    near = _cpus_near(candidate, fields)
    if near < candidate.need.cpus:
        return f"{candidate.need.cpus} CPUs asked, {near} are near the devices"
    return ""


def _surely_on_one_socket(candidate: Candidate) -> int:
    """Devices that some socket of every node has at least, however they are spread."""
    return min(-(-pool.count // len(pool.device_sockets)) for pool in candidate.pools)


def _cpus_near(candidate: Candidate, fields: JobFields) -> int:
    """CPUs of one socket, on the smallest node that can serve."""
    threads = fields.number("threads_per_core")
    return min(
        pool.cores_per_socket * min(threads or pool.threads_per_core, pool.threads_per_core)
        for pool in candidate.pools
    )
