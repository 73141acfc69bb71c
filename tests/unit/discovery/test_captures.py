"""Real outputs of vendor tools, where somebody has them beside this checkout."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hpcmgr.discovery import npu_smi_text, nvidia_mig, nvidia_xml, topo_matrix
from hpcmgr.inventory import NodeInventory, cpu_list
from tests.unit.discovery.conftest import Recording, source

Row = tuple[int, int, str | None, int | None]


def test_every_nvidia_xml_gives_its_gpus(corpus: Path) -> None:
    """Address and model of every GPU are read, in the order of the bus."""
    paths = sorted((corpus / "nvidia").glob("*.xml"))
    assert paths
    for path in paths:
        text = path.read_text()
        log = nvidia_xml.parse(text)
        facts = [nvidia_xml.facts(gpu, log, n) for n, gpu in enumerate(log.gpus)]

        assert len(facts) == text.count("<gpu id="), path.name
        assert all(fact.pci and fact.model for fact in facts), path.name


def test_indexes_are_not_minors(corpus: Path) -> None:
    """Four K80 halves in wide domains: the first on the bus is /dev/nvidia1."""
    log = nvidia_xml.parse((corpus / "nvidia/smi-q-x_pai-out-of-order.xml").read_text())
    facts = [nvidia_xml.facts(gpu, log, n) for n, gpu in enumerate(log.gpus)]

    assert [(fact.pci, fact.files) for fact in facts] == [
        ("1580:00:00.0", ("/dev/nvidia1",)),
        ("2df7:00:00.0", ("/dev/nvidia2",)),
        ("4968:00:00.0", ("/dev/nvidia3",)),
        ("f8d6:00:00.0", ("/dev/nvidia0",)),
    ]


def test_errors_of_nvidia_smi_are_no_gpus(corpus: Path) -> None:
    """What is no XML gives no GPU and a reason."""
    for path in sorted((corpus / "nvidia").glob("error_*")):
        log = nvidia_xml.parse(path.read_text())

        assert (log.gpus, bool(log.problem)) == ((), True), path.name


def test_slices_of_the_list(corpus: Path) -> None:
    """Every GPU with slices has their names and uuids; a display GPU has none."""
    listed = nvidia_mig.parse_list(
        (corpus / "nvidia/smi-L_DGX-Station_MIG-7x1g_display.txt").read_text()
    )

    assert [len(slices) for slices in listed.values()] == [7, 0, 0, 0]


@pytest.mark.parametrize(
    ("name", "labels", "links"),
    [
        ("topo-m_2xA100_srun-c64_cpuset.txt", 4, {("GPU0", "NIC0"): "NODE"}),
        ("topo-m_4gpu-NPS4_header-broken.txt", 4, {("GPU0", "GPU3"): "SYS"}),
        ("topo-m_4xTITANX_mlx4.txt", 6, {("GPU0", "mlx4_0"): "PHB"}),
        ("topo-m_8xA100-HGX.txt", 8, {("GPU3", "GPU7"): "NV12"}),
        ("topo-m_8xA100-PCIe_srun-c32_cpuset.txt", 9, {("GPU6", "NIC0"): "PHB"}),
        ("topo-m_8xH100-a.txt", 8, {("GPU0", "GPU7"): "NV18"}),
        ("topo-m_8xRTX4090_2socket.txt", 8, {("GPU0", "GPU4"): "SYS"}),
        ("topo-m_8xRTX4090_all-SYS_tabs.txt", 10, {("NIC0", "NIC1"): "PIX"}),
        ("topo-m_8xV100_DGX1-like_mlx.txt", 10, {("GPU4", "GPU5"): "NV2"}),
    ],
)
def test_nvidia_matrices(
    corpus: Path, name: str, labels: int, links: dict[tuple[str, str], str]
) -> None:
    """Shifted, squeezed and mangled columns do not matter."""
    matrix = topo_matrix.parse((corpus / "nvidia" / name).read_text(), "GPU")

    assert matrix is not None
    assert len(matrix.labels) == labels
    assert {pair: matrix.links[pair] for pair in links} == links


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("info-t-topo_8x910B3.txt", {"HCCS"}),
        ("a950/info-t-topo_2card-UB.txt", {"UB", "SYS"}),
        ("a950/info-t-topo_pcie.txt", {"SYS"}),
    ],
)
def test_ascend_matrices(corpus: Path, name: str, kinds: set[str]) -> None:
    """All 28 pairs of eight NPUs, with or without an indented header."""
    matrix = topo_matrix.parse((corpus / "ascend" / name).read_text(), "NPU")

    assert matrix is not None
    assert (len(matrix.links), set(matrix.links.values())) == (28, kinds)


@pytest.mark.parametrize(
    ("name", "count", "first"),
    [
        ("npu-smi-info_1x310P3_id224.txt", 1, (224, 0, "0000:04:00.0", 0)),
        ("npu-smi-info_2x910B2C.txt", 2, (0, 0, "0000:5a:00.0", None)),
        ("npu-smi-info_310B1_soc.txt", 1, (0, 0, None, 0)),
        ("npu-smi-info_310B4_alarm.txt", 1, (0, 0, None, 0)),
        ("npu-smi-info_4x310P-Duo_8chips.txt", 8, (0, 0, "0000:01:00.0", 0)),
        ("npu-smi-info_8x910B1_23.0.rc2.2.txt", 8, (0, 0, "0000:c1:00.0", None)),
        ("npu-smi-info_8x910B1_25.3.rc1_order-0123-5674.txt", 8, (0, 0, "0000:c1:00.0", None)),
        ("npu-smi-info_8x910B3.txt", 8, (0, 0, "0000:c1:00.0", None)),
        ("npu-smi-info_8x910PremiumA_23.0.rc2_procs.txt", 8, (0, 0, "0000:c1:00.0", None)),
        ("npu-smi-info_8x_24.1.rc1_partial.txt", 1, (7, 0, "0000:3d:00.0", None)),
        ("npu-smi-info_A3-910C_25.x_partial.txt", 3, (0, 0, "0000:9d:00.0", 0)),
        ("npu-smi-info_after-reset.txt", 2, (0, 0, "0000:61:00.0", None)),
        ("npu-smi-info_vnpu-container_310P3.txt", 1, (32768, 0, "0000:81:00.0", 0)),
        ("a950/npu-smi-info.txt", 1, (0, 0, "0000:91:00.0", None)),
    ],
)
def test_ascend_tables(corpus: Path, name: str, count: int, first: Row) -> None:
    """Every layout gives its chips; running processes are none."""
    rows = npu_smi_text.parse_table((corpus / "ascend" / name).read_text()).rows

    assert len(rows) == count
    assert (rows[0].npu, rows[0].chip, rows[0].pci, rows[0].phy) == first
    assert all(row.memory_mib for row in rows)


def test_ascend_mappings(corpus: Path) -> None:
    """The MCU is left out; a newer release prints the physical id."""
    old = npu_smi_text.parse_mapping((corpus / "ascend/info-m_2x910B3.txt").read_text())
    new = npu_smi_text.parse_mapping((corpus / "ascend/a950/info-m.txt").read_text())

    assert [(row.npu, row.logic, row.phy) for row in old] == [(0, 0, None), (1, 1, None)]
    assert [(row.npu, row.logic, row.phy) for row in new] == [(0, None, 0)]


def test_every_capture_as_the_only_answer_of_a_host(
    corpus: Path, recording: Callable[[str], Recording]
) -> None:
    """Whatever the tool printed, discovery ends; errors give no device and a broken source."""
    host = recording("")
    for path in sorted((corpus / "nvidia").iterdir()):
        inventory = host.answers(("nvidia-smi", "-q", "-x"), path.read_text()).discover()
        gpus = path.read_text().count("<gpu id=") if path.suffix == ".xml" else 0
        state = source(inventory, "nvidia-smi").state

        assert len(inventory.devices) == gpus, path.name
        assert gpus or state == "broken", path.name
    host.without("nvidia-smi")
    for path in sorted((corpus / "ascend").rglob("*.*")):
        inventory = host.answers(("npu-smi", "info"), path.read_text()).discover()
        rows = npu_smi_text.parse_table(path.read_text()).rows

        # A log of several commands has its table twice.
        assert len(inventory.devices) == len({(row.npu, row.chip) for row in rows}), path.name
        assert rows or source(inventory, "npu-smi").state == "broken", path.name


@pytest.fixture(name="tree")
def _tree(corpus: Path, tmp_path: Path) -> Callable[[str], NodeInventory]:
    """``tree("nvidia-dgx-gb10")``: the inventory of a machine whose /sys and /proc were kept."""

    def make(name: str) -> NodeInventory:
        place = corpus.parent / "hosts/hwloc" / f"{name}.tar.bz2"
        with tarfile.open(place) as archive:
            archive.extractall(tmp_path, filter="tar")
        (folder,) = (path.parent for path in tmp_path.glob("*/sys"))
        return Recording(folder)._store([]).discover()

    return make


@pytest.mark.parametrize("name", ["40intel64-2g2n4c+pcilocality", "nvidia-dgx-gb10"])
def test_processors_are_counted_as_hwloc_does(
    name: str, corpus: Path, tree: Callable[[str], NodeInventory]
) -> None:
    """Sockets, cores, threads, and CPUs and memory of every NUMA node."""
    cpu = tree(name).cpu
    root = ElementTree.parse(corpus.parent / "hosts/hwloc" / f"{name}.xml").getroot()
    count = {kind: len(root.findall(f".//object[@type='{kind}']")) for kind in
             ("Package", "Core", "PU", "NUMANode")}  # fmt: skip
    numa = {
        int(node.get("os_index", "")): (_cpus(node.get("cpuset", "")),
                                        int(node.get("local_memory", "")) >> 20)
        for node in root.findall(".//object[@type='NUMANode']")
    }  # fmt: skip

    assert cpu.sockets == count["Package"]
    assert cpu.sockets * cpu.cores_per_socket == count["Core"]
    assert cpu.sockets * cpu.cores_per_socket * cpu.threads_per_core == count["PU"]
    assert {node.id: (node.cpus, node.memory_mib) for node in cpu.numa} == numa


def _cpus(mask: str) -> str:
    """hwloc's ``0x00000011,0x11111111`` as a list; an empty word is zero."""
    words = [int(word or "0", 16) for word in mask.split(",")]
    number = sum(word << 32 * place for place, word in enumerate(reversed(words)))
    return cpu_list.text_of(bit for bit in range(number.bit_length()) if number >> bit & 1)


def test_memory_of_gpus_is_no_place_of_cpus(tree: Callable[[str], NodeInventory]) -> None:
    """POWER9 with six GPUs: six NUMA nodes without CPUs, four threads a core."""
    cpu = tree("nvidiagpunumanodes").cpu

    assert (cpu.sockets, cpu.cores_per_socket, cpu.threads_per_core) == (2, 4, 4)
    assert [node.socket for node in cpu.numa] == [0, 1, *[None] * 6]


def test_wide_domains_and_virtio(tree: Callable[[str], NodeInventory]) -> None:
    """A virtual machine: two sockets in one NUMA node, a NIC behind virtio."""
    inventory = tree("2pa-pcidomain32bits")

    assert [(node.cpus, node.socket) for node in inventory.cpu.numa] == [("0-1", None)]
    assert [(nic.name, nic.pci) for nic in inventory.nics] == [("ens3", "0000:00:03.0")]
