"""What the doctor finds on recorded hosts that were broken as machines break."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmgr.cli import run
from hpcmgr.discovery import RecordedHost, discover
from hpcmgr.doctor import Report, examine
from hpcmgr.doctor.finding import Layer
from tests.unit.discovery.conftest import LIBRARY, Recording

Copy = Callable[[str], Recording]


@pytest.fixture(name="copy")
def _copy(hosts: Path, tmp_path: Path) -> Copy:
    """``copy("mixed")``: that recorded host, to be changed."""
    return lambda name: Recording(Path(shutil.copytree(hosts / name, tmp_path / name)))


def look(recording: Recording) -> Report:
    """The doctor's report on it."""
    host = RecordedHost(recording.folder)
    return examine(host, discover(host, LIBRARY), LIBRARY, None, "", None)


def told(report: Report, rule: str) -> list[tuple[str, str]]:
    """Severity and text of one rule's findings."""
    return [(f.severity.value, f.text) for f in report.findings if f.rule == rule]


def test_a_good_host_has_no_error(copy: Copy) -> None:
    """What does not apply is said, and the versions are listed."""
    report = look(copy("a100x8"))

    assert report.exit_code == 0
    assert [f.rule for f in report.findings] == ["no-runtime"]
    assert ("nvidia", "driver", "535.183.06") in [
        (s.vendor, s.what, s.version) for s in report.software
    ]
    assert "recorded host" in report.skipped[0]


def test_a_toolkit_that_the_driver_cannot_serve_is_an_error(copy: Copy) -> None:
    """Every toolkit on the host is looked at; one of the driver's generation is a warning."""
    host = copy("a100x8")
    host.file("/usr/local/cuda-13.0/version.json", '{"cuda": {"version": "13.0.1"}}')
    host.file("/usr/local/cuda-12.4/version.json", '{"cuda": {"version": "12.4.1"}}')
    host.file("/usr/local/cuda-10.2/version.txt", "CUDA Version 10.2.89\n")
    report = look(host)

    assert report.exit_code == 1
    assert [(s, t.partition(" (")[0], t.rpartition(": ")[2]) for s, t in told(report, "pair")] == [
        ("error", "CUDA toolkit 13.0.1", "needs NVIDIA driver 580 or newer"),
        ("warning", "CUDA toolkit 12.4.1", "needs NVIDIA driver 550.54.14 or newer"),
    ]


def test_a_driver_that_does_not_drive_the_model_is_an_error(copy: Copy) -> None:
    """The profile says from which on, and up to which."""
    host = copy("a100x8")
    for path in (host.folder / "commands").glob("*"):
        path.write_text(path.read_text().replace("535.183.06", "440.100"))

    assert told(look(host), "driver-model") == [
        ("error", "driver 440.100 does not drive NVIDIA A100 80GB: needs 450.51.05 or newer")
    ]


def test_versions_that_nobody_knows_are_never_good(copy: Copy) -> None:
    """A pair without a rule, and a file without a version."""
    host = copy("a100x8")
    host.file("/usr/local/cuda-99/version.json", '{"cuda": {"version": "99.0"}}')
    host.file("/usr/local/cuda-98/version.json", "[]")
    report = look(host)

    assert report.exit_code == 4
    pair = "CUDA toolkit 99.0 (/usr/local/cuda-99/version.json) and NVIDIA driver 535.183.06"
    assert told(report, "pair") == [("unknown", f"{pair}: unknown, no rule here names this pair")]


def test_cann_and_hdk(copy: Copy) -> None:
    """From the version.info files; a driver that is installed but not running waits for a boot."""
    host = copy("npu8")
    kit = "/usr/local/Ascend/ascend-toolkit/latest/aarch64-linux/ascend_toolkit_install.info"
    host.file(kit, "package_name=Ascend-cann-toolkit\nversion=8.5.0\n")
    host.file("/usr/local/Ascend/driver/version.info", "Version=25.5.1\nascendhal_version=7\n")
    host.file("/usr/local/Ascend/firmware/version.info", "Version=7.5.0.5.220\n")
    report = look(host)

    wanted = "needs Ascend HDK driver 25.0, 25.2, 25.3, 25.5"
    assert told(report, "pair") == [
        ("error", f"CANN 8.5.0 ({kit}) and Ascend HDK driver 24.1.0.3: {wanted}")
    ]
    assert told(report, "reboot-pending") == [
        ("warning", "driver 25.5.1 is installed, 24.1.0.3 is running")
    ]


def test_npu_smi_says_that_driver_and_firmware_do_not_fit(copy: Copy) -> None:
    """Its own word counts."""
    host = copy("npu8")
    path = next(host.folder.glob("commands/*board-i-3.txt"))
    path.write_text(path.read_text().replace(": OK", ": Incompatible"))

    assert told(look(host), "pair") == [(
        "error", "npu-smi says that driver and firmware of NPU 3 do not fit: Incompatible"
    )]  # fmt: skip


