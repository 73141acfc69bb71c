"""AMD's and Hygon's GPUs: numbers that differ, partitions, tools that say N/A."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hpcmgr.discovery import amd_ids, amd_smi_text, rocm_smi_text
from tests.unit.discovery.conftest import Recording, at, source

Make = Callable[[str], Recording]
LIST, STATIC = ("amd-smi", "list", "--json"), ("amd-smi", "static", "--json")
ALL = ("rocm-smi", "--showallinfo", "--json")
NODES = "/sys/class/kfd/kfd/topology/nodes"
PCI = "/sys/bus/pci/devices"
FIRST = "0000:1b:00.0"


def gpu_node(host: Recording, node: int, location: int, minor: int, **more: object) -> None:
    """A GPU in the driver's tree."""
    values = {
        "cpu_cores_count": 0, "simd_count": 152, "vendor_id": 0x1002, "device_id": 0x74A1,
        "location_id": location, "domain": 0, "drm_render_minor": minor, **more,
    }  # fmt: skip
    text = "".join(f"{key} {value}\n" for key, value in values.items() if value is not None)
    host.file(f"{NODES}/{node}/properties", text)
    host.file(f"{NODES}/{node}/gpu_id", f"{1000 + node}\n")


def card(host: Recording, pci: str, pci_id: str = "1002:74a1", numa: str = "0") -> None:
    """A PCI function."""
    vendor, device = pci_id.split(":")
    values = {
        "vendor": f"0x{vendor}", "device": f"0x{device}", "numa_node": numa, "class": "0x120000",
        "driver": "../../../../drivers/amdgpu",
    }  # fmt: skip
    for name, text in values.items():
        host.file(f"{PCI}/{pci}/{name}", f"{text}\n")


def drm(host: Recording, node: str, owner: str) -> None:
    host.file(f"/sys/class/drm/{node}/device", f"../../../{owner}\n")


@pytest.fixture(name="divided")
def _divided(recording: Make) -> Recording:
    """One MI300X in CPX: one PCI function, one platform device a further partition."""
    host = recording("")
    card(host, "0000:05:00.0")
    host.file(f"{PCI}/0000:05:00.0/mem_info_vram_total", str(196592 << 20))
    drm(host, "card1", "0000:05:00.0")
    drm(host, "renderD128", "0000:05:00.0")
    gpu_node(host, 1, 0x500, 128, unique_id=0x5D1C7A20B94E3F61)
    for part in range(1, 8):
        drm(host, f"card{part + 1}", f"amdgpu_xcp.{part - 1}")
        drm(host, f"renderD{128 + part}", f"amdgpu_xcp.{part - 1}")
        gpu_node(host, 1 + part, 0x500 + part, 128 + part, unique_id=0x5D1C7A20B94E3F61)
    for part in range(8):
        bank = f"heap_type 1\nsize_in_bytes {24574 << 20}\n"
        host.file(f"{NODES}/{1 + part}/mem_banks/0/properties", bank)
    return host


def test_partitions_are_devices_of_their_parents_place(divided: Recording) -> None:
    """Each has its own nodes, its own number and a share of the memory; all have one address."""
    devices = divided.discover().devices

    assert [d.key for d in devices] == ["0000:05:00.0"] + [f"0000:05:00.0#{n}" for n in range(1, 8)]
    assert [d.index for d in devices] == list(range(8))
    assert devices[3].files == ("/dev/dri/card4", "/dev/dri/renderD131")
    assert {d.numa_node for d in devices} == {0}
    assert {d.profile for d in devices} == {"mi300x-cpx"}
    assert len({d.uuid for d in devices}) == 8
    assert not any(d.conflicts for d in devices)


def test_a_partition_of_unknown_memory_is_never_taken_for_the_whole(divided: Recording) -> None:
    """One of eight parts must not be booked as an MI300X."""
    for part in range(8):
        divided.removed(f"{NODES}/{1 + part}/mem_banks")

    assert {d.profile for d in divided.discover().devices} == {None}


