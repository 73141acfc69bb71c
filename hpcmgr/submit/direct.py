"""Requests that name devices themselves: the devices stay, the units they stand for are added.

Per node, per task and per socket the units stand beside the devices, and Slurm multiplies both
alike. A total over the job is another thing: Slurm splits devices and units differently over nodes,
so the site says what becomes of it (``direct_totals``).
"""

from __future__ import annotations

from hpcmgr.errors import RequestError
from hpcmgr.profile import DeviceProfile, ProfileLibrary
from hpcmgr.slurm.capability import has
from hpcmgr.slurm.tres import GresItem, parse_gres_list
from hpcmgr.submit.access import partitions_of
from hpcmgr.submit.messages import text
from hpcmgr.submit.nodes import plain_features
from hpcmgr.submit.request import Direct, JobFields
from hpcmgr.submit.rewrite import Rewrite
from hpcmgr.submit.view import ClusterView

_WHERE = {"tres_per_task": "each_task", "tres_per_socket": "each_socket"}


def add_units(
    request: Direct, fields: JobFields, library: ProfileLibrary, view: ClusterView, totals: str
) -> Rewrite | None:
    """The same request with its units; None where they cannot be told (unknown or ambiguous type,
    a count that Slurm itself will refuse): such a job passes as it is.

    Raises:
        RequestError: a total that this site does not take.
    """
    if request.where == "tres_per_job":
        return _total(request, fields, library, view, totals)
    uncounted = _uncounted(request, fields, view, totals)
    if uncounted:
        return uncounted
    units = _units(request.items, fields, library, view)
    if units is None:
        return _untyped(request.items, fields, view, totals)
    message = text(
        "direct_units",
        request=",".join(map(_written, request.items)),
        units=units["compute"],
        vram=units.get("vram", 0),
        where=_where(request, fields),
    )
    if request.where == "tres_per_node":
        value = [*map(_written, request.items), *map(_pair, units.items()), *request.others]
        return Rewrite({"gres": ",".join(value)}, enforce=False, messages=(message,))
    # The user's own spelling stays: "cpu=4,gres/gpu:t4=1" counts with "=".
    before = fields.string(request.where)
    sign = "=" if "=" in before else ":"
    added = [f"gres/{name}{sign}{count}" for name, count in units.items()]
    return Rewrite({request.where: ",".join([before, *added])}, enforce=False, messages=(message,))


def _uncounted(
    request: Direct, fields: JobFields, view: ClusterView, totals: str
) -> Rewrite | None:
    """Options beside which units make a good request impossible: it passes without them and is
    told, or is refused as totals are."""
    option = ""
    if fields.number("ntasks_per_tres"):
        option = "ntasks-per-gpu"
    elif fields.string("cpus_per_tres") and not has(view.release, "UNITS_BESIDE_CPUS_PER_GPU"):
        option = "cpus-per-gpu"
    if not option:
        return None
    words = {
        "request": ",".join(map(_written, request.items)),
        "release": view.release,
        "option": option,
    }
    if totals == "refuse":
        raise RequestError(text("uncounted_refused", **words))
    return Rewrite({}, enforce=False, messages=(text("uncounted", **words),))


def _total(
    request: Direct, fields: JobFields, library: ProfileLibrary, view: ClusterView, totals: str
) -> Rewrite | None:
    """``--gpus=N``: by the site's policy asked per node, refused, or left without units."""
    written = ",".join(":".join(p for p in (i.type, i.count or "1") if p) for i in request.items)
    if totals == "refuse":
        raise RequestError(text("totals_refused"))
    uncounted = _uncounted(request, fields, view, totals)
    if uncounted:
        return uncounted
    if totals == "unbilled":
        return Rewrite({}, enforce=False, messages=(text("totals_unbilled", count=written),))
    nodes, most = fields.number("min_nodes"), fields.number("max_nodes")
    counts = [item.number for item in request.items]
    if not nodes or most != nodes or any(not count or count % nodes for count in counts):
        raise RequestError(text("totals", count=written))
    per_node = tuple(
        GresItem(item.name, item.type, str((item.number or 0) // nodes)) for item in request.items
    )
    # Other GRES of the node (--gres=tmp:1 beside --gpus) stay.
    beside = tuple(_written(i) for i in parse_gres_list(fields.string("tres_per_node")))
    done = add_units(Direct("tres_per_node", per_node, beside), fields, library, view, totals)
    if done is None or not done.set:
        return done
    return Rewrite({**done.set, "tres_per_job": ""}, enforce=False, messages=done.messages)


def _untyped(
    items: tuple[GresItem, ...], fields: JobFields, view: ClusterView, totals: str
) -> Rewrite | None:
    """An untyped request where several types could serve is refused, as a total that cannot be
    counted is; or it passes unbilled where the site says so."""
    for item in items:
        types = sorted(p.gres.type for p in _possible(item.name, fields, view))
        if item.type or len(types) < 2 or item.number == 0:
            continue
        words = {"name": _written(item), "types": " or ".join(types)}
        if totals != "unbilled":
            raise RequestError(text("untyped_refused", **words))
        return Rewrite({}, enforce=False, messages=(text("untyped", **words),))
    return None


def _units(
    items: tuple[GresItem, ...], fields: JobFields, library: ProfileLibrary, view: ClusterView
) -> dict[str, int] | None:
    compute = vram = 0
    for item in items:
        count = item.number
        if count == 0:
            continue
        profile = _profile(item, fields, library, view)
        if profile is None or count is None:
            return None
        compute += count * (profile.booked_units or 0)
        vram += count * (profile.memory_gib or 0)
    if not compute:
        return None
    return {"compute": compute, "vram": vram} if vram else {"compute": compute}


def _written(item: GresItem) -> str:
    return ":".join(p for p in (item.name, item.type, item.count) if p)


def _pair(unit: tuple[str, int]) -> str:
    return f"{unit[0]}:{unit[1]}"


def _where(request: Direct, fields: JobFields) -> str:
    if request.where in _WHERE:
        return text(_WHERE[request.where])
    return text("each_node", nodes=fields.nodes) if fields.nodes > 1 else ""


def _profile(
    item: GresItem, fields: JobFields, library: ProfileLibrary, view: ClusterView
) -> DeviceProfile | None:
    if item.type:
        return library.by_gres(item.name, item.type)
    possible = _possible(item.name, fields, view)
    return possible[0] if len(possible) == 1 else None


def _possible(name: str, fields: JobFields, view: ClusterView) -> list[DeviceProfile]:
    """Device types of that GRES name on the nodes that the request may get."""
    partitions = partitions_of(fields, view.state)
    features = plain_features(fields.string("features"))
    required = view.named_nodes(fields.string("req_nodes"))
    return [
        profile
        for profile, pools in view.types
        if profile.gres.name == name
        and any(
            (not partitions or partitions & pool.partitions)
            and features <= pool.features
            and (not required or any(node.name in required for node in pool.nodes))
            for pool in pools
        )
    ]
