"""``hpcmgr discover``: data on stdout, talk on stderr, exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hpcmgr.cli import run
from hpcmgr.inventory import NodeInventory

GOLDEN = Path(__file__).parents[2] / "golden/hosts"


def discover(*args: str | Path) -> int:
    """Run the command and give its exit code."""
    with pytest.raises(SystemExit) as ended:
        run(["discover", *map(str, args)])
    return int(ended.value.code or 0)


@pytest.fixture(name="half")
def _half(hosts: Path, tmp_path: Path) -> Path:
    """The mixed host with an npu-smi that prints rubbish."""
    folder = tmp_path / "half"
    shutil.copytree(hosts / "mixed", folder)
    (folder / "commands/npu-smi-info.txt").write_text("rubbish\n")
    return folder


def test_json_is_the_inventory(hosts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Byte for byte what an inventory file holds, and nothing on stderr."""
    assert discover("--host", hosts / "mixed", "--json") == 0
    out, err = capsys.readouterr()

    assert out == (GOLDEN / "mixed.json").read_text()
    assert err == ""


def test_the_table_is_plain_where_nobody_looks(
    hosts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No colour, no box drawing, every device with place, file and health."""
    assert discover("--host", hosts / "mixed") == 0
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if "0000:c1:00.0" in line)

    assert out.isascii()
    assert "\x1b" not in out
    assert line.split() == [
        *("0", "npu", "910B3", "ascend910b3", "8", "64", "GiB", "1", "1", "0000:c1:00.0"),
        *("/dev/davinci4", "2102313PKT10R3000498", "ok"),
    ]


def test_slices_stand_below_their_devices(hosts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With their units and files; a GPU that is to be cut shows as such."""
    assert discover("--host", hosts / "mig4") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]

    assert ["0", "2g.20gb", "a100-80g-2g.20gb", "2", "19.5", "GiB", "/dev/nvidia1",
            "/dev/nvidia-caps/nvidia-cap165", "/dev/nvidia-caps/nvidia-cap166",
            "MIG-c84a1f37-6e02-5d8b-95e3-f1b07a62d9c8"] in lines  # fmt: skip
    assert ["3", "none", "-", "-", "-", "-", "-"] in lines


def test_a_broken_source_is_exit_4(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is known is printed, what is broken is told on stderr."""
    assert discover("--host", half, "--json") == 4
    out, err = capsys.readouterr()

    assert len(NodeInventory.model_validate(json.loads(out)).devices) == 3
    assert "npu-smi is broken" in err


def test_the_table_says_why_health_is_unknown(
    half: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason stands below the devices."""
    assert discover("--host", half) == 4

    assert "0000:c1:00.0: npu-smi does not tell its health" in capsys.readouterr().out


def test_a_missing_recording_is_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One message with a hint, no traceback."""
    assert discover("--host", tmp_path / "none") == 1
    out, err = capsys.readouterr()

    assert out == ""
    assert "no such recording" in err
    assert "hint" in err


def test_it_says_how_devices_of_one_socket_are_told_apart(
    hosts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, in the words of the site's release; not where the site has done it."""
    site = tmp_path / "site.yaml"

    def said(text: str) -> str:
        site.write_text(text)
        with pytest.raises(SystemExit):
            run(["--config", str(site), "discover", "--host", str(hosts / "npu8")])
        return capsys.readouterr().err

    told = said("slurm: {version: 24.11.5}\n")
    assert "devices of socket 0, 1 are on several NUMA nodes" in told
    assert "SlurmdParameters=numa_node_as_socket" in told
    name = json.loads((GOLDEN / "npu8.json").read_text())["node"]
    assert said(f"nodes: [{{nodes: {name}, sockets: numa}}]\n") == ""