def test_the_tools_names_of_partitions_lead_to_the_same_devices(divided: Recording) -> None:
    """amd-smi says function .3, rocm-smi N/A and a GUID: no ninth device, no conflict."""
    listed = [
        {"gpu": n, "bdf": f"0000:05:00.{n}", "uuid": amd_ids.uuid_of(0x5D1C7A20B94E3F61, 0x74A1),
         "kfd_id": 1001 + n, "node_id": 1 + n, "partition_id": n}
        for n in range(8)
    ]  # fmt: skip
    shown = {
        f"card{n}": {"Device Name": "AMD Instinct MI300X", "GUID": str(1001 + n),
                     "Device ID": "N/A" if n else "0x74a1", "Unique ID": "N/A", "PCI Bus": "N/A"}
        for n in range(8)
    }  # fmt: skip
    divided.answers(LIST, json.dumps(listed)).answers(ALL, json.dumps(shown))
    inventory = divided.discover()

    assert len(inventory.devices) == 8
    assert [d.index for d in inventory.devices] == list(range(8))
    assert {d.model for d in inventory.devices} == {"AMD Instinct MI300X"}
    assert not any(d.conflicts for d in inventory.devices)
    assert [report.name for report in inventory.broken_sources] == ["cpu"]


def test_a_second_function_alone_is_no_partition(recording: Make) -> None:
    """In a virtual machine a GPU may be function 1."""
    host = recording("")
    card(host, "0000:06:00.1")
    gpu_node(host, 1, 0x601, 128)

    assert [(d.pci, d.chip) for d in host.discover().devices] == [("0000:06:00.1", None)]


def test_the_runtime_counts_the_drivers_nodes(recording: Make) -> None:
    """amd-smi's GPU 0 is node 3, so it is number 1 of the runtime."""
    inventory = recording("mi300x8").discover()

    assert [d.index for d in inventory.devices] == [1, 0, 3, 2, 5, 4, 7, 6]
    assert not any(d.conflicts for d in inventory.devices)
    assert {(link.kind, link.direct) for link in inventory.links} == {("XGMI", True)}
    assert len(inventory.links) == 28


def test_without_any_tool_sysfs_tells_the_same(recording: Make) -> None:
    """Place, nodes, number, uuid, serial, memory and health; what is lost is told."""
    host = recording("mi300x8")
    before = host.discover()
    after = host.without("amd-smi").without("rocm-smi").discover()

    for name in ("pci", "files", "index", "uuid", "serial", "memory_mib", "driver", "profile",
                 "numa_node", "health"):  # fmt: skip
        assert [getattr(d, name) for d in after.devices] == [
            getattr(d, name) for d in before.devices
        ], name
    assert after.links == before.links
    assert source(after, "amd-smi").state == "broken"
    assert "not installed" in source(after, "amd-smi").detail


def test_rocm_smi_alone_answers_for_all_cards(recording: Make) -> None:
    """An older ROCm has no amd-smi, and nobody misses it."""
    inventory = recording("mi300x8").without("amd-smi").discover()

    assert source(inventory, "amd-smi").state == "absent"
    assert not inventory.broken_sources
    assert not any(d.conflicts for d in inventory.devices)


def test_uncorrected_errors_degrade_a_gpu(recording: Make) -> None:
    """Corrected ones do not."""
    host = recording("mi300x8")
    host.file(f"{PCI}/{FIRST}/ras/umc_err_count", "ue: 2\nce: 9\n")
    gpu = at(host.discover(), FIRST)

    assert gpu.health.state == "degraded"
    assert gpu.health.reasons == ("uncorrected errors since the driver was loaded: UMC",)
    assert at(host.discover(), "0000:5f:00.0").health.state == "ok"


def test_a_lost_gpu_is_named(recording: Make) -> None:
    """amd-smi lists seven; the eighth is there with a broken source."""
    host = recording("mi300x8").without("rocm-smi")
    for argv in (LIST, STATIC):
        text = host.text(*argv)
        host.answers(argv, json.dumps(json.loads(text[text.index("[") :])[1:]))
    for question in ("topology", "partition"):
        host.answers(("amd-smi", question, "--json"), "", exit=2)
    host.removed("/sys/class/kfd")
    inventory = host.discover()

    assert source(inventory, "amd-smi").state == "broken"
    assert FIRST in source(inventory, "amd-smi").detail
    assert at(inventory, FIRST).model == "AMD Instinct MI300X OAM"
    assert len(inventory.devices) == 8


