"""``hpcmgr topo``: the matrix, the graph as JSON, a picture in which every label can be read."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hpcmgr.cli import run
from hpcmgr.cli.topo_svg import CHAR, picture
from hpcmgr.discovery import discover, open_host
from hpcmgr.discovery.node_graph import NodeGraph
from hpcmgr.inventory import CpuTopology, Device, DeviceLink, Health, Nic, NodeInventory, NumaNode
from hpcmgr.profile import load_library

HOSTS = ("a100x8", "arc4", "cpu01", "gaudi8", "mi300x8", "mixed", "npu8", "t4x4")
Box = tuple[float, float, float, float]
SVG = "{http://www.w3.org/2000/svg}"


def topo(*args: str | Path) -> int:
    """Run the command and give its exit code."""
    with pytest.raises(SystemExit) as ended:
        run(["topo", *map(str, args)])
    return int(ended.value.code or 0)


def graph_of(host: Path) -> NodeGraph:
    """The graph of a recorded host."""
    return NodeGraph(discover(open_host(host), load_library()))


def cube_mesh() -> NodeInventory:
    """Eight GPUs in a hybrid cube mesh of one and two NVLinks, four NICs, one GPU of no known
    place; names that are too long for their boxes."""
    links = {
        (0, 1): "NV1", (0, 2): "NV2", (0, 3): "NV1", (0, 7): "NV2", (1, 2): "NV1", (1, 3): "NV2",
        (1, 6): "NV2", (2, 3): "NV2", (2, 5): "NV1", (3, 4): "NV1", (4, 5): "NV2", (4, 6): "NV2",
        (4, 7): "NV1", (5, 6): "NV1", (5, 7): "NV2", (6, 7): "NV1",
    }  # fmt: skip
    keys = [f"0000:{bus:02x}:00.0" for bus in (0x1A, 0x1B, 0x3D, 0x3E, 0x88, 0x89, 0xB1, 0xB2)]
    devices = [
        Device(
            vendor="nvidia",
            model="Tesla V100-SXM2-32GB-LS with a very long name",
            kind="gpu",
            pci=key,
            index=number,
            numa_node=None if number == 7 else number // 4,
            files=(f"/dev/nvidia{number}",),
            health=Health(state="failed" if number == 3 else "ok"),
        )
        for number, key in enumerate(keys)
    ]
    nics = [
        Nic(name=f"enp{bus}s0f0np0", pci=f"0000:{bus:02x}:00.0", numa_node=n // 2, rdma=f"mlx5_{n}")
        for n, bus in enumerate((0x18, 0x3A, 0x86, 0xAF))
    ]
    near = [DeviceLink(a=keys[2], b=nics[1].name, kind="PIX"),
            DeviceLink(a=keys[3], b=nics[1].name, kind="PIX")]  # fmt: skip
    return NodeInventory(
        node="cube",
        cpu=CpuTopology(
            sockets=2,
            cores_per_socket=24,
            threads_per_core=2,
            numa=(
                NumaNode(id=0, cpus=",".join(map(str, range(0, 96, 2))), socket=0),
                NumaNode(id=1, cpus=",".join(map(str, range(1, 96, 2))), socket=1),
            ),
        ),
        memory_mib=1 << 20,
        devices=tuple(devices),
        nics=tuple(nics),
        links=(
            *(DeviceLink(a=keys[a], b=keys[b], kind=k, direct=True) for (a, b), k in links.items()),
            *near,
        ),
    )


def text_boxes(root: ElementTree.Element) -> list[tuple[str, Box]]:
    """Every label with the room it takes, reckoned generously."""
    found = []
    for element in root.iter(f"{SVG}text"):
        text, size = element.text or "", float(element.get("font-size", 0))
        x, y = float(element.get("x", 0)), float(element.get("y", 0))
        found.append((text, (x, y - size, x + len(text) * size * CHAR, y + 0.25 * size)))
    return found


def overlap(a: Box, b: Box) -> bool:
    """Whether two rectangles share a point."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def assert_readable(svg: str) -> None:
    """No label touches another, all lie on the page, and no line runs through one."""
    root = ElementTree.fromstring(svg)
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    labels = text_boxes(root)
    for number, (text, box) in enumerate(labels):
        assert min(box) >= 0, text
        assert box[2] <= width, text
        assert box[3] <= height, text
        for other, other_box in labels[number + 1 :]:
            assert not overlap(box, other_box), (text, other)
        for line in root.iter(f"{SVG}line"):
            x1, y1, x2, y2 = (float(line.get(name, 0)) for name in ("x1", "y1", "x2", "y2"))
            if x1 == x2 or y1 == y2:
                assert not overlap(box, (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))), text


