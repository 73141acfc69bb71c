"""The small parts: nodes, addresses, control groups, waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightcluster import LightClusterError, NodeSpec, WaitError, node_line, waiting
from lightcluster.cgroups import hierarchies
from lightcluster.layout import Layout, plan
from lightcluster.spec import addresses
from lightcluster.waiting import wait_until

V1_MOUNTS = """\
24 1 8:1 / / rw - ext4 /dev/sda1 rw
30 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
31 24 0:27 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices
32 24 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
33 24 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
V1_OWN = "4:pids:/\n3:devices:/\n2:cpu,cpuacct:/somewhere/else\n0::/\n"


@pytest.mark.parametrize("name", ["", "ctl", "Mix01", "n_1", "n1/x"])
def test_a_node_is_named_like_a_host(name: str) -> None:
    """The name becomes a host name and a folder; ctl is the controller."""
    with pytest.raises(LightClusterError, match="named like a host"):
        NodeSpec(name)


def test_a_missing_recording_is_found_out_at_once(tmp_path: Path) -> None:
    """Not when the node starts."""
    with pytest.raises(LightClusterError, match="n1: no recorded host at"):
        NodeSpec("n1", host=tmp_path / "nowhere")


def test_the_node_line_says_what_the_spec_says() -> None:
    """GRES and features stand only where there are any."""
    spec = NodeSpec("n1", sockets=2, cores_per_socket=8, threads_per_core=2)

    assert spec.cpus == 32
    assert spec.hwloc == "pack:2 core:8 pu:2"
    assert node_line(spec, 1000) == (
        "NodeName=n1 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=1000 State=UNKNOWN\n"
    )
    assert " Gres=gpu:1 Features=a,b State" in node_line(spec, 1000, "gpu:1", "a,b")


def test_five_hundred_nodes_have_addresses_of_their_own() -> None:
    """All in one network with the controller."""
    table = addresses([NodeSpec(f"n{number}") for number in range(500)])

    assert len(set(table.values())) == 501
    assert max(int(address.split(".")[3]) for address in table.values()) <= 254


def test_a_layout_survives_the_way_to_the_supervisor(tmp_path: Path) -> None:
    """It goes there as one line of JSON."""
    (tmp_path / "dev.txt").write_text("/dev/davinci0 c 236 0 0660\n")
    layout = plan("x", "24.11", tmp_path, tmp_path, [NodeSpec("n1", host=tmp_path)])

    assert Layout.from_json(layout.to_json()) == layout
    assert "\n" not in layout.to_json()


def test_v1_hierarchies_are_those_slurm_uses() -> None:
    """Co-mounted controllers are one hierarchy, pids is nobody's business."""
    found = {each.name: each.options for each in hierarchies(V1_MOUNTS, V1_OWN)}

    assert found == {"cpu,cpuacct": "cpu,cpuacct", "devices": "devices"}


def test_v2_is_taken_where_v1_has_no_devices() -> None:
    """As on a machine with cgroup v2 alone."""
    mounts = "33 24 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"

    (found,) = hierarchies(mounts, "0::/user.slice\n")

    assert (found.version, found.directory) == (2, Path("/sys/fs/cgroup"))


def test_a_wait_in_vain_says_what_for_and_shows_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last answer is shown, too; so is how long it really was."""
    monkeypatch.setattr(waiting, "patience", 2.0)
    with pytest.raises(WaitError, match=r"waited 0.1 s for rain; at the end: ''\nthe log"):
        wait_until(lambda: "", 0.05, "rain", lambda: "the log")
