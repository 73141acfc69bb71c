"""What a recording holds: the machine's own tree, and under masks nobody's name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcmgr.discovery import Host, RecordedHost, discover
from hpcmgr.discovery.anonymize import anonymized
from hpcmgr.discovery.masks import Masks
from hpcmgr.discovery.questions import HL_SMI_FIELDS
from hpcmgr.discovery.recorded_files import Link, RecordedFiles
from hpcmgr.discovery.recorder import Recording, differences, files, record
from tests.unit.discovery.brands import says
from tests.unit.discovery.conftest import LIBRARY
from tests.unit.discovery.conftest import Recording as Editable

Make = Callable[[str], Editable]
TODAY = date(2026, 3, 4)
UUID = "5b0c7e52-91d4-4f0a-8a3e-27d06c1f9b44"


def masked_by(*texts: str, hostname: str = "") -> list[str]:
    """The texts under one set of masks."""
    masks = Masks(hostname)
    for text in texts:
        masks.search(text)
    masks.number()
    return [masks.text(text) for text in texts]


@pytest.fixture(name="live")
def _live(recording: Make) -> RecordedHost:
    """The T4 host with sysfs as a kernel has it: devices below bridges, links everywhere."""
    host = recording("t4x4")
    sys = host.folder / "sys"
    real = sys / "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
    real.parent.mkdir(parents=True)
    (sys / "bus/pci/devices/0000:3b:00.0").rename(real)
    (sys / "bus/pci/devices/0000:3b:00.0").symlink_to(
        "../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
    )
    (real / "driver").unlink()
    (real / "driver").symlink_to("../../../../bus/pci/drivers/nvidia")
    # A virtual function of that GPU, and a NIC behind virtio.
    function = real.parent / "0000:3b:00.4"
    function.mkdir()
    for name, text in (("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x1eb8")):
        (function / name).write_text(f"{text}\n")
    (function / "physfn").symlink_to("../0000:3b:00.0")
    (sys / "bus/pci/devices/0000:3b:00.4").symlink_to(
        "../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.4"
    )
    nic = sys / "devices/pci0000:00/0000:00:03.0/virtio0/net/ens3"
    nic.mkdir(parents=True)
    (nic / "device").symlink_to("../../../virtio0")
    (nic / "operstate").write_text("up\n")
    (sys / "class/net/ens3").symlink_to("../../devices/pci0000:00/0000:00:03.0/virtio0/net/ens3")
    return RecordedHost(host.folder)


def replayed(recording: Recording) -> Host:
    """The recording as a host."""
    name = Path("replayed")
    return RecordedHost(name, RecordedFiles(name, files(recording)))


def test_links_and_bridges_stay_as_on_the_machine(live: RecordedHost) -> None:
    """A device lies below its bridge; its place in /sys/bus is a link to it."""
    recorded = record(live, LIBRARY, TODAY)
    entries = files(recorded)

    assert entries["sys/bus/pci/devices/0000:3b:00.0"] == Link(
        "../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
    )
    assert entries["sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/vendor"] == b"0x10de\n"
    assert entries["sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/driver"] == Link(
        "../../../../bus/pci/drivers/nvidia"
    )
    assert differences(recorded, LIBRARY) == ()
    assert discover(replayed(recorded), LIBRARY) == discover(live, LIBRARY)


def test_a_virtual_function_stays_one(live: RecordedHost) -> None:
    """Its link to the physical function need not lead anywhere in the recording."""
    recorded = record(live, LIBRARY, TODAY)

    assert len(recorded.inventory.devices) == 4
    assert len(discover(replayed(recorded), LIBRARY).devices) == 4


def test_a_nic_behind_virtio_has_the_address_of_its_function(live: RecordedHost) -> None:
    """Its device is ``virtio0``; the way to it names the PCI function."""
    nics = {nic.name: nic for nic in record(live, LIBRARY, TODAY).inventory.nics}

    assert nics["ens3"].pci == "0000:00:03.0"


def test_a_recording_can_be_recorded_again(live: RecordedHost) -> None:
    """The second is the first, byte by byte."""
    first = record(live, LIBRARY, TODAY)
    second = record(replayed(first), LIBRARY, TODAY)

    assert files(second) == files(first)


def test_names_that_were_only_listed_stay(recording: Make) -> None:
    """A machine with no interface but lo has interfaces in sysfs, and so has its recording."""
    host = recording("").file("/sys/class/net/lo/operstate", "unknown\n")
    recorded = record(RecordedHost(host.folder), LIBRARY, TODAY)

    assert files(recorded)["sys/class/net/lo"] is None
    assert replayed(recorded).listdir("/sys/class/net") == ("lo",)
    assert differences(recorded, LIBRARY) == ()


def test_what_a_recording_lacks_is_noticed(recording: Make) -> None:
    """The check behind every recording can fail."""
    recorded = record(RecordedHost(recording("mixed").folder), LIBRARY, TODAY)
    tree = {path: e for path, e in recorded.tree.items() if "0000:c1:00.0/numa_node" not in path}
    commands = {argv: r for argv, r in recorded.commands.items() if argv[0] != "nvidia-smi"}

    assert differences(recorded, LIBRARY) == ()
    assert "devices" in differences(replace(recorded, tree=tree), LIBRARY)
    assert "sources" in differences(replace(recorded, commands=commands), LIBRARY)


DMESG = f"""\
[    0.00] Command line: root=UUID={UUID} ro
[    1.10] usb 1-1: SerialNumber: 4C530001230912117364
[    2.20] mlx5_core 0000:18:00.0: node guid 0c42:a103:0065:1f2e, mac 0c:42:a1:65:1f:2e
[    3.30] nfs: server storage7.site.example not responding
[    4.40] NVRM: Xid (PCI:0000:17:00): 31, pid=4711, name=secret_model, Ch 00000008
[    5.50] mix01.site.example kernel: pci 0000:17:00.0: at 10.20.30.40, 0x0c42a10300651f2e
"""
AMD = json.dumps({"card0": {"Unique ID": "0x7d7b10ab12cd34ef", "Serial Number": "PCB052312-0042",
                            "Card series": "Vega 20", "GPU ID": "0x66af", "GUID": "55069"},
                  "system": {"PID2041": "secret_model, 1, 8192"}})  # fmt: skip
EFSMI = """\
| DEV    NAME                | FW VER          | BUS-ID      ECC           |
| TEMP   Dpm   Pwr(Usage/Cap)| Mem     GCU Virt| DUsed       SN            |
| 0      S60                 | 33.6.2          | 00:01:00.0  Disable       |
| 39 C   Sleep    105W  300W | 49120MiB Disable|   0.0%      D123456789012 |
"""
SECRETS = (
    *(
        UUID,
        "4C530001230912117364",
        "0c42:a103:0065:1f2e",
        "0c:42:a1:65:1f:2e",
        "mix01",
        "storage7",
    ),
    *("secret_model", "site.example", "10.20.30.40", "0c42a10300651f2e", "7d7b10ab12cd34ef"),
    *("PCB052312-0042", "D123456789012", "AN42030217", "01P0-HL2000A0-14-P63W57-18-04-07"),
    *("/home/alice", "a1b2c3d4e5f6", "531e7660f021a0d4", "0c42a1651f2e"),
)


@pytest.fixture(name="chatty")
def _chatty(recording: Make) -> Editable:
    """The mixed host with tools that tell a lot about it, its site and its users."""
    host = recording("mixed")
    xml = host.text("nvidia-smi", "-q", "-x")
    process = (
        "<processes><process_info><pid>4711</pid><process_name>/home/alice/secret_model"
        "</process_name></process_info></processes>\n\t\t<pdi>0x531e7660f021a0d4</pdi>\n\t</gpu>"
    )
    host.answers(("nvidia-smi", "-q", "-x"), xml.replace("</gpu>", process))
    host.answers(("dmesg",), DMESG).answers(("rocm-smi", "--showallinfo", "--json"), AMD)
    host.answers(("efsmi",), EFSMI)
    host.answers(
        ("hl-smi", "-Q", HL_SMI_FIELDS, "-f", "csv,noheader"),
        "0, 2, AN42030217, 01P0-HL2000A0-14-P63W57-18-04-07, 0000:33:00.0, HL-225, 98304, 1.15.1\n",
    )
    table = host.text("npu-smi", "info")
    table += "| NPU     Chip              | Process id    | Process name             |\n"
    table += "| 4       0                 | 5143          | secret_model             |\n"
    host.answers(("npu-smi", "info"), table)
    host.file("/sys/class/net/enxa1b2c3d4e5f6/device", "../../../0000:00:14.0\n")
    host.file("/sys/class/net/enx0c42a1651f2e/device", "../../../0000:00:14.1\n")
    return Editable(host.folder)._store(host._commands())


def test_masks_reach_every_tool(chatty: Editable) -> None:
    """Serials, uuids, MACs, GUIDs, names of hosts and programs are gone; devices are the same."""
    chatty.file(
        "host.yaml",
        (chatty.folder / "host.yaml").read_text().replace("hostname: changed", "hostname: mix01"),
    )
    before = record(RecordedHost(chatty.folder), LIBRARY, TODAY)
    after = anonymized(before, LIBRARY)
    told = "\n".join(
        f"{path}\n{entry.decode() if isinstance(entry, bytes) else entry}"
        for path, entry in files(after).items()
    )

    assert [value for value in SECRETS if value.casefold() in told.casefold()] == []
    assert [d.pci for d in after.inventory.devices] == [d.pci for d in before.inventory.devices]
    for kept in ("Vega 20", "0x66af", "55069", "0000:33:00.0", "HL-225", "98304", "1.15.1",
                 "49120MiB", "Xid (PCI:0000:17:00): 31", "NVIDIA A100-SXM4-80GB"):  # fmt: skip
        assert kept in told


def test_equal_values_get_equal_masks_in_all_tools() -> None:
    """Whoever prints a value, in capitals or not, with colons or dashes or none."""
    mac, guid, serial = masked_by(
        "0c:42:a1:65:1f:2e 0C-42-A1-65-1F-2E enx0c42a1651f2e 0c:42:a1:65:1f:2f",
        "0xB6AE7C8CEFE1F084 0xb6ae7c8cefe1f084",
        "<serial>1560922014733</serial>\nSerial Number : 1560922014733\n1560922014733x",
    )

    assert mac == "02:00:00:00:00:01 02-00-00-00-00-01 enx020000000001 02:00:00:00:00:02"
    assert guid == "0x0000000000000001 0x0000000000000001"
    assert serial == "<serial>0000000000001</serial>\nSerial Number : 0000000000001\n1560922014733x"


@pytest.mark.parametrize(
    "text",
    [
        "0000:3b:00.0 00000000:3B:00.0 10000:01:00.0",
        "0-15,32-47 Serial Number : N/A",
        "UUID: 00000000-0000-0000-0000-000000000000",
        "00:00:00:00:00:00",
        "0x20B210DE 0x4e00 v1.2.3 24.1.0.3",
        "<serial>N/A</serial><board_id>0x600</board_id>",
        '"Serial Number": "", "GUID": "55069"',
        "Model: A100-SXM4-80GB SN",
    ],
)
def test_what_names_no_machine_stays(text: str) -> None:
    """Addresses, models, versions, and values that say that there is none."""
    assert masked_by(text, hostname="n1") == [text]


def test_names_of_the_host_go_with_their_domain() -> None:
    """Whole words only."""
    (text,) = masked_by("n1: up, n1.site.example: up, n12 and n1-ib stay", hostname="n1")

    assert text == "node1: up, node1: up, n12 and n1-ib stay"


@settings(max_examples=200)
@given(
    st.lists(st.text("ABCDEF0123456789-", min_size=8, max_size=24), unique=True, max_size=8),
    st.text(max_size=80),
)
def test_any_serials(serials: list[str], other: str) -> None:
    """Different values stay different, lengths stay, and no text makes masking fail."""
    masks = Masks()
    values = [v for v in serials if v.strip("-") == v and any(c in "123456789" for c in v)]
    for value in values:
        masks.search(f"Serial Number : {value}\n")
    masks.search(other)
    masks.number()
    masked = [masks.text(value) for value in values]

    assert len(set(masked)) == len(values)
    assert [len(value) for value in masked] == [len(value) for value in values]
    masks.text(other)


@pytest.mark.parametrize(
    "names",
    [
        ("cnmon.txt", "cnmon-info.txt"),
        ("mx-smi.txt", "mx-smi-topo-n.txt"),
        ("ixsmi.txt",),
        ("mthreads-gmi.txt", "mthreads-gmi-q.txt"),
        ("efsmi.txt",),
        ("xpu_smi.txt",),
        ("xpu-smi.txt", "xpu-smi-q.txt"),
        ("neuron-ls-procs.txt",),
        ("neuron-ls.json",),
        ("furiosa-smi-info.json",),
        ("rbln-smi.json",),
        ("rbln-stat.txt",),
    ],
)
def test_other_brands_are_masked_too(recording: Make, names: tuple[str, ...]) -> None:
    """Their serials and uuids, and what runs on them; the devices are the same."""
    host = RecordedHost(says(recording(""), *names).folder)
    before = record(host, LIBRARY, TODAY)
    after = anonymized(before, LIBRARY)
    text = "".join(result.stdout for result in after.commands.values())
    values = {value for d in before.inventory.devices for value in (d.serial, d.uuid) if value}

    assert before.inventory.devices
    assert not [value for value in values if value in text]
    assert not re.search("python|train[.]py|serve[.]py|neuron-bench", text)
