"""What a hand-written site means, where the machine differs, and which lines a node leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.adopt import AdoptReport, Move, adopt
from hpcmgr.apply.layout import layouts
from hpcmgr.configure import plan_of
from hpcmgr.inventory import NodeInventory
from hpcmgr.settings import Site
from hpcmgr.slurm.capability import Release
from hpcmgr.verify.configuration import read_configuration

RELEASE = Release(24, 11, 5)
SHAPE = "Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=128000"
SLURM = f"""\
ClusterName=c
SlurmctldHost=ctl
GresTypes=gpu
NodeName=DEFAULT State=UNKNOWN
NodeName=g[1-4] {SHAPE} Gres=gpu:t4:4 Features=t4 NodeAddr=10.0.0.[1-4] Weight=3
PartitionName=all Nodes=ALL
"""
GRES = """\
NodeName=g[1-4] Name=gpu Type=t4 File=/dev/nvidia[0-1] Cores=0-7
NodeName=g[1-4] Name=gpu Type=t4 File=/dev/nvidia[2-3] Cores=8-15
"""


def machine(name: str, **changes: Any) -> NodeInventory:
    """Two sockets of 8 cores, four T4, nvidia0 and 1 near the first socket."""
    devices = [
        {"vendor": "nvidia", "model": "Tesla T4", "profile": "t4", "kind": "gpu", "index": i,
         "numa_node": i // 2, "files": [f"/dev/nvidia{i}"], "uuid": f"GPU-{name}-{i}",
         "pci": f"0000:{i:02x}:00.0"}
        for i in range(4)
    ]  # fmt: skip
    return NodeInventory.model_validate(
        {
            "node": name,
            "cpu": {"sockets": 2, "cores_per_socket": 8, "threads_per_core": 2,
                    "numa": [{"id": 0, "socket": 0}, {"id": 1, "socket": 1}]},
            "memory_mib": 128500,
            "devices": devices,
            **changes,
        }
    )  # fmt: skip


def look(
    folder: Path,
    *machines: NodeInventory,
    slurm: str = SLURM,
    gres: str = GRES,
    wanted: list[str] | None = None,
    **more: str,
) -> AdoptReport:
    files = {"slurm.conf": slurm, "gres.conf": gres, **{f"{n}.conf": t for n, t in more.items()}}
    for name, text in files.items():
        (folder / name).write_text(text)
    inventories = {m.node: m for m in machines}
    plan = plan_of(machines, Site()) if machines else None
    report = adopt(folder, RELEASE, plan, inventories, wanted)
    assert {name: (folder / name).read_text() for name in files} == files
    return report


def kinds(report: AdoptReport) -> set[str]:
    return {d.kind for node in report.nodes for d in node.differs}


def test_equal_nodes_are_one_and_move_with_jobs_running(tmp_path: Path) -> None:
    """The hand-written form is what would be rendered: no device changes its place."""
    report = look(tmp_path, machine("g1"), machine("g2"))

    first, others = report.nodes
    assert (first.nodes, others.nodes) == ("g[1-2]", "g[3-4]")
    assert first.differs == ()
    # Its address is in no rendered line, until site.yaml has it.
    assert first.move is Move.JOBS_GONE
    assert others.move is Move.UNKNOWN
    assert [d.key for d in first.meaning.devices] == ["gpu:t4"] * 4
    assert report.exit_code == 0
    plain = look(tmp_path, machine("g1"), slurm=SLURM.replace(" NodeAddr=10.0.0.[1-4]", ""))
    assert plain.nodes[0].move is Move.ANY_TIME


def test_what_a_line_says_more_goes_to_site_yaml(tmp_path: Path) -> None:
    """Address of that node alone, weight, less memory; what hpcmgr's features have is no loss."""
    report = look(tmp_path, machine("g2"), machine("g3"), wanted=["g2", "g3"])

    (node,) = report.nodes
    assert node.site_yaml == (
        "- nodes: g2",
        "  memory_mib: 128000",
        "  options: {NodeAddr: 10.0.0.2, Weight: 3}",
        "- nodes: g3",
        "  memory_mib: 128000",
        "  options: {NodeAddr: 10.0.0.3, Weight: 3}",
    )
    places = [(s.place.file and s.place.file.name, s.place.line, s.text) for s in node.steps]
    assert places == [
        ("slurm.conf", 5, "NodeName=g[1-4] becomes NodeName=g[1,4]"),
        ("gres.conf", 1, "NodeName=g[1-4] becomes NodeName=g[1,4]"),
        ("gres.conf", 2, "NodeName=g[1-4] becomes NodeName=g[1,4]"),
    ]