@pytest.mark.parametrize("name", HOSTS)
def test_every_label_of_a_picture_can_be_read(name: str, hosts: Path) -> None:
    """Labels lie on the page, apart from each other and from the links."""
    graph = graph_of(hosts / name)
    svg = picture(graph)
    shown = " ".join(text for text, _ in text_boxes(ElementTree.fromstring(svg)))

    assert_readable(svg)
    assert all(end.name in shown and (end.pci or "") in shown for end in graph.ends)


def test_a_mesh_of_many_links_can_be_read(tmp_path: Path) -> None:
    """Sixteen pairs have a line each; long names are cut and stand in full under the pointer."""
    graph = NodeGraph(cube_mesh())
    svg = picture(graph)
    root = ElementTree.fromstring(svg)
    labels = [text for text, _ in text_boxes(root)]
    titles = [title.text for title in root.iter(f"{SVG}title")]

    assert_readable(svg)
    assert sum(label.startswith(("NV1 ", "NV2 ")) for label in labels) == 16
    assert "place unknown" in labels
    assert "Tesla V100-SXM2-32GB-LS with a very long name" in titles
    assert "0000:3e:00.0 failed" in labels


def test_eight_gpus_on_one_switch_are_one_group(hosts: Path) -> None:
    """All to all is said once and not with 28 lines."""
    (group,) = graph_of(hosts / "a100x8").groups()

    assert (group.kind, [end.name for end in group.ends]) == (
        "NV12",
        [f"GPU{number}" for number in range(8)],
    )


def test_the_matrix_has_the_tools_own_words(
    hosts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words of nvidia-smi and npu-smi; small ones where only the NUMA nodes are known."""
    assert topo("--host", hosts / "mixed") == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in out.splitlines()[1:8] if line.strip()}

    assert out.isascii()
    assert rows["GPU0"] == ["GPU0", "X", "sys", "sys", "node", "PIX", "SYS", "0", "0"]
    assert rows["NPU1"] == ["NPU1", "sys", "HCCS", "X", "sys", "sys", "node", "1", "1"]


def test_json_says_which_words_no_tool_said(
    hosts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ends with their places, ways with their origin."""
    assert topo("--host", hosts / "mixed", "--json") == 0
    plain = json.loads(capsys.readouterr().out)
    ways = {(way["a"], way["b"]): way for way in plain["links"]}

    assert plain["schema"] == "hpcmgr.topology/1"
    assert [end["name"] for end in plain["ends"] if end["type"] == "npu"] == ["NPU0", "NPU1"]
    assert (ways["NPU0", "NPU1"]["direct"], ways["NPU0", "NPU1"]["said"]) == (True, True)
    assert (ways["GPU0", "eno1"]["kind"], ways["GPU0", "eno1"]["said"]) == ("NODE", False)


def test_an_unknown_place_stays_unknown() -> None:
    """Without a NUMA node there is no word but the tool's."""
    graph = NodeGraph(cube_mesh())
    ends = {end.name: end for end in graph.ends}
    known = graph.way(ends["GPU0"], ends["GPU7"])

    assert known is not None
    assert known.kind == "NV2"
    assert graph.way(ends["GPU1"], ends["GPU7"]) is None
    assert ends["GPU7"].socket is None


def test_numbers_that_clash_are_not_used() -> None:
    """Two vendors' GPUs both have a number 0: then the place on the bus counts."""
    inventory = cube_mesh()
    devices = [d.model_copy(update={"index": d.index and d.index % 4}) for d in inventory.devices]
    ends = NodeGraph(inventory.model_copy(update={"devices": tuple(devices)})).ends

    assert [end.name for end in ends[:8]] == [f"GPU{number}" for number in range(8)]
    assert [end.pci for end in ends[:8]] == [device.pci for device in devices]


def test_a_picture_is_a_file_or_stdout(
    hosts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same bytes both ways; with --json one of them needs the file."""
    assert topo("--host", hosts / "npu8", "--svg", tmp_path / "npu8.svg") == 0
    capsys.readouterr()
    assert topo("--host", hosts / "npu8", "--svg", "-") == 0

    assert capsys.readouterr().out == (tmp_path / "npu8.svg").read_text()
    assert topo("--host", hosts / "npu8", "--svg", "-", "--json") == 2


def test_a_node_without_devices_has_a_matrix_of_its_nics(
    hosts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No accelerator is no error."""
    assert topo("--host", hosts / "cpu01") == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [
        *("em1", "em2", "mlx5_0", "NUMA", "SOCKET"),
    ]
