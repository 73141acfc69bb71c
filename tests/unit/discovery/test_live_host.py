"""The machine itself: real programs, real files."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hpcmgr.discovery import LiveHost, discover
from tests.unit.discovery.conftest import LIBRARY


@pytest.fixture(name="tool")
def _tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called vendor-smi on PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    path = tmp_path / "vendor-smi"
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)
    return path


def test_a_tool_answers(tool: Path) -> None:
    """Exit status and both texts come back."""
    tool.write_text("#!/bin/sh\necho out; echo err >&2; exit 3\n")
    result = LiveHost().run(["vendor-smi"], 10)

    assert (result.state, result.exit) == ("done", 3)
    assert (result.stdout, result.stderr) == ("out\n", "err\n")


def test_a_tool_that_hangs_is_left_in_time(tool: Path) -> None:
    """Its child that keeps the pipe open does not matter either."""
    tool.write_text("#!/bin/sh\nsleep 30 & sleep 30\n")
    started = time.monotonic()

    assert LiveHost().run(["vendor-smi"], 0.3).state == "timed_out"
    assert time.monotonic() - started < 10


def test_a_tool_that_is_missing_or_cannot_run_is_no_error(tool: Path) -> None:
    """Not installed is absent; a file that is no program did not start."""
    tool.write_bytes(b"\x7fELF rubbish")

    assert LiveHost().run(["no-such-smi"], 1).state == "absent"
    assert LiveHost().run(["vendor-smi"], 1).exit is None


def test_files_of_the_machine_are_read(tmp_path: Path) -> None:
    """Missing ones are unknown, not errors."""
    (tmp_path / "link").symlink_to("target")
    host = LiveHost()

    assert host.readlink(str(tmp_path / "link")) == "target"
    assert host.exists(str(tmp_path / "link"))
    assert host.listdir(str(tmp_path)) == ("link",)
    assert host.listdir(str(tmp_path / "missing")) == ()
    assert host.read_text(str(tmp_path / "missing")) is None


def test_device_nodes_are_listed() -> None:
    """/dev/null is a character device 1:3 everywhere."""
    nodes = {node.path: node for node in LiveHost().device_nodes() or ()}

    assert (nodes["/dev/null"].type, nodes["/dev/null"].major, nodes["/dev/null"].minor) == (
        "c",
        1,
        3,
    )


def test_this_machine_is_discovered() -> None:
    """Whatever this machine has, discovery ends and says so twice alike."""
    first = discover(LiveHost(), LIBRARY)

    assert first.node
    assert first.cpu.sockets >= 1
    assert first.memory_mib > 0
    assert discover(LiveHost(), LIBRARY).devices == first.devices
