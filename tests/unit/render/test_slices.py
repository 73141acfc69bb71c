"""Slices and shares: plan and files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.discovery import discover, open_host
from hpcmgr.errors import PlanError
from hpcmgr.inventory import Device, DeviceLink, NodeInventory, Slice
from hpcmgr.plan import ClusterPlan, NodePlan, make_plan
from hpcmgr.profile import load_library
from hpcmgr.render import render_cluster, render_node
from hpcmgr.settings import Site
from tests.unit.render.test_cluster_files import inventory

LIBRARY = load_library()
SITE = Site()


def gpu(index: int, *slices: Slice, profile: str = "a100-80g", cut: bool = False) -> Device:
    """GPU ``index`` on /dev/nvidiaN, cut if it has slices."""
    return Device(
        vendor="nvidia", model=profile, kind="gpu", profile=profile, pci=f"0000:{index:02x}:00.0",
        index=index, numa_node=index % 2, files=(f"/dev/nvidia{index}",), uuid=f"GPU-{index}",
        sliced=cut or bool(slices), slices=slices,
    )  # fmt: skip


def mig(name: str, gpu_: int, cap: int) -> Slice:
    """A slice of GPU ``gpu_`` with caps ``cap`` and ``cap`` + 1."""
    caps = [f"/dev/nvidia-caps/nvidia-cap{n}" for n in (cap, cap + 1)]
    return Slice(name=name, uuid=f"MIG-{cap}", files=(f"/dev/nvidia{gpu_}", *caps))


def planned(*devices: Device, links: tuple[DeviceLink, ...] = (), **site: object) -> NodePlan:
    """The plan of node n1."""
    found: NodeInventory = inventory("n1", *devices).model_copy(update={"links": links})
    return make_plan([found], LIBRARY, Site.model_validate(site)).nodes[0]


def lines(node: NodePlan, name: str, **site: object) -> list[str]:
    """Records of gres.conf of one GRES name."""
    text = render_cluster(ClusterPlan((node,), Site.model_validate(site)))["gres.conf"]
    return [line for line in text.splitlines() if f" Name={name} " in line]


class TestSlices:
    """What is cut is planned as its slices."""

    def test_a_slice_is_one_record_of_three_files(self) -> None:
        """GPU, GPU instance, compute instance; units and memory are the slices'."""
        node = planned(gpu(0, mig("1g.10gb", 0, 12), mig("2g.20gb", 0, 21)))

        assert lines(node, "gpu") == [
            (
                "NodeName=n1 Name=gpu Type=a100_1g.10gb MultipleFiles=/dev/nvidia0,"
                "/dev/nvidia-caps/nvidia-cap12,/dev/nvidia-caps/nvidia-cap13 Cores=0-7 "
                "Flags=nvidia_gpu_env"
            ),
            (
                "NodeName=n1 Name=gpu Type=a100_2g.20gb MultipleFiles=/dev/nvidia0,"
                "/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22 Cores=0-7 "
                "Flags=nvidia_gpu_env"
            ),
        ]
        assert node.gres == {
            "gpu:a100_1g.10gb": 1, "gpu:a100_2g.20gb": 1, "compute": 3, "vram": 30,
        }  # fmt: skip

    def test_a_gpu_to_be_cut_is_nobodys(self) -> None:
        """MIG is on and there is no instance: neither whole nor in slices."""
        node = planned(gpu(0, cut=True), gpu(1))

        assert node.gres == {"gpu:a100": 1, "compute": 8, "vram": 80}
        assert node.notes == ("0000:00:00.0 'a100-80g': to be cut, has no slices, not schedulable",)

    def test_slices_that_are_not_known_are_told(self) -> None:
        """A compute instance that shares its memory with another; a slice without files."""
        node = planned(
            gpu(0, mig("1c.3g.40gb", 0, 5), Slice(name="1g.10gb"), mig("1g.10gb", 0, 12))
        )

        assert node.gres == {"gpu:a100_1g.10gb": 1, "compute": 1, "vram": 10}
        assert [note.split(": ", 1)[1] for note in node.notes] == [
            "not in the slicing table of a100-80g, not schedulable",
            "no device nodes found, not schedulable",
        ]

    def test_two_slices_with_one_file_of_their_own_are_refused(self) -> None:
        """Their GPU they share, their compute instance never."""
        with pytest.raises(PlanError, match="nvidia-cap13 belongs to two devices"):
            planned(gpu(0, mig("1g.10gb", 0, 12)), gpu(1, mig("1g.10gb", 1, 12)))

    def test_a_whole_gpu_is_no_part_of_another(self) -> None:
        """Slices of a GPU whose device node a whole one has."""
        with pytest.raises(PlanError, match="/dev/nvidia1 belongs to two devices"):
            planned(gpu(0, mig("1g.10gb", 1, 12)), gpu(1))

    @given(st.permutations(range(4)), st.integers(0, 15))
    def test_the_order_is_of_the_devices_not_of_the_reading(
        self, order: list[int], cut: int
    ) -> None:
        """Facts 19 and 20: whichever GPUs are cut, and however the inventory lists them."""
        devices = [
            gpu(n, mig("3g.40gb", n, 40 * n + 10), mig("1g.10gb", n, 40 * n + 20))
            if cut >> n & 1
            else gpu(n)
            for n in range(4)
        ]
        straight, shuffled = planned(*devices), planned(*(devices[n] for n in order))

        assert straight == shuffled
        assert render_cluster(ClusterPlan((straight,), SITE)) == render_cluster(
            ClusterPlan((shuffled,), SITE)
        )

    def test_the_prolog_tries_the_slices_own_file(self) -> None:
        """And tells its uuid; a whole GPU beside it is told, too, since Slurm's word would be
        unset."""
        node = planned(gpu(0, mig("1g.10gb", 0, 12)), gpu(1))
        rows = render_node(node)["devices"].splitlines()[2:]

        assert rows == [
            "/dev/nvidia1 gpu:a100 a100-80g cuda CUDA_VISIBLE_DEVICES local - 8 80",
            (
                "/dev/nvidia-caps/nvidia-cap13,/dev/nvidia0,/dev/nvidia-caps/nvidia-cap12 "
                "gpu:a100_1g.10gb a100-80g-1g.10gb cuda CUDA_VISIBLE_DEVICES uuid MIG-12 1 10"
            ),
        ]