@pytest.mark.parametrize(
    ("slurm", "gres", "changes", "kind"),
    [
        ((), ("[2-3]", "[2-4]"), {}, "device-missing"),
        (("gpu:t4:4", "gpu:t4:2"), ("NodeName=g[1-4] Name=gpu Type=t4 File=/dev/nvidia[2-3]", "#"),
         {}, "device-extra"),
        ((), ("Cores=0-7", "Cores=8-15"), {}, "cores-differ"),
        ((), ("File=/dev/nvidia[0-1]", "File=/dev/nvidia1,/dev/nvidia0"), {}, "order-differs"),
        (("gpu:t4", "gpu:tesla"), ("Type=t4", "Type=tesla"), {}, "type-renamed"),
        (("gpu:t4:4", "gpu:a100:2,gpu:t4:2"),
         ("Type=t4 File=/dev/nvidia[0-1]", "Type=a100 File=/dev/nvidia[0-1]"), {}, "type-differs"),
        (("gpu:t4:4", "gpu:t4:3"), (), {}, "count-differs"),
        (("Sockets=2 CoresPerSocket=8", "Sockets=1 CoresPerSocket=16"), (), {}, "machine-differs"),
        (("Sockets=2", "CPUs=48 Sockets=2"), (), {}, "cpus-differ"),
        (("RealMemory=128000", "RealMemory=256000"), (), {}, "memory-differs"),
    ],
)  # fmt: skip
def test_every_difference_is_told(
    tmp_path: Path,
    slurm: tuple[str, ...],
    gres: tuple[str, ...],
    changes: dict[str, object],
    kind: str,
) -> None:
    """One slip of the pen each; exit code 3."""
    report = look(
        tmp_path,
        *(machine(f"g{i}", **changes) for i in range(1, 5)),
        slurm=SLURM.replace(*slurm) if slurm else SLURM,
        gres=GRES.replace(*gres, 1) if len(gres) == 2 and kind != "type-renamed" else
        GRES.replace(*gres) if gres else GRES,
    )  # fmt: skip

    assert kind in kinds(report)
    assert report.exit_code == 3


def test_a_device_without_profile_is_told(tmp_path: Path) -> None:
    """It would not be rendered."""
    odd = machine("g1").model_dump(mode="json", by_alias=True)
    odd["devices"][3] |= {"model": "Frobnicator 9000", "profile": None, "pci_id": "ffff:0001"}
    report = look(tmp_path, NodeInventory.model_validate(odd), wanted=["g1"])

    assert {"no-profile", "device-missing"} <= kinds(report)


def test_the_dangerous_order_is_named_with_both_files(tmp_path: Path) -> None:
    """Fact 20: a position now and after."""
    swapped = GRES.replace("File=/dev/nvidia[0-1]", "File=/dev/nvidia1,/dev/nvidia0")
    report = look(tmp_path, machine("g1"), gres=swapped, wanted=["g1"])

    (order,) = [d for d in report.nodes[0].differs if d.kind == "order-differs"]
    assert order.danger
    assert "gpu number 0 is /dev/nvidia1 for Slurm now, and would be /dev/nvidia0" in order.text


def test_records_for_all_nodes_and_keys_are_first_steps(tmp_path: Path) -> None:
    """Before the first node moves: includes, keys, records without NodeName, units, the shim."""
    gres = "AutoDetect=nvml\nName=gpu Type=t4 File=/dev/nvidia[0-3]\n"
    report = look(tmp_path, machine("g1"), gres=gres)

    steps = [(s.place.file and s.place.file.name, s.place.line, s.text) for s in report.first]
    assert ("slurm.conf", 4, "above this line add: Include hpcmgr.conf") in steps
    assert ("gres.conf", None, "at the end add: Include hpcmgr-gres.conf") in steps
    assert any(s[:2] == ("gres.conf", 1) and "NodeName=g[1-4]" in s[2] for s in steps)
    assert any(s[:2] == ("gres.conf", 2) and "NodeName=g[1-4]" in s[2] for s in steps)
    assert any("remove GresTypes" in s[2] for s in steps)
    assert ("slurm.conf", 5, "add compute:8,vram:64 to Gres= (of g1 alone)") in steps
    assert any("set JobSubmitPlugins=lua" in s[2] for s in steps)


def test_topology_is_told(tmp_path: Path) -> None:
    """The leaf switch of each node; nodes of two switches are not equal."""
    tree = "SwitchName=s1 Nodes=g[1-2]\nSwitchName=s2 Nodes=g[3-4]\nSwitchName=t Switches=s[1-2]\n"
    report = look(tmp_path, topology=tree)

    assert [(n.nodes, n.leaf) for n in report.nodes] == [
        ("g[1-2]", "switch s1"), ("g[3-4]", "switch s2")
    ]  # fmt: skip


def test_json_holds_all_of_it(tmp_path: Path) -> None:
    """The schema's keys; a diff of lines."""
    document = look(tmp_path, machine("g1"), wanted=["g1"]).as_json()

    assert document["schema"] == "hpcmgr.adopt/1"
    (node,) = json.loads(json.dumps(document))["nodes"]
    assert node["owner"] == "site"
    assert node["means"]["gres"] == {"gpu:t4": 4}
    assert node["places"] == ["slurm.conf:5", "gres.conf:1", "gres.conf:2"]
    assert any(line.startswith("+ NodeName=g1 Sockets=2") for line in node["diff"])


def test_a_node_in_no_file_is_new(tmp_path: Path) -> None:
    """It has published, and nobody has written it down."""
    assert look(tmp_path, machine("g1"), machine("x9")).new == ("x9",)


@given(st.permutations(range(4)), st.integers(1, 3))
def test_slurms_order_is_that_of_types_then_records(order: list[int], split: int) -> None:
    """As Slurm merges them, whatever the order of the records of a type."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        types = ["b" if i < split else "a" for i in range(4)]
        gres = "".join(f"Name=gpu Type={types[i]} File=/dev/nvidia{i}\n" for i in order)
        slurm = SLURM.replace("gpu:t4:4", f"gpu:a:{4 - split},gpu:b:{split}")
        report = look(Path(name), slurm=slurm, gres=gres)

        files = [d.files[0] for d in report.nodes[0].meaning.devices]
        a = [f"/dev/nvidia{i}" for i in order if types[i] == "a"]
        assert files == a + [f"/dev/nvidia{i}" for i in order if types[i] == "b"]
        assert len(layouts(read_configuration(Path(name), RELEASE))) == 4
