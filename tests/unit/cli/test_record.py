"""``hpcmgr record``: a recording gives what the machine gave, and is written whole or not."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from hpcmgr.cli import run
from hpcmgr.discovery import cpu_topology, discover, open_host, recorder, source
from hpcmgr.discovery.questions import QUESTIONS
from hpcmgr.inventory import NodeInventory
from hpcmgr.profile import load_library

HOSTS = ("a100x8", "arc4", "cpu01", "gaudi8", "mi300x8", "mixed", "npu8", "t4x4")
LIBRARY = load_library()
Tools = Callable[[str, str], Path]


def record(*args: str | Path) -> int:
    """Run the command and give its exit code."""
    with pytest.raises(SystemExit) as ended:
        run(["record", *map(str, args)])
    return int(ended.value.code or 0)


def inventory(place: Path) -> NodeInventory:
    """What is discovered there."""
    return discover(open_host(place), LIBRARY)


def contents(place: Path) -> Iterator[tuple[str, str]]:
    """Every file of a recording by name, links with their target."""
    if place.is_file():
        with tarfile.open(place) as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isfile() else None
                yield member.name, file.read().decode() if file else member.linkname
        return
    for path in sorted(place.rglob("*")):
        if path.is_symlink():
            yield str(path.relative_to(place)), str(path.readlink())
        elif path.is_file():
            yield str(path.relative_to(place)), path.read_text()


@pytest.fixture(name="tool")
def _tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    """``tool("hl-smi", "echo 1")``: an installed program; no other vendor's tool is."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def install(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return install


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("suffix", ["", ".tar.gz"])
def test_a_recording_of_a_host_is_that_host(
    name: str, suffix: str, hosts: Path, tmp_path: Path
) -> None:
    """Folder or archive: the inventory is the same to the last byte."""
    place = tmp_path / f"copy{suffix}"

    assert record("--host", hosts / name, "-o", place) == 0
    assert inventory(place).to_json() == inventory(hosts / name).to_json()


@pytest.mark.parametrize("name", HOSTS)
def test_a_masked_recording_is_the_same_machine(name: str, hosts: Path, tmp_path: Path) -> None:
    """Devices, links and places are equal; serials and uuids are others, or still none."""
    place = tmp_path / "masked.tar.gz"
    assert record("--host", hosts / name, "-o", place, "--anonymize") == 0
    before, after = inventory(hosts / name), inventory(place)
    hidden = {"uuid": None, "serial": None}

    assert after.node != before.node
    assert after.cpu == before.cpu
    assert after.links == before.links
    assert after.nics == before.nics
    assert [device.model_copy(update=hidden) for device in after.devices] == [
        device.model_copy(update=hidden) for device in before.devices
    ]
    for old, new in zip(before.devices, after.devices, strict=True):
        assert (old.serial is None, old.uuid is None) == (new.serial is None, new.uuid is None)
    told = [d.serial for d in after.devices if d.serial] + [d.uuid for d in after.devices if d.uuid]
    assert len(set(told)) == len(told)