def test_an_old_amd_smi_knows_no_partition(recording: Make) -> None:
    """A question that it does not know breaks nothing."""
    host = recording("mi300x8")
    host.answers(("amd-smi", "partition", "--json"), "invalid choice: 'partition'", exit=2)

    assert not host.discover().broken_sources


@pytest.mark.parametrize("argv", [LIST, STATIC, ALL])
def test_a_hanging_tool_is_broken_and_the_gpus_stay(recording: Make, argv: tuple[str, ...]) -> None:
    """All eight are listed, with the driver's numbers."""
    inventory = recording("mi300x8").hangs(*argv).discover()

    assert source(inventory, argv[0]).state == "broken"
    assert [d.index for d in inventory.devices] == [1, 0, 3, 2, 5, 4, 7, 6]


@pytest.mark.parametrize("text", ["", "garbage", "[", "{}", "[1]", '[{"gpu": 0', "Traceback …"])
def test_garbage_makes_no_gpu(recording: Make, text: str) -> None:
    """Of either tool."""
    host = recording("mi300x8")
    for argv in (LIST, STATIC, ALL, ("amd-smi", "topology", "--json")):
        host.answers(argv, text)
    inventory = host.discover()

    assert len(inventory.devices) == 8
    assert {source(inventory, name).state for name in ("amd-smi", "rocm-smi")} == {"broken"}


def test_a_tool_that_lies_about_an_identity_is_named(recording: Make) -> None:
    """Another chip number than the kernel's is a conflict; another spelling of it is not."""
    host = recording("mi300x8")
    host.answers(LIST, host.text(*LIST).replace("5dff74a1", "5eff74a1"))
    host.answers(ALL, host.text(*ALL).replace('"0x2fa95cc', '"0x2FA95CC'))
    inventory = host.discover()

    assert "kfd says 5dff74a1" in at(inventory, FIRST).conflicts[0]
    assert [bool(d.conflicts) for d in inventory.devices] == [True] + [False] * 7


def test_nodes_of_another_jobs_cgroup_break_the_source(recording: Make) -> None:
    """Inside a job the driver hides what the job does not have."""
    host = recording("mi300x8").file(f"{NODES}/5/properties", "")
    inventory = host.discover()

    assert source(inventory, "kfd").state == "broken"
    assert "node 5" in source(inventory, "kfd").detail
    assert len(inventory.devices) == 8


def test_a_driver_that_does_not_tell_the_domain(recording: Make) -> None:
    """Two cards at bus 5 of two domains: the render node tells which is which."""
    host = recording("")
    for number, pci in enumerate(("0000:05:00.0", "0001:05:00.0")):
        card(host, pci)
        drm(host, f"card{number}", pci)
        drm(host, f"renderD{128 + number}", pci)
        gpu_node(host, 2 - number, 0x500, 128 + number, domain=None, unique_id=7 + number)
    inventory = host.discover()

    assert [(d.pci, d.index) for d in inventory.devices] == [
        ("0000:05:00.0", 1),
        ("0001:05:00.0", 0),
    ]


def test_the_processors_graphics_are_counted_but_not_listed(recording: Make) -> None:
    """An APU's own graphics are number 0 of the runtime, so the card is number 1."""
    host = recording("")
    card(host, "0000:0c:00.0", "1002:164e")
    card(host, "0000:03:00.0", "1002:740f")
    gpu_node(host, 1, 0xC00, 129, device_id=0x164E)
    gpu_node(host, 2, 0x300, 128, device_id=0x740F)

    assert [(d.profile, d.index) for d in host.discover().devices] == [("mi210", 1)]


@pytest.mark.parametrize("pci_id", ["1002:515e", "1002:4752", "1002:164e"])
def test_displays_of_amd_are_no_accelerators(recording: Make, pci_id: str) -> None:
    """BMCs and processors have graphics of this vendor."""
    host = recording("")
    card(host, "0000:03:00.0", pci_id)
    host.file(f"{PCI}/0000:03:00.0/class", "0x030000\n")

    assert host.discover().devices == ()


