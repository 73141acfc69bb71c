"""gres.conf, hpcmgr.conf and cgroup.conf, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.discovery import discover, open_host
from hpcmgr.errors import PlanError
from hpcmgr.inventory import CpuTopology, Device, NodeInventory, NumaNode
from hpcmgr.plan import ClusterPlan, make_plan
from hpcmgr.profile import ProfileLibrary, load_library
from hpcmgr.render import render_cluster, render_node
from hpcmgr.settings import Site
from tests.builders import A100, ASCEND, device

LIBRARY = ProfileLibrary((A100, ASCEND))


def npu(index: int, file: str, numa: int | None = 0, model: str = "ascend910b3") -> Device:
    return Device(
        vendor="huawei", model=model, kind="npu", profile=model, pci=f"0000:{index:02x}:00.0",
        index=index, numa_node=numa, files=(file,),
    )  # fmt: skip


def inventory(name: str, *devices: Device, sockets: int = 2) -> NodeInventory:
    numa = tuple(NumaNode(id=s, cpus="", memory_mib=1, socket=s) for s in range(sockets))
    cpu = CpuTopology(sockets=sockets, cores_per_socket=8, threads_per_core=1, numa=numa)
    return NodeInventory(node=name, cpu=cpu, memory_mib=1000, devices=devices)


def plan(*inventories: NodeInventory, site: Site | None = None) -> ClusterPlan:
    return make_plan(inventories, LIBRARY, site or Site())


@pytest.mark.parametrize(
    "name", ["arc4", "cpx1", "gaudi8", "mi300x8", "mig4", "mixed", "npu8", "t4x4", "vnpu2"]
)
def test_recorded_machines_are_rendered_byte_for_byte(
    name: str, hosts: Path, golden: Callable[[str, str], None]
) -> None:
    """The files of a cluster of that one machine, and its node-local files, equal the golden."""
    library = load_library()
    found = discover(open_host(hosts / name), library)
    made = make_plan([found], library, Site())

    for file, text in render_cluster(made).items():
        golden(f"render/{name}/{file}", text)
    golden(f"render/{name}/devices", render_node(made.nodes[0])["devices"])


def test_a_golden_can_fail(hosts: Path) -> None:
    """One changed fact of the machine changes the bytes."""
    library = load_library()
    found = discover(open_host(hosts / "mixed"), library)
    lost = found.model_copy(update={"devices": found.devices[:-1]})

    assert render_cluster(make_plan([found], library, Site())) != render_cluster(
        make_plan([lost], library, Site())
    )


def test_equal_nodes_fold_and_their_order_does_not_matter() -> None:
    """Twelve equal nodes are one line, whatever the order in which they are read."""
    nodes = [inventory(f"n{i:02}", npu(0, "/dev/davinci0")) for i in range(12)]

    forwards, backwards = (render_cluster(plan(*order)) for order in (nodes, nodes[::-1]))

    assert forwards == backwards
    assert "NodeName=n[00-11] Name=npu" in forwards["gres.conf"]
    assert forwards["hpcmgr.conf"].count("NodeName=") == 1


def test_files_are_ranged_only_where_that_keeps_the_runtimes_order() -> None:
    """davinci5, davinci4 in this order are two records; davinci4, davinci5 are one."""
    turned = plan(inventory("n1", npu(0, "/dev/davinci5"), npu(1, "/dev/davinci4")))
    straight = plan(inventory("n1", npu(0, "/dev/davinci4"), npu(1, "/dev/davinci5")))

    lines = [line for line in render_cluster(turned)["gres.conf"].splitlines() if "File" in line]
    assert [line.split("File=")[1].split()[0] for line in lines] == [
        "/dev/davinci5",
        "/dev/davinci4",
    ]
    assert "File=/dev/davinci[4-5] Cores=0-7" in render_cluster(straight)["gres.conf"]


def test_cores_stand_on_all_records_of_a_name_or_on_none() -> None:
    """One NPU of unknown place takes Cores from the others too: Slurm refuses a mixture."""
    text = render_cluster(
        plan(inventory("n1", npu(0, "/dev/davinci0"), npu(1, "/dev/davinci1", numa=None)))
    )["gres.conf"]

    assert "Cores=" not in text


def test_an_unknown_device_is_a_comment_and_nothing_else() -> None:
    """No profile: it is told, it is not schedulable, and the node has no units of it."""
    strange = Device(vendor="acme", model="X1", kind="npu", pci="0000:01:00.0", files=("/dev/x0",))
    files = render_cluster(plan(inventory("n1", strange)))

    assert "#   n1: 0000:01:00.0 'X1': no profile, not schedulable" in files["gres.conf"]
    assert "/dev/x0" not in files["gres.conf"]
    assert "compute:" not in files["hpcmgr.conf"]


def test_a_device_without_figures_has_no_units_but_is_schedulable() -> None:
    """Unknown units are not zero units: the node offers the device, not units of it."""
    odd = device("odd", "npu:odd", None, None)
    made = make_plan(
        [inventory("n1", npu(0, "/dev/odd0", model="odd"))], ProfileLibrary((odd,)), Site()
    )

    assert made.nodes[0].gres == {"npu:odd": 1}


def test_billing_and_tracking_stand_only_where_there_is_accounting() -> None:
    """Both lines are fatal for slurmctld without slurmdbd."""
    with_it = render_cluster(plan(inventory("n1", npu(0, "/dev/davinci0"))))["hpcmgr.conf"]
    without = render_cluster(
        plan(inventory("n1", npu(0, "/dev/davinci0")), site=Site(accounting=False))
    )["hpcmgr.conf"]

    assert "AccountingStorageTRES=gres/compute,gres/vram,gres/npu,gres/npu:ascend910b3\n" in with_it
    assert 'TRESBillingWeights="CPU=0.0,Mem=0.0,gres/compute=1.0"' in with_it
    assert "AccountingStorageTRES" not in without
    assert "TRESBillingWeights" not in without


def test_site_groups_cap_memory_and_add_features_and_options() -> None:
    """memory_mib, reserve_mib, pool, features and NodeName options of site.yaml."""
    site = Site.model_validate(
        {
            "nodes": [
                {"nodes": "n[1-2]", "reserve_mib": 100, "pool": "dl", "features": ["fast"]},
                {"nodes": "n1", "memory_mib": 500, "options": {"Weight": 10}},
            ]
        }
    )
    text = render_cluster(plan(inventory("n1"), inventory("n2"), site=site))["hpcmgr.conf"]

    assert "NodeName=n1 " in text
    assert "RealMemory=500 Features=dl,fast Weight=10" in text
    assert "RealMemory=900 Features=dl,fast\n" in text


def test_two_devices_with_one_node_are_refused() -> None:
    """The same device would be in two jobs."""
    with pytest.raises(PlanError, match="/dev/davinci0 belongs to two devices"):
        plan(inventory("n1", npu(0, "/dev/davinci0"), npu(1, "/dev/davinci0")))


@given(st.permutations(range(6)), st.lists(st.sampled_from([0, 1, None]), min_size=6, max_size=6))
def test_positions_follow_the_runtimes_order_whatever_the_inventory_says(
    order: list[int], places: list[int | None]
) -> None:
    """Facts 19 and 20: the order in gres.conf is a function of the device, not of the reading."""
    devices = [npu(i, f"/dev/davinci{i}", numa) for i, numa in enumerate(places)]
    shuffled = [devices[i] for i in order]

    assert render_cluster(plan(inventory("n1", *devices))) == render_cluster(
        plan(inventory("n1", *shuffled))
    )


def test_brands_that_share_a_name_have_one_set_of_flags() -> None:
    """slurmd dies of two sets under one name; the TaskProlog sets each brand's variable then."""
    brands = {
        "a100": ("nvidia_gpu_env", "CUDA_VISIBLE_DEVICES"),
        "mi300x": ("amd_gpu_env", "ROCR_VISIBLE_DEVICES"),
    }
    made = []
    for name, (flag, variable) in brands.items():
        visible = {"variable": variable, "slurm": True}
        profile = device(name, f"gpu:{name}", 8, 80, visible=visible)
        gres = profile.gres.model_copy(update={"flags": (flag,)})
        made.append(profile.model_copy(update={"gres": gres}))
    library = ProfileLibrary(tuple(made))
    both = [npu(n, f"/dev/x{n}", model=name) for n, name in enumerate(brands)]
    mixed = make_plan([inventory("n1", *both)], library, Site())
    alone = make_plan([inventory("n1", both[1])], library, Site())

    lines = [x for x in render_cluster(mixed)["gres.conf"].splitlines() if "File=" in x]
    assert [line.rpartition("Flags=")[2] for line in lines] == ["no_gpu_env", "no_gpu_env"]
    table = render_node(mixed.nodes[0])["devices"]
    assert "/dev/x0 gpu:a100 a100 cuda CUDA_VISIBLE_DEVICES local -" in table
    assert "/dev/x1 gpu:mi300x mi300x cuda ROCR_VISIBLE_DEVICES local -" in table
    assert "Flags=amd_gpu_env" in render_cluster(alone)["gres.conf"]
    assert "ROCR_VISIBLE_DEVICES" not in render_node(alone.nodes[0])["devices"]