@pytest.mark.parametrize("name", HOSTS)
def test_nothing_of_the_original_is_left_in_a_masked_recording(
    name: str, hosts: Path, tmp_path: Path
) -> None:
    """No serial, no uuid, no host name, in no file and no file's name, however it was spelt."""
    place = tmp_path / "masked"
    assert record("--host", hosts / name, "-o", place, "--anonymize") == 0
    before = inventory(hosts / name)
    names = {before.node, *(v for d in before.devices for v in (d.serial, d.uuid) if v)}
    # What the files say beyond the inventory: every uuid, and what stands beside "Serial".
    original = "\n".join(text for _, text in contents(hosts / name))
    names |= set(re.findall(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", original))
    names |= set(re.findall(r"Serial Number\s*: (\S{6,})", original))
    left = [
        (value, file)
        for file, text in contents(place)
        for value in names
        if value.casefold() in f"{file}\n{text}".casefold()
    ]

    assert left == []


def test_this_machine_is_recorded(tmp_path: Path, tool: Tools) -> None:
    """The live machine and its recording give the same, but for the libraries."""
    place = tmp_path / "live"
    assert record("-o", place) in (0, 4)
    live, recorded = inventory_of_this_machine(), inventory(place)

    assert recorded.cpu == live.cpu
    assert recorded.nics == live.nics
    assert [d.pci for d in recorded.devices] == [d.pci for d in live.devices]
    libraries = ("nvml", "amdsmi")
    assert [s for s in recorded.sources if s.name not in libraries] == [
        s for s in live.sources if s.name not in libraries
    ]


def inventory_of_this_machine() -> NodeInventory:
    """What is discovered live."""
    return discover(open_host(None), LIBRARY)


def test_every_question_of_the_table_is_asked(tmp_path: Path, tool: Tools) -> None:
    """Each tool that is installed is asked all that the table has; answers stand as printed."""
    for name in {argv[0] for argv in QUESTIONS} - {"nvidia-smi", "npu-smi"}:
        tool(name, f'echo "{name} was asked $*"; echo oops >&2')
    tool("nvidia-smi", "echo No devices were found; exit 6")
    place = tmp_path / "all"
    assert record("-o", place) == 0
    listed = yaml.safe_load((place / "host.yaml").read_text())["commands"]
    answers = {tuple(entry["argv"]): entry for entry in listed}

    assert set(answers) >= {argv for argv in QUESTIONS if argv[0] != "npu-smi"}
    assert ("npu-smi", "info") not in answers
    assert answers["nvidia-smi", "-L"]["exit"] == 6
    csv = place / answers["xpu-smi", "discovery", "-j"]["stdout"]
    assert csv.read_text() == "xpu-smi was asked discovery -j\n"
    assert Path(f"{csv}.stderr").read_text() == "oops\n"


def test_cards_are_asked_one_by_one(hosts: Path, tmp_path: Path, tool: Tools) -> None:
    """The NPUs that the tables name, the cards that cnmon names."""
    answers = hosts / "npu8/commands"
    script = f'case "$*" in info) cat {answers}/npu-smi-info.txt;; "info -m") cat {answers}'
    tool("npu-smi", f'{script}/npu-smi-info-m.txt;; *) echo "asked : $*";; esac')
    tool("cnmon", 'test "$1" != info || printf "Card 0\\n    Product Name : MLU370\\nCard 1\\n"')
    assert record("-o", tmp_path / "npu") in (0, 4)
    listed = yaml.safe_load((tmp_path / "npu/host.yaml").read_text())["commands"]
    asked = {" ".join(entry["argv"]) for entry in listed}

    for detail in ("board", "health", "usages", "memory"):
        assert {f"npu-smi info -t {detail} -i {n}" for n in range(8)} <= asked
        assert {f"npu-smi info -t {detail} -i {n} -c 0" for n in range(8)} <= asked
    assert {"cnmon info -c 0", "cnmon info -c 1"} <= asked


def test_a_tool_that_hangs_is_recorded_so_and_waited_for_once(
    tmp_path: Path,
    tool: Tools,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its other questions are taken for hung, too; the exit code says that something is missing."""
    tool("hl-smi", f"echo started >> {tmp_path}/started; sleep 60")
    for module in (source, recorder):
        monkeypatch.setattr(module, "TOOL_TIMEOUT", 0.5)

    assert record("-o", tmp_path / "hung") == 4
    listed = yaml.safe_load((tmp_path / "hung/host.yaml").read_text())["commands"]
    assert [e["timed_out"] for e in listed if e["argv"][0] == "hl-smi"] == [True, True]
    assert (tmp_path / "started").read_text() == "started\n"
    assert "hl-smi: no answer in time" in capsys.readouterr().err
    assert open_host(tmp_path / "hung").run(["hl-smi"], 1).state == "timed_out"


def test_a_tool_that_does_not_start_is_recorded_so(tmp_path: Path, tool: Tools) -> None:
    """A file that is no program has no exit status."""
    tool("rbln-stat", "").write_bytes(b"\x7fELF rubbish")
    assert record("-o", tmp_path / "odd") == 0
    result = open_host(tmp_path / "odd").run(["rbln-stat", "-j"], 1)

    assert (result.state, result.exit) == ("done", None)


@pytest.mark.parametrize(
    ("taken", "why"),
    [
        ("folder", "is not empty"),
        ("file.tar.gz", "exists already"),
        ("missing/folder", "there is no folder"),
    ],
)
def test_nothing_is_ever_written_over(
    taken: str, why: str, hosts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that is not empty, a file, a place without its folder: refused with the reason."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/mine").write_text("mine")
    (tmp_path / "file.tar.gz").write_text("mine")
    before = sorted(contents(tmp_path))

    assert record("--host", hosts / "t4x4", "-o", tmp_path / taken) == 1
    assert f"{tmp_path / taken}: {why}" in capsys.readouterr().err
    assert sorted(contents(tmp_path)) == before


def test_a_place_that_is_taken_meanwhile_is_left_alone(tmp_path: Path, tool: Tools) -> None:
    """Recording takes its time; somebody else may be quicker."""
    out = tmp_path / "out"
    out.mkdir()
    tool("hl-smi", f"echo mine > {out}/host.tar.gz")

    assert record("-o", out / "host.tar.gz") == 1
    assert (out / "host.tar.gz").read_text() == "mine\n"
    assert [path.name for path in out.iterdir()] == ["host.tar.gz"]


def test_an_empty_folder_may_be_used(hosts: Path, tmp_path: Path) -> None:
    """It keeps its own permissions; a new one is for its owner alone."""
    (tmp_path / "empty").mkdir(mode=0o755)

    assert record("--host", hosts / "t4x4", "-o", tmp_path / "empty") == 0
    assert record("--host", hosts / "t4x4", "-o", tmp_path / "new") == 0
    assert record("--host", hosts / "t4x4", "-o", tmp_path / "new.tar.gz") == 0
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("empty", "new", "new.tar.gz")]
    assert modes == [0o755, 0o700, 0o600]


def test_a_failed_write_leaves_nothing(
    hosts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No half folder, no half archive, no hidden rest."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    for name in ("out", "out.tar.gz"):
        assert record("--host", hosts / "t4x4", "-o", tmp_path / name) == 1
        assert "No space left" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_recording_leaves_nothing(tmp_path: Path, tool: Tools) -> None:
    """SIGTERM in the middle of a slow tool ends it like Ctrl-C."""
    tool("hl-smi", f"touch {tmp_path}/started; exec sleep 20")
    out = tmp_path / "out"
    out.mkdir()
    argv = [sys.executable, "-m", "hpcmgr", "record", "-o", str(out / "host")]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not (tmp_path / "started").exists():
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)

    assert (process.returncode, "Traceback" in err) == (130, False)
    assert list(out.iterdir()) == []


def test_the_default_place_is_named_after_the_host(
    hosts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """stdout names the file, so that a script can pass it on; a masked one has no name in it."""
    monkeypatch.chdir(tmp_path)
    assert record("--host", hosts / "t4x4") == 0
    assert record("--host", hosts / "t4x4", "--anonymize") == 0

    assert capsys.readouterr().out.split() == ["hpcmgr-t401.tar.gz", "hpcmgr-node1.tar.gz"]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "hpcmgr-node1.tar.gz",
        "hpcmgr-t401.tar.gz",
    ]


def test_files_that_are_closed_to_this_user_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may record; what only root can read is listed, in the recording, too."""
    closed = tmp_path / "closed"
    closed.write_text("secret")
    closed.chmod(0)
    collect = cpu_topology.collect
    monkeypatch.setattr(
        cpu_topology, "collect", lambda host: (host.read_text(str(closed)), collect(host))[1]
    )
    out, said = Path(f"/tmp/hpcmgr-record-test-{os.getpid()}.tar.gz"), tmp_path / "said"
    said.touch()
    for folder in (tmp_path, *tmp_path.parents[:3]):  # as many where several tests run at a time
        folder.chmod(folder.stat().st_mode | 0o055)
    assert record("-o", tmp_path / "first") == 4 or os.geteuid() == 0  # loads every module
    child = os.fork()
    if child == 0:
        code = 99
        try:
            sys.stderr = said.open("w")
            if os.geteuid() == 0:
                os.setuid(65534)
            code = record("-o", out)
        finally:
            sys.stderr.flush()
            os._exit(code)
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4, said.read_text()
        assert f"not readable for this user (root can): {closed}" in said.read_text()
        (head,) = [text for name, text in contents(out) if name.endswith("host.yaml")]
        assert yaml.safe_load(head)["unread"] == [str(closed)]
    finally:
        out.unlink(missing_ok=True)


def test_a_host_that_is_called_like_a_word_of_the_tools(
    hosts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A machine named gpu is masked without breaking the XML; what stays is told."""
    shutil.copytree(hosts / "t4x4", tmp_path / "gpu")
    head = (tmp_path / "gpu/host.yaml").read_text().replace("t401", "gpu")
    (tmp_path / "gpu/host.yaml").write_text(head)

    assert record("--host", tmp_path / "gpu", "-o", tmp_path / "out", "--anonymize") == 0
    assert "'gpu' is a word of the tools" in capsys.readouterr().err
    assert len(inventory(tmp_path / "out").devices) == 4
