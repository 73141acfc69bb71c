"""The figures as one self-contained page: no script or picture from elsewhere, everything escaped.

A page is for others than its maker: where Slurm hides jobs (PrivateData=jobs), no job and no user
stands in it, whoever made it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hpcmgr.capacity.count import Here, OnNode
from hpcmgr.capacity.picture import Picture
from hpcmgr.capacity.tally import Tally
from hpcmgr.capacity.view import as_data
from hpcmgr.render.environment import template_dir
from hpcmgr.slurm.jobs import Job

Marks = dict[tuple[str, str], dict[int, str]]


@dataclass(frozen=True, slots=True)
class Mark:
    """One device on the map; ``state``: used, usable, idle (free, not usable), reserved or out."""

    state: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One node on the map."""

    name: str
    title: str
    out: bool
    marks: tuple[Mark, ...]


def page(picture: Picture) -> str:
    """HTML."""
    data = as_data(picture, "class")
    partitions = as_data(picture, "partition")["partitions"]
    shows_jobs = "jobs" not in picture.controller.private
    owners = _owners(picture) if shows_jobs else {}
    return (
        _environment()
        .get_template("capacity.html.j2")
        .render(
            data=data,
            taken=picture.taken,
            kinds=_kinds(picture),
            out_nodes=sum(1 for node in picture.capacity.nodes if node.here and node.why_out),
            all_nodes=sum(1 for node in picture.capacity.nodes if node.here),
            shapes=_shapes(picture, owners),
            partitions=partitions if len(partitions) > 1 else [],
            parts=parts,
        )
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(template_dir()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def parts(tally: dict[str, int]) -> list[tuple[str, int]]:
    """The parts of a bar, in their order, without empty ones."""
    found = [
        ("used", tally["used"]),
        ("usable", tally["usable"]),
        ("idle", tally["free"] - tally["usable"]),
        ("reserved", tally["reserved"]),
        ("out", tally["out"]),
    ]
    return [(name, number) for name, number in found if number]


def _kinds(picture: Picture) -> dict[str, Tally]:
    """Devices by kind; by GRES name where no profile knows the type."""
    found: dict[str, Tally] = {}
    for gres, places in picture.capacity.by_type.items():
        profile = places[0][1].profile
        kind = profile.kind if profile else gres.split(":")[0]
        found[kind] = sum((here.devices for _, here in places), found.get(kind, Tally()))
    return dict(sorted(found.items()))


def _owners(picture: Picture) -> Marks:
    """(node, type) → device number → who has it."""
    found: Marks = {}
    jobs: dict[int, Job] = {job.number: job for job, _ in picture.demand.jobs}
    for number, held in (picture.devices or {}).items():
        job = jobs.get(number)
        if job is None:
            continue
        until = f", until {job.end.replace('T', ' ')}" if job.end else ""
        who = f"job {job.job_id}, {job.user}, {job.account or '-'}{until}"
        for node, devices in held.items():
            for gres, indices in devices:
                found.setdefault((node, gres), {}).update(dict.fromkeys(indices, who))
    return found


def _shapes(picture: Picture, owners: Marks) -> list[tuple[str, list[Cell]]]:
    """Nodes by what they have, most devices first: ``8 x gpu:a100`` → its nodes."""
    found: dict[str, list[Cell]] = {}
    sizes: dict[str, int] = {}
    for node in picture.capacity.nodes:
        if not node.here:
            continue
        shape = " + ".join(f"{here.devices.total} \u00d7 {here.gres}" for here in node.here)
        sizes[shape] = node.worth.devices.total
        found.setdefault(shape, []).append(_cell(node, owners))
    order = sorted(found, key=lambda shape: (-sizes[shape], shape))
    return [(shape, found[shape]) for shape in order]


def _cell(node: OnNode, owners: Marks) -> Cell:
    state = node.state
    free = max(0, state.cpus - state.cpus_used)
    lines = [f"{state.name}: {state.state.lower()}", f"{free} of {state.cpus} CPUs free"]
    if node.why_out:
        lines.append(node.why_out)
    marks = tuple(
        mark for here in node.here for mark in _marks(here, owners.get((state.name, here.gres), {}))
    )
    return Cell(state.name, "\n".join(lines), bool(node.why_out), marks)


def _marks(here: Here, owners: dict[int, str]) -> Iterator[Mark]:
    """One for each device; Slurm's number of a device decides its place where it is known."""
    tally = here.devices
    known = {place: who for place, who in owners.items() if place < tally.total}
    extra = max(0, tally.used - len(known))
    rest = iter(
        ["used"] * extra
        + ["reserved"] * tally.reserved
        + ["out"] * tally.out
        + ["usable"] * tally.usable
        + ["idle"] * (tally.free - tally.usable)
    )
    for place in range(tally.total):
        if place in known:
            yield Mark("used", f"{here.gres} {place}: {known[place]}")
        else:
            yield Mark(next(rest, "used"))
