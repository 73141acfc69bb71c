"""Requests that name devices themselves: the devices stay, the units they stand for are added."""

from __future__ import annotations

from hpcmgr.profile import DeviceProfile, ProfileLibrary
from hpcmgr.slurm.tres import GresItem
from hpcmgr.submit.messages import text
from hpcmgr.submit.request import Direct, JobFields
from hpcmgr.submit.rewrite import Rewrite
from hpcmgr.submit.view import ClusterView


def add_units(
    request: Direct, fields: JobFields, library: ProfileLibrary, view: ClusterView
) -> Rewrite | None:
    """The same request with its units; None where they cannot be told (unknown or ambiguous type,
    a count that Slurm itself will refuse): such a job passes as it is."""
    units = vram = 0
    for item in request.items:
        profile = _profile(item, fields, library, view)
        count = item.number
        if profile is None or not count:
            return None
        units += count * (profile.booked_units or 0)
        vram += count * (profile.memory_gib or 0)
    if not units:
        return None
    kept = [":".join(p for p in (i.name, i.type, i.count) if p) for i in request.items]
    added = [f"compute:{units}"] + ([f"vram:{vram}"] if vram else [])
    per_node = f" on each of {fields.nodes} nodes" if fields.nodes > 1 else ""
    message = text(
        "direct_units", request=",".join(kept), units=units, vram=vram, per_node=per_node
    )
    return Rewrite(
        {"gres": ",".join([*kept, *added, *request.others])}, enforce=False, messages=(message,)
    )


def _profile(
    item: GresItem, fields: JobFields, library: ProfileLibrary, view: ClusterView
) -> DeviceProfile | None:
    if item.type:
        return library.by_gres(item.name, item.type)
    partitions = {p for p in fields.string("partition").split(",") if p}
    if not partitions and view.state.default_partition:
        partitions = {view.state.default_partition}
    here = {
        profile.name: profile
        for profile, pools in view.types
        if profile.gres.name == item.name
        and any(not partitions or partitions & pool.partitions for pool in pools)
    }
    return next(iter(here.values())) if len(here) == 1 else None