def test_a_gpu_whose_driver_is_not_loaded_is_listed(recording: Make) -> None:
    """No KFD, no DRM, a tool that fails: the card is there, health unknown, the source broken."""
    host = recording("")
    card(host, "0000:03:00.0")
    host.removed(f"{PCI}/0000:03:00.0/driver")
    host.answers(LIST, "", exit=255, stderr="amdgpu driver is not loaded")
    inventory = host.discover()

    assert source(inventory, "amd-smi").state == "broken"
    assert at(inventory, "0000:03:00.0").files == ()
    assert "no driver is bound" in at(inventory, "0000:03:00.0").health.reasons[0]


def test_a_tool_without_its_cards_is_just_absent(recording: Make) -> None:
    """rocm-smi on every node of a site, also where NVIDIA's cards are."""
    host = recording("t4x4").answers(ALL, "ERROR: no AMD GPUs found", exit=1)
    host.answers(LIST, "", exit=255, stderr="No GPUs detected")

    assert not host.discover().broken_sources


TEXT = """\
CPU: 0
    SMU:
        FW_VERSION: 1.2.3

GPU: 0
    ASIC:
        MARKET_NAME: MI300A
        VENDOR_ID: 0x1002
        DEVICE_ID: 0x74a0
        ASIC_SERIAL: 0x1122334455667788
    BUS:
        BDF: 0002:01:00.0
    BOARD:
        PRODUCT_SERIAL: N/A
    VRAM:
        SIZE: 65536 MB
    NUMA:
        NODE: 2
        AFFINITY: 4294967295
"""


@pytest.mark.parametrize("indent", [True, False])
def test_amd_smi_as_text(recording: Make, indent: bool) -> None:
    """Processors before the GPUs are none; some releases do not indent the parts."""
    text = TEXT if indent else "\n".join(line.removeprefix("    ") for line in TEXT.splitlines())
    (gpu,) = recording("").answers(STATIC, text).discover().devices

    assert (gpu.model, gpu.pci, gpu.profile) == ("MI300A", "0002:01:00.0", "mi300a")
    assert (gpu.serial, gpu.memory_mib, gpu.numa_node) == ("0x1122334455667788", 65536, 2)


@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: {"gpu_data": v}, lambda v: [*v]])
def test_amd_smi_in_an_object_or_a_list(wrap: Callable[[object], object]) -> None:
    """Release 7 has the list inside ``gpu_data``."""
    value = [{"gpu": 3, "vram": {"size": {"value": 64, "unit": "MB"}}, "asic": {"oam_id": "N/A"}}]
    (part,) = amd_smi_text.parse(json.dumps(wrap(value))).parts

    assert (part.gpu, part.get("vram", "size"), part.get("asic", "oam_id")) == (3, "64 MB", None)


def test_both_layouts_of_the_links() -> None:
    """``link_type: {gpu_1: XGMI}`` in older releases, a list of links in newer ones."""
    from hpcmgr.discovery.amd_smi import _links

    old = [{"gpu": 0, "link_type": {"gpu_0": "SELF", "gpu_1": "XGMI"}}]
    new = [{"gpu": 0, "links": [{"gpu": 0, "link_type": "SELF"}, {"gpu": 1, "link_type": "XGMI"}]}]
    found = []
    for value in (old, new):
        (part,) = amd_smi_text.parse(json.dumps(value)).parts
        found.append([(x.a, x.b, x.kind, x.direct) for x in _links({0: {"topology": part}})])

    assert found == [[("0", "1", "XGMI", True)]] * 2


@pytest.mark.parametrize(
    ("card_values", "model", "device"),
    [
        ({"card series": "0x1002", "card model": "0x1002", "gpu id": "0x73df"}, None, "73df"),
        ({"card series": "Vega 20", "gpu id": "0x66af"}, "Vega 20", "66af"),
        ({"card series": "X", "card model": "0x6601", "gpu id": "0x73df"}, "X", "73df"),
        ({"card series": "X", "card model": "0x7408", "guid": "58294"}, "X", "7408"),
        ({"card model": "0xc1e"}, None, None),
        ({"device name": "N/A", "device id": "N/A", "guid": "6834"}, None, None),
    ],
)
def test_keys_of_rocm_smi_change_their_meaning(
    card_values: dict[str, str], model: str | None, device: str | None
) -> None:
    """An id is no name, and a subsystem's id is no device's."""
    assert rocm_smi_text.model(card_values) == model
    assert rocm_smi_text.device_id(card_values) == device