@pytest.mark.parametrize(
    ("module", "package", "rocm", "severity", "part"),
    [
        ("6.10.5", "1:6.10.5.60300-2084815.24.04", "6.3.0-39", "", ""),
        ("6.10.5", "1:6.10.5.60300-2084815.24.04", "5.7.1-98", "error", "needs ROCm 6.1, 6.2,"),
        ("6.10.5", "1:6.14.14.30100000-2204008.24.04", "7.2.0-38", "error", "driver 6.3: needs"),
        ("6.10.5", "", "6.3.0-39", "", ""),
        ("6.99.1", "", "6.3.0-39", "unknown", "release could not be read"),
        ("6.99.1", "1:6.10.5.60300-2084815.24.04", "6.3.0-39", "unknown", "could not be read"),
    ],
)
def test_rocm_and_the_amdgpu_package(
    copy: Copy, module: str, package: str, rocm: str, severity: str, part: str
) -> None:
    """The release is the package's, if the loaded module is; else that of a known module."""
    host = copy("mi300x8")
    host.file("/sys/module/amdgpu/version", f"{module}\n")
    host.file("/opt/rocm-9/.info/version", f"{rocm}\n")
    host.answers(("dpkg-query", "-W", "-f=${Version}", "amdgpu-dkms"), package)
    found = told(look(host), "pair")

    assert [s for s, _ in found] == ([severity] if severity else [])
    assert not found or part in found[0][1]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", "drain the node and reboot"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
         "modprobe nvidia"),
        ("Segmentation fault", "run it by hand"),
    ],
)  # fmt: skip
def test_a_broken_source_comes_with_what_to_do(copy: Copy, text: str, part: str) -> None:
    """By what it says."""
    host = copy("mixed").answers(("nvidia-smi", "-q", "-x"), text, 9)
    report = look(host)
    broken = [f for f in report.findings if f.rule == "source-broken"]

    assert report.exit_code == 1
    assert [f.subject for f in broken] == ["nvidia-smi"]
    assert part in broken[0].fix


def test_a_card_that_fell_off_the_bus(copy: Copy) -> None:
    """lspci shows revision ff."""
    host = copy("t4x4")
    places = [d.pci for d in discover(RecordedHost(host.folder), LIBRARY).devices]
    host.answers(("lspci", "-Dnn"), f"{places[1]} 3D controller [0302]: x [10de:1eb8] (rev ff)\n"
                 f"{places[2]} 3D controller [0302]: x [10de:1eb8] (rev a1)\n")  # fmt: skip
    report = look(host)

    assert [f.subject for f in report.findings if f.rule == "card-lost"] == [places[1]]
    assert report.exit_code == 1


def test_device_nodes_that_are_missing_or_closed(copy: Copy) -> None:
    """One's own node, a shared one, a mode."""
    host = copy("t4x4")
    dev = (host.folder / "dev.txt").read_text()
    dev = dev.replace("/dev/nvidia1 c 195 1 0666\n", "").replace("195 2 0666", "195 2 0660")
    dev = "".join(line for line in dev.splitlines(True) if "/dev/nvidiactl" not in line)
    (host.folder / "dev.txt").write_text(dev)
    report = look(host)

    assert told(report, "device-closed") == [("warning", "mode 0660: /dev/nvidia2")]
    texts = [text for _, text in told(report, "device-nodes")]
    assert len(texts) == 2
    assert "no device node is known" in texts[0]
    assert "/dev/nvidiactl does not exist" in texts


def test_a_device_without_profile(copy: Copy) -> None:
    """It is told with what to do, once for all that are alike."""
    host = copy("t4x4")
    inventory = discover(RecordedHost(host.folder), LIBRARY)
    bare = inventory.model_copy(
        update={"devices": tuple(d.model_copy(update={"profile": None, "numa_node": None})
                                 for d in inventory.devices)}
    )  # fmt: skip
    report = examine(RecordedHost(host.folder), bare, LIBRARY, None, "", None)

    assert [s for s, _ in told(report, "no-profile")] == ["warning"]
    assert [s for s, _ in told(report, "numa-unknown")] == ["note"]


def test_persistence_mode(copy: Copy) -> None:
    """A hint, no error."""
    host = copy("a100x8")
    path = host.folder / "commands" / "nvidia-smi-q-x.xml"
    path.write_text(
        path.read_text().replace("<persistence_mode>Enabled", "<persistence_mode>Disabled")
    )

    assert told(look(host), "persistence") == [("note", "persistence mode is off on 8 of 8 GPUs")]


def test_findings_begin_at_the_node(copy: Copy) -> None:
    """What is wrong below makes faults above."""
    host = copy("mixed").answers(("nvidia-smi", "-q", "-x"), "gone", 9)
    layers = [list(Layer).index(f.layer) for f in look(host).findings]

    assert layers == sorted(layers)


def test_the_command_prints_and_tells_by_its_exit_code(
    hosts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text and JSON have the same findings."""
    codes, outputs = [], []
    for more in ((), ("--json",)):
        with pytest.raises(SystemExit) as ended:
            run(["doctor", "--host", str(hosts / "npu8"), *more])
        codes.append(ended.value.code)
        outputs.append(capsys.readouterr().out)
    document = json.loads(outputs[1])

    assert codes == [0, 0]
    assert (document["schema"], document["node"]) == ("hpcmgr.doctor/1", "npu01")
    assert "node: warning: mode 0660: /dev/davinci4" in outputs[0]
    assert [f["rule"] for f in document["findings"]] == ["device-closed", "no-runtime"]
