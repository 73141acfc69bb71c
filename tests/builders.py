"""Builders in an operator's words: devices, nodes, a cluster, a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hpcmgr.admit import Decision, Policy, decide, make_policy
from hpcmgr.profile import DeviceProfile, ProfileLibrary
from hpcmgr.profile.performance import load
from hpcmgr.settings import Site
from hpcmgr.slurm.partition import Partition
from hpcmgr.slurm.state import ClusterState, NodeState, PendingJob
from hpcmgr.submit.facts import NOTHING_KNOWN, DeviceFacts, Known
from hpcmgr.submit.request import read_fields
from hpcmgr.submit.view import make_view


def device(
    name: str,
    gres: str,
    units: int | None,
    gib: int | None,
    runtime: str = "cuda",
    vendor: str = "nvidia",
    **more: object,
) -> DeviceProfile:
    """A profile: ``device("a100-80g", "gpu:a100", 8, 80)``."""
    gres_name, gres_type = gres.split(":")
    return DeviceProfile.model_validate(
        {
            "name": name,
            "title": name,
            "vendor": vendor,
            "kind": "gpu" if gres_name == "gpu" else "npu",
            "runtime": runtime,
            "match": {"model": [name]},
            "gres": {"name": gres_name, "type": gres_type},
            "units": units,
            "memory_gib": gib,
            **more,
        }
    )


A100 = device("a100-80g", "gpu:a100", 8, 80)
H100 = device("h100-80g", "gpu:h100", 25, 80)
T4 = device("t4", "gpu:t4", 2, 16)
ASCEND = device("ascend910b3", "npu:ascend910b3", 8, 64, runtime="cann", vendor="huawei")


def node(name: str, **changes: object) -> NodeState:
    """A usable node of 2 x 16 cores and 512 GiB in partition main.

    ``gres={"gpu:a100": 2}`` and ``used`` likewise; devices lie on sockets 0 and 1 unless
    ``sockets_of`` says otherwise.
    """
    gres = changes.get("gres", {})
    assert isinstance(gres, dict)
    values: dict[str, object] = {
        "usable": True,
        "partitions": ("main",),
        "sockets": 2,
        "cores_per_socket": 16,
        "threads_per_core": 1,
        "cpus": 32,
        "memory": 512 << 10,
        "sockets_of": {key: frozenset({0, 1}) for key in gres if ":" in key},
        **changes,
    }
    return NodeState(name, **values)  # type: ignore[arg-type]


def cluster(
    *nodes: NodeState, release: str = "24.11.5", pending: tuple[PendingJob, ...] = ()
) -> ClusterState:
    """A cluster with the default partition main."""
    return ClusterState(0.0, release, nodes, (Partition("main", default=True),), pending)


def known(leaves: Mapping[str, str] | None = None, **nodes: Mapping[str, DeviceFacts]) -> Known:
    """``known(a01={"gpu:a100": DeviceFacts(failed=1)})``."""
    return Known(nodes, leaves or {})


def policy(*profiles: DeviceProfile, **site: object) -> Policy:
    """Profiles and a site.yaml given as keys."""
    return make_policy(Site.model_validate(site), ProfileLibrary(profiles), load())


def submit(
    state: ClusterState,
    rules: Policy,
    job: str | Mapping[str, object],
    granted: Mapping[str, int] | None = None,
    *,
    late: bool = False,
    known: Known = NOTHING_KNOWN,
) -> Decision:
    """Decide on ``"compute:8"`` or on a whole set of fields."""
    values = {"tres_per_node": job} if isinstance(job, str) else dict(job)
    view = make_view(state, rules.library, replace(known, owned=rules.site.owned))
    return decide(read_fields(values), rules, view, granted or {}, "t-1", late=late)