TABLE = """\
======================= ROCm System Management Interface =======================
================================= Concise Info =================================
Device  Node  IDs              Temp        Power     Partitions          SCLK
              (DID,     GUID)  (Junction)  (Socket)  (Mem, Compute, ID)
================================================================================
0       1     0x74a1,   43178  45.0°C      173.0W    NPS1, SPX, 0        132Mhz
1       2     0x74a1,   10233  41.0°C      179.0W    NPS1, SPX, 0        132Mhz
================================================================================
============================= End of ROCm SMI Log ==============================
"""


def test_a_table_with_ids() -> None:
    """Newer tables have no names, but the ids of device and driver."""
    cards = rocm_smi_text.parse(TABLE).cards

    assert {n: (c["device id"], c["guid"], c["node id"]) for n, c in cards.items()} == {
        0: ("0x74a1", "43178", "1"),
        1: ("0x74a1", "10233", "2"),
    }


HYGON = """\
============================ System Management Interface =============================
======================================================================================
DCU     Temp     AvgPwr     Perf     PwrCap     VRAM%      DCU%      Mode
0       49.0C    25.0W      auto     300.0W     0%         0%        N/A
1       48.0C    24.0W      auto     300.0W     0%         0%        Normal
======================================================================================
=================================== End of SMI Log ===================================
"""


@pytest.fixture(name="hygon")
def _hygon(recording: Make) -> Recording:
    """Two K100_AI whose tool is called hy-smi and rocm-smi."""
    host = recording("").answers(("hy-smi",), HYGON).answers(ALL, HYGON)
    for number, pci in enumerate(("0000:07:00.0", "0000:0a:00.0")):
        card(host, pci, "1d94:6211")
        drm(host, f"card{number + 1}", pci)
        drm(host, f"renderD{128 + number}", pci)
        host.file(f"{PCI}/{pci}/mem_info_vram_total", str(65520 << 20))
        gpu_node(host, 4 - number, int(pci[5:7], 16) << 8, 128 + number, vendor_id=0x1D94,
                 device_id=0x6211, unique_id=0x7100F95CEE823041 + number)  # fmt: skip
    return host


def test_hygons_cards_are_known_by_the_kernel(hygon: Recording) -> None:
    """Their tool tells nothing of them; KFD and sysfs do. They are dcu in Slurm."""
    inventory = hygon.discover()

    assert [(d.vendor, d.pci, d.index, d.profile) for d in inventory.devices] == [
        ("hygon", "0000:07:00.0", 1, "k100-ai"),
        ("hygon", "0000:0a:00.0", 0, "k100-ai"),
    ]
    assert inventory.devices[0].files == ("/dev/dri/card1", "/dev/dri/renderD128")
    assert inventory.devices[0].uuid == "GPU-7100f95cee823041"
    assert inventory.devices[0].memory_mib == 65520
    assert [report.name for report in inventory.broken_sources] == ["cpu"]
    assert source(inventory, "rocm-smi").state == "absent"


def test_a_row_less_is_a_lost_card(hygon: Recording) -> None:
    """hy-smi names no card, but it must have a row for each."""
    rows = [line for line in HYGON.splitlines() if not line.startswith("1 ")]
    inventory = hygon.answers(("hy-smi",), "\n".join(rows)).discover()

    assert source(inventory, "hy-smi").state == "broken"
    assert len(inventory.devices) == 2


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("9fff74b9-0000-1000-8044-4a2fb30adeb0", 0x9F444A2FB30ADEB0),
        ("0x9F444A2FB30ADEB0", 0x9F444A2FB30ADEB0),
        ("GPU-9f444a2fb30adeb0", 0x9F444A2FB30ADEB0),
        ("9f444a2fb30adeb0", 0x9F444A2FB30ADEB0),
        ("0x6140a6a061f0666", 0x6140A6A061F0666),
        ("GPU-5c1f0e66-21d4-1f7c-93f2-58d6c1b0a9e4", None),
        ("01P0-HL2080A0-15", None),
        ("", None),
    ],
)
def test_one_number_in_all_its_spellings(text: str, number: int | None) -> None:
    """And nothing else is taken for it."""
    assert amd_ids.unique_of(text) == number
    if number and text.startswith("9fff"):
        assert amd_ids.uuid_of(number, 0x74B9) == text