class TestSharing:
    """Devices that several jobs use at once."""

    def test_shares_stand_behind_their_devices(self) -> None:
        """Four a device, on the devices that are shared and on no other."""
        site = {"sharing": {"t4": {"shard": 4}}}
        node = planned(gpu(0), gpu(1, profile="t4"), gpu(2, profile="t4"), **site)

        assert list(node.gres) == ["gpu:a100", "gpu:t4", "shard", "compute", "vram"]
        assert node.gres["shard"] == 8
        assert lines(node, "shard", **site) == [
            "NodeName=n1 Name=shard Count=8 File=/dev/nvidia[1-2]"
        ]

    def test_mps_is_counted_in_percent(self) -> None:
        """A hundred a device."""
        site = {"sharing": {"t4": {"mps": True}}}
        node = planned(gpu(0, profile="t4"), gpu(2, profile="t4"), **site)
        text = render_cluster(make_plan([inventory("n1", gpu(0, profile="t4"))], LIBRARY,
                                        Site.model_validate(site)))["hpcmgr.conf"]  # fmt: skip

        assert node.gres["mps"] == 200
        assert lines(node, "mps", **site) == [
            "NodeName=n1 Name=mps Count=100 File=/dev/nvidia0",
            "NodeName=n1 Name=mps Count=100 File=/dev/nvidia2",
        ]
        assert "GresTypes=compute,gpu,mps,vram\n" in text
        assert "gres/gpu:t4,gres/mps\n" in text

    def test_the_prolog_tells_jobs_with_shares(self) -> None:
        """Slurm may say nothing to them; to a job with the whole device it says the same."""
        node = planned(gpu(0), gpu(1, profile="t4"), sharing={"t4": {"mps": True}})
        rows = render_node(node)["devices"].splitlines()[2:]

        assert [row.split()[4:6] for row in rows] == [["CUDA_VISIBLE_DEVICES", "local"]] * 2

    def test_a_group_of_nodes_differs_from_the_site(self) -> None:
        """The group's word holds for its nodes; null takes the site's back."""
        site = {
            "sharing": {"t4": {"shard": 4}},
            "nodes": [{"nodes": "n1", "sharing": {"t4": None}}],
        }

        assert "shard" not in planned(gpu(0, profile="t4"), **site).gres
        site["nodes"] = [{"nodes": "n1", "sharing": {"t4": {"shard": 2}}}]
        assert planned(gpu(0, profile="t4"), **site).gres["shard"] == 2

    def test_both_sorts_on_one_node_are_refused(self) -> None:
        """Slurm then gives a GPU whole to a job though others have shares of it."""
        site = {"sharing": {"t4": {"shard": 4}, "a100-80g": {"mps": True}}}

        with pytest.raises(PlanError, match="some devices by shard and others by mps"):
            planned(gpu(0), gpu(1, profile="t4"), **site)

    def test_only_gpus_can_be_shared(self) -> None:
        """Slurm knows shares of the name gpu alone."""
        npu = Device(vendor="huawei", model="x", kind="npu", profile="ascend910b3",
                     files=("/dev/davinci0",))  # fmt: skip

        with pytest.raises(PlanError, match="Slurm shares devices named gpu only"):
            planned(npu, sharing={"ascend910b3": {"shard": 2}})

    def test_slices_are_not_shared(self) -> None:
        """A GPU that is cut has no shares, another of its model has."""
        node = planned(gpu(0, mig("1g.10gb", 0, 12)), gpu(1), sharing={"a100-80g": {"shard": 2}})

        assert node.gres["shard"] == 2


def test_links_are_not_rendered() -> None:
    """Slurm 24.11.5 and 26.05.5 give per-node requests the devices with the fewest of them."""
    bridge = DeviceLink(a="0000:00:00.0", b="0000:01:00.0", kind="NV4", direct=True)
    node = planned(*(gpu(n) for n in range(4)), links=(bridge,))

    assert "Links" not in "".join(lines(node, "gpu"))


@pytest.mark.parametrize("shape", ["file", "files"])
def test_shared_t4s_are_rendered_byte_for_byte(
    shape: str, hosts: Path, golden: Callable[[str, str], None]
) -> None:
    """The recorded machine of four T4 whose device nodes are not in order."""
    found = discover(open_host(hosts / "t4x4"), LIBRARY)
    site = Site.model_validate({"sharing": {"t4": {"shard": 4} if shape == "file" else {"mps": 1}}})

    for file, text in render_cluster(make_plan([found], LIBRARY, site)).items():
        if file in ("gres.conf", "hpcmgr.conf"):
            golden(f"render/t4x4-{'shard' if shape == 'file' else 'mps'}/{file}", text)
