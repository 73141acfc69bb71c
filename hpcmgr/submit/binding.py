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
from hpcmgr.submit.messages import text
from hpcmgr.submit.need import tasks_per_node
from hpcmgr.submit.request import DISABLE_BIND, ENFORCE_BIND, NTASKS_SET, JobFields

NODE, SOCKET, BOTH = "node", "socket", "both"


@dataclass(frozen=True, slots=True)
class Binding:
    """``form``: whether the devices are asked per node or per socket (with one socket a node), or
    both: then a job waits rather than have them on two sockets.
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
    one_socket: bool = False,
) -> Binding:
    """The binding for ``chosen``; ``able`` are all types that the job may be moved to.

    ``exclusive``: the job gets its nodes alone, by its own wish or by its partition's.
    ``one_socket``: its devices on a node must lie on one socket, and the job is not moved.
    """
    if fields.flag(ENFORCE_BIND) or fields.flag(DISABLE_BIND):
        return Binding()  # the user has decided
    if all(pool.sockets == 1 for pool in chosen.pools):
        return Binding()  # every core is near
    asked = _read(fields, exclusive=exclusive)
    form, why_not = _form(chosen, asked, release)
    if one_socket and not why_not:
        form, why_not = _one_socket_form(chosen, form, release)
    if why_not:
        return Binding(why_not=why_not)
    tasks = None if tasks_per_node(fields) else fields.nodes
    if one_socket:
        return Binding(True, form, tasks, fixed=True)
    others = [c for c in able if c.name != chosen.name]
    everywhere = not any(_why_not_kept(c, asked, release) for c in others)
    if movable and others and not everywhere:
        return Binding(why_not=text("may_move"))
    return Binding(True, form, tasks, fixed=bool(others) and not everywhere)


def late_binding(
    candidate: Candidate, fields: JobFields, release: Release, *, enforced: bool, exclusive: bool
) -> Binding:
    """The binding for a job that is already in the queue: its enforce-binding stays as it is, its
    form goes with the device type. With ``why_not`` it does not hold for this one."""
    if not enforced:
        return Binding()
    asked = _read(fields, exclusive=exclusive)
    why_not = _why_not_kept(candidate, asked, release)
    if why_not or all(pool.sockets == 1 for pool in candidate.pools):
        return Binding(True, why_not=why_not)
    return Binding(True, _form(candidate, asked, release)[0])


@dataclass(frozen=True, slots=True)
class _Asked:
    """What of the request decides, read once for all types: tasks on a node, whether they were
    given by -n, threads of a core, and why it can never be enforced, "" if it can."""

    tasks: int
    by_count: bool
    threads: int | None
    why_never: str


def _read(fields: JobFields, *, exclusive: bool) -> _Asked:
    by_count = fields.flag(NTASKS_SET)
    why = ""
    if not fields.fixed_nodes:
        why = text("nodes_not_fixed")
    elif exclusive:
        why = text("is_exclusive")
    elif fields.number("ntasks_per_node") and by_count:
        why = text("both_tasks")
    return _Asked(tasks_per_node(fields) or 1, by_count, fields.number("threads_per_core"), why)


def _why_not_kept(candidate: Candidate, asked: _Asked, release: Release) -> str:
    """Why enforce-binding would not hold for a type that the job may move to."""
    if all(pool.sockets == 1 for pool in candidate.pools):
        return ""
    return _form(candidate, asked, release)[1]


def _form(candidate: Candidate, asked: _Asked, release: Release) -> tuple[str, str]:
    """The form that holds for this type, or why none does."""
    why_not = _why_never(candidate, asked)
    if why_not:
        return NODE, why_not
    tasks = asked.tasks
    if tasks > 1 and asked.by_count and not has(release, "ENFORCE_BINDING_SEVERAL_TASKS"):
        return NODE, text("several_tasks_cores", release=release)
    if candidate.profile.gres.name == "gpu" or has(release, "NPU_ENFORCE_BINDING_ALL_SOCKETS"):
        return NODE, ""
    if not has(release, "NPU_BINDING_PER_SOCKET"):
        return NODE, text("no_near", release=release, name=candidate.profile.gres.name)
    if tasks > 1:
        return NODE, text("no_near_tasks", release=release, gres=candidate.gres)
    if candidate.devices > _surely_on_one_socket(candidate):
        return NODE, text("no_socket_fits", devices=candidate.devices, gres=candidate.gres)
    return SOCKET, ""


def _one_socket_form(candidate: Candidate, form: str, release: Release) -> tuple[str, str]:
    """The form that keeps several devices on one socket, or why none does."""
    if candidate.devices == 1 or all(len(pool.device_sockets) == 1 for pool in candidate.pools):
        return form, ""
    if candidate.devices > _surely_on_one_socket(candidate):
        return form, text("no_socket_fits", devices=candidate.devices, gres=candidate.gres)
    if form == SOCKET:
        return form, ""
    name = candidate.profile.gres.name
    if name != "gpu" and not has(release, "NPU_ONE_SOCKET"):
        return form, text("no_one_socket", release=release, name=name)
    return BOTH, ""


def _why_never(candidate: Candidate, asked: _Asked) -> str:
    """Reasons that hold on every release."""
    if candidate.per_task:
        return text("is_per_task")
    if candidate.beside:
        return text("groups_apart")
    if asked.why_never:
        return asked.why_never
    if any(not pool.device_sockets for pool in candidate.pools):
        return text("place_unknown")
    near = _cpus_near(candidate, asked.threads)
    if near < candidate.need.cpus:
        return text("few_near", asked=candidate.need.cpus, near=near)
    return ""


def _surely_on_one_socket(candidate: Candidate) -> int:
    """Devices that some socket of every node has at least, however they are spread."""
    return min(-(-pool.count // len(pool.device_sockets)) for pool in candidate.pools)


def _cpus_near(candidate: Candidate, threads: int | None) -> int:
    """CPUs of one socket, on the smallest node that can serve."""
    return min(
        pool.cores_per_socket * min(threads or pool.threads_per_core, pool.threads_per_core)
        for pool in candidate.pools
    )