@pytest.fixture(name="tree")
def _tree(corpus: Path, tmp_path: Path, recording: Make) -> Callable[[str], Recording]:
    """A host of which only the driver's tree was kept."""

    def make(name: str) -> Recording:
        host = recording("")
        with tarfile.open(corpus.parent / f"hosts/sysfs/{name}.tar.gz") as archive:
            archive.extractall(tmp_path / "tar", filter="tar")
        (nodes,) = (tmp_path / "tar").rglob("nodes")
        shutil.copytree(nodes, host.folder / NODES.lstrip("/"))
        return host

    return make


def test_eight_mi210_in_two_islands(tree: Callable[[str], Recording]) -> None:
    """Order of the nodes is not the order of the bus; XGMI inside of an island, else PCIe."""
    inventory = tree("topo-mi210-xgmi-pcie").discover()
    by_index = {d.index: d for d in inventory.devices}

    assert [by_index[n].pci for n in range(4)] == [
        "0000:63:00.0", "0000:43:00.0", "0000:03:00.0", "0000:26:00.0",
    ]  # fmt: skip
    assert by_index[0].files == ("/dev/dri/renderD128",)
    assert [link.kind for link in inventory.links].count("XGMI") == 12
    assert [link.kind for link in inventory.links].count("PCIE") == 16


def test_the_partitions_of_eight_mi300x(tree: Callable[[str], Recording]) -> None:
    """Eight addresses with eight chips each (the last one was not kept); unknown memory, so no
    profile is sure."""
    devices = tree("topo-mi300-cpx").discover().devices
    places = sorted({d.pci or "" for d in devices})

    assert len(places) == 8
    assert [(d.pci, d.chip) for d in devices] == [(p, n) for p in places for n in range(8)][:63]
    assert sorted(d.index for d in devices if d.index is not None) == list(range(63))
    assert len({d.files for d in devices}) == 63
    assert {d.profile for d in devices} == {None}


def test_six_partitions_of_each_mi300a_as_hwloc_counts(corpus: Path, recording: Make) -> None:
    """hwloc sees 24 devices below four PCI functions; the same shape gives 24 here."""
    root = ElementTree.parse(corpus.parent / "hosts/hwloc/tuo.CPX.xml").getroot()
    parents = [
        (device.get("pci_busid", ""), len(device.findall("./object[@subtype='RSMI']")))
        for device in root.iter("object")
        if device.get("type") == "PCIDev" and "[1002:74a0]" in device.get("pci_type", "")
    ]
    host = recording("")
    node = 4
    for pci, count in parents:
        card(host, pci, "1002:74a0")
        for part in range(count):
            bank = f"heap_type 1\nsize_in_bytes {21845 << 20}\n"
            host.file(f"{NODES}/{node}/mem_banks/0/properties", bank)
            gpu_node(host, node, (int(pci[5:7], 16) << 8) + part, 124 + node,
                     device_id=0x74A0, domain=int(pci[:4], 16))  # fmt: skip
            node += 1
    devices = host.discover().devices

    assert [count for _, count in parents] == [6, 6, 6, 6]
    assert len(devices) == 24
    assert {d.pci for d in devices} == {pci for pci, _ in parents}
    assert {d.profile for d in devices} == {"mi300a-cpx"}


def test_a_masked_recording_has_one_number_in_all_spellings(recording: Make) -> None:
    """Else every AMD machine would get conflicts by masking; nothing of the original is left."""
    from datetime import date

    from hpcmgr.discovery import RecordedHost
    from hpcmgr.discovery.anonymize import anonymized
    from hpcmgr.discovery.recorder import files, record
    from tests.unit.discovery.conftest import LIBRARY

    before = record(RecordedHost(recording("mi300x8").folder), LIBRARY, date(2026, 3, 9))
    masked = anonymized(before, LIBRARY)
    told = "\n".join(
        f"{path}\n{entry.decode() if isinstance(entry, bytes) else entry}"
        for path, entry in files(masked).items()
    ).casefold()

    assert not any(d.conflicts for d in masked.inventory.devices)
    for device in before.inventory.devices:
        unique = amd_ids.unique_of(device.uuid or "")
        assert unique
        assert device.serial
        for secret in (device.uuid, device.serial, f"{unique:016x}", str(unique)):
            assert secret.casefold() not in told  # type: ignore[union-attr]