def test_numa_nodes_stand_for_sockets_where_slurm_was_told_so() -> None:
    """The node line and the cores of the devices follow; the other nodes stay as they are."""
    numa = tuple(NumaNode(id=i, cpus=f"{8 * i}-{8 * i + 7}", socket=i // 2) for i in range(4))
    cpu = CpuTopology(sockets=2, cores_per_socket=16, threads_per_core=1, numa=numa)
    nodes = [
        NodeInventory(node=name, cpu=cpu, memory_mib=1000, devices=(npu(0, "/dev/davinci0", 3),))
        for name in ("n1", "n2")
    ]
    option = {"Parameters": "numa_node_as_socket"}
    site = Site.model_validate({"nodes": [{"nodes": "n1", "sockets": "numa", "options": option}]})
    files = render_cluster(plan(*nodes, site=site))

    assert "NodeName=n1 Sockets=4 CoresPerSocket=8 " in files["hpcmgr.conf"]
    assert "Parameters=numa_node_as_socket\n" in files["hpcmgr.conf"]
    assert "NodeName=n2 Sockets=2 CoresPerSocket=16 " in files["hpcmgr.conf"]
    record = "Name=npu Type=ascend910b3 File=/dev/davinci0"
    assert f"NodeName=n1 {record} Cores=24-31\n" in files["gres.conf"]
    assert f"NodeName=n2 {record} Cores=16-31\n" in files["gres.conf"]


def test_numa_nodes_that_differ_cannot_stand_for_sockets() -> None:
    """Said with the node and what to do."""
    with pytest.raises(PlanError, match="n1: its NUMA nodes cannot stand for sockets"):
        plan(
            inventory("n1", npu(0, "/dev/davinci0")),
            site=Site.model_validate({"nodes": [{"nodes": "n1", "sockets": "numa"}]}),
        )
