"""Recordings that are wrong, hostile or incomplete."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmgr.discovery import RecordedHost
from hpcmgr.errors import HostError
from tests.unit.discovery.conftest import Recording

Make = Callable[[str], Recording]
HEAD = "schema: hpcmgr.host/1\nhostname: n1\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hostname: n1\n", "schema"),
        ("schema: hpcmgr.host/2\nhostname: n1\n", "host.yaml:1"),
        ("schema: hpcmgr.host/1\nhostname: ../../etc\n", "host.yaml:2"),
        (HEAD + "commands: [1]\n", "host.yaml:3"),
        (HEAD + "commands:\n- {argv: [], stdout: a}\n", "host.yaml:4"),
        (HEAD + "commands:\n- {argv: [x]}\n", "host.yaml:4"),
        (HEAD + "commands:\n- {argv: [x], stdout: ../../etc/passwd}\n", "host.yaml:4"),
        (HEAD + "commands:\n- {argv: [x], stdout: /etc/passwd}\n", "host.yaml:4"),
        (HEAD + "commands:\n- {argv: [x], stdout: missing.txt}\n", "host.yaml:4"),
        (HEAD + "commands: {\n", "no valid YAML"),
        ("\x00", "no valid YAML"),
        ("- 1\n", "host.yaml"),
    ],
)
def test_a_wrong_host_yaml_is_told_with_file_and_line(tmp_path: Path, text: str, said: str) -> None:
    """What is wrong, where, never a traceback."""
    (tmp_path / "host.yaml").write_text(text)
    with pytest.raises(HostError) as caught:
        RecordedHost(tmp_path)

    assert str(tmp_path) in caught.value.message
    assert said in caught.value.message


@pytest.mark.parametrize(
    "line", ["/dev/nvidia0", "/dev/x c 1 2 999", "nvidia0 c 195 0 0666", "/dev/x f 1 1 0644", "é"]
)
def test_a_wrong_line_of_dev_txt_is_told(recording: Make, line: str) -> None:
    """The line number points at it."""
    host = recording("mixed").file("dev.txt", f"/dev/null c 1 3 0666\n{line}\n")
    with pytest.raises(HostError, match=r"dev\.txt:2: "):
        host.discover()


def test_a_place_without_recording_is_told(tmp_path: Path) -> None:
    """No such place, no host.yaml in it, no archive."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no archive")
    (tmp_path / "cut.tar.gz").write_bytes(b"\x1f\x8b\x08\x00")
    for name in ("missing", "empty", "file", "cut.tar.gz"):
        with pytest.raises(HostError):
            RecordedHost(tmp_path / name)


def test_links_do_not_lead_out_of_the_folder(recording: Make, tmp_path: Path) -> None:
    """Absolute targets and .. stay inside, as in a chroot."""
    (tmp_path / "secret").write_text("secret")
    host = recording("mixed")
    (host.folder / "etc").mkdir()
    (host.folder / "etc/up").symlink_to("../../../../../../../../etc/passwd")
    (host.folder / "etc/absolute").symlink_to("/etc/passwd")
    (host.folder / "etc/real").symlink_to(tmp_path / "secret")
    (host.folder / "etc/self").symlink_to("self")
    (host.folder / "etc/inside").symlink_to("/proc/meminfo")
    (host.folder / "outer").symlink_to(tmp_path)
    read = RecordedHost(host.folder).read_text

    assert read("/etc/up") is None
    assert read("/etc/absolute") is None
    assert read("/etc/real") is None
    assert read("/etc/self") is None
    assert read("/outer/secret") is None
    assert read("/../../secret") is None
    assert (read("/etc/inside") or "").startswith("MemTotal")


def test_pipes_and_devices_in_a_recording_are_not_opened(recording: Make) -> None:
    """Opening a pipe would wait for ever."""
    host = recording("mixed")
    os.mkfifo(host.folder / "proc/pipe")

    assert RecordedHost(host.folder).read_text("/proc/pipe") is None


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil"])
def test_an_archive_that_leads_outside_is_refused(tmp_path: Path, name: str) -> None:
    """Nothing of it is unpacked either."""
    path = tmp_path / "host.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for entry, data in (("host.yaml", HEAD.encode()), (name, b"x")):
            info = tarfile.TarInfo(entry)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    with pytest.raises(HostError, match="leads outside"):
        RecordedHost(path)


def test_links_in_an_archive_stay_inside(tmp_path: Path) -> None:
    """A link to the machine's own files is read inside the archive, where there is none."""
    path = tmp_path / "host.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("host.yaml")
        info.size = len(HEAD)
        archive.addfile(info, io.BytesIO(HEAD.encode()))
        link = tarfile.TarInfo("proc/meminfo")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)

    assert RecordedHost(path).read_text("/proc/meminfo") is None


def test_a_command_that_is_not_listed_is_not_installed(recording: Make) -> None:
    """Only what was recorded is answered."""
    host = RecordedHost(recording("mixed").folder)

    assert host.run(["nvidia-smi", "--version"], 1).state == "absent"
    assert host.run(["nvidia-smi", "-L"], 1).state == "done"


def test_files_stand_for_links(recording: Make) -> None:
    """A plain file with a target and a real link read alike."""
    host = recording("mixed")
    place = host.folder / "sys/bus/pci/devices/0000:17:00.0/driver"
    target = place.read_text().strip()
    as_file = RecordedHost(host.folder).readlink("/sys/bus/pci/devices/0000:17:00.0/driver")
    place.unlink()
    place.symlink_to(target)

    assert RecordedHost(host.folder).readlink("/sys/bus/pci/devices/0000:17:00.0/driver") == target
    assert as_file == target


def test_numbers_without_quotes_and_tools_with_their_directory_are_understood(
    recording: Make,
) -> None:
    """People write host.yaml by hand, too."""
    host = recording("mixed")
    host.file("commands/a.txt", "answer")
    host.file(
        "host.yaml", HEAD + "commands:\n- {argv: [/usr/bin/smi, -i, 4], stdout: commands/a.txt}"
    )

    assert RecordedHost(host.folder).run(["smi", "-i", "4"], 1).stdout == "answer"


def test_hard_links_in_an_archive_are_files(recording: Make, tmp_path: Path) -> None:
    """tar stores equal files of a linked tree once."""
    host = recording("mixed")
    os.link(host.folder / "proc/meminfo", host.folder / "proc/zz")
    path = tmp_path / "host.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(host.folder, "mixed")

    assert (RecordedHost(path).read_text("/proc/zz") or "").startswith("MemTotal")
