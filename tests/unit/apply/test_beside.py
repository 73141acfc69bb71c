"""What hpcmgr writes beside a site's own files, and what it remembers of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcmgr.apply import LiveCluster, LiveNode, Workplace, plan_change
from hpcmgr.apply.beside import beside, insist_on_includes, make_fragments
from hpcmgr.apply.live import Job
from hpcmgr.apply.memory import NAME, recall, remember
from hpcmgr.configure import plan_of
from hpcmgr.errors import ApplyError
from hpcmgr.plan import ClusterPlan
from hpcmgr.settings import Site
from hpcmgr.slurm.capability import Release
from hpcmgr.verify.configuration import read_configuration
from tests.unit.adopt.test_adopt import GRES, SHAPE, machine

RELEASE = Release(24, 11, 5)
OWN = f"""\
ClusterName=c
Include hpcmgr.conf
NodeName=DEFAULT Weight=5
NodeName=g[1-2] {SHAPE} Gres=gpu:t4:4,disk:1
PartitionName=all Nodes=ALL
"""


@pytest.fixture(name="plan")
def _plan() -> ClusterPlan:
    return plan_of([machine(f"g{i}") for i in range(1, 5)], Site(accounting=False))


@pytest.fixture(name="conf")
def _conf(tmp_path: Path) -> Path:
    (tmp_path / "slurm.conf").write_text(OWN)
    (tmp_path / "gres.conf").write_text(
        GRES.replace("g[1-4]", "g[1-2]") + "Include hpcmgr-gres.conf"
    )
    make_fragments(tmp_path)
    return tmp_path


def live(started: str = "2026-12-01T10:00:00", *busy: str) -> LiveCluster:
    used = {"gpu:t4": 1}
    nodes = {n: LiveNode(n, "IDLE", used=used if n in busy else {}, started=started)
             for n in ("g1", "g2")}  # fmt: skip
    return LiveCluster(nodes, tuple(Job("7", "R", "alice", (n,)) for n in busy))


def test_nodes_of_the_sites_own_files_are_left_out(conf: Path, plan: ClusterPlan) -> None:
    """hpcmgr has the others, in files that the site's include; its names stay known."""
    found = beside(conf, plan, RELEASE)

    assert found.own == {"g1", "g2"}
    assert set(found.files) == {"hpcmgr.conf", "hpcmgr-gres.conf", "cgroup.conf"}
    assert "NodeName=g[3-4] " in found.files["hpcmgr.conf"]
    assert "g1" not in found.files["hpcmgr-gres.conf"]
    assert "GresTypes=compute,disk,gpu,vram\n" in found.files["hpcmgr.conf"]
    insist_on_includes(conf, found.files)


def test_keys_that_the_site_sets_are_not_set_twice(conf: Path, plan: ClusterPlan) -> None:
    """Slurm complains to every command about a key that is set twice."""
    (conf / "slurm.conf").write_text("GresTypes=gpu,disk\nTaskProlog=/own\n" + OWN)

    text = beside(conf, plan, RELEASE).files["hpcmgr.conf"]

    assert "GresTypes" not in text
    assert "TaskProlog" not in text


def test_own_cgroup_and_topology_stay(conf: Path, plan: ClusterPlan) -> None:
    """They are not written."""
    (conf / "cgroup.conf").write_text("ConstrainDevices=yes\n")

    found = beside(conf, plan, RELEASE)

    assert "cgroup.conf" not in found.files
    assert "cgroup.conf is the site's own and stays as it is" in found.notes


def test_files_of_comments_alone_are_hpcmgrs_to_write(conf: Path, plan: ClusterPlan) -> None:
    """As those that the reference site begins with."""
    (conf / "gres.conf").write_text("# nothing yet\n")

    assert "gres.conf" in beside(conf, plan, RELEASE).files


@pytest.mark.parametrize("name", ["slurm.conf", "gres.conf"])
def test_a_missing_include_is_refused(conf: Path, plan: ClusterPlan, name: str) -> None:
    """Nobody would read what is written; a comment includes nothing."""
    text = (conf / name).read_text()
    (conf / name).write_text(text.replace("Include", "# Include"))

    with pytest.raises(ApplyError, match=f"{name} does not include hpcmgr"):
        insist_on_includes(conf, beside(conf, plan, RELEASE).files)


def test_lines_taken_out_of_the_sites_files_are_kept_for_a_busy_node(
    conf: Path, plan: ClusterPlan
) -> None:
    """Word for word, with what NodeName=DEFAULT said; a node that is free takes the new ones."""
    place = Workplace(conf)
    for path in conf.iterdir():
        os.utime(path, (0, 0))
    assert remember(place.folder, read_configuration(conf, RELEASE), live()) == []
    (conf / "slurm.conf").write_text(OWN.replace("NodeName=g[1-2]", "#"))
    (conf / "gres.conf").write_text("Include hpcmgr-gres.conf\n")
    wanted = beside(conf, plan, RELEASE).files
    changed = {n: t.replace("/dev/nvidia[0-1]", "/dev/nvidia0") for n, t in wanted.items()}

    busy = live("2026-12-01T10:00:00", "g1")
    planned = plan_change(place, changed, busy, RELEASE)

    assert [w.node for w in planned.waiting] == ["g1"]
    texts = planned.texts
    line = f"NodeName=g1 {SHAPE} Gres=gpu:t4:4,disk:1 weight=5\n"
    assert line in texts["hpcmgr.conf"]
    assert (
        "NodeName=g1 Name=gpu Type=t4 File=/dev/nvidia[0-1] Cores=0-7\n"
        in texts["hpcmgr-gres.conf"]
    )
    assert "NodeName=g[2-4] " in texts["hpcmgr.conf"]


def test_memory_of_a_slurmd_that_started_anew_does_not_count(conf: Path, plan: ClusterPlan) -> None:
    """It may have read anything since: a busy node that is in no file is refused."""
    place = Workplace(conf)
    for path in conf.iterdir():
        os.utime(path, (0, 0))
    remember(place.folder, read_configuration(conf, RELEASE), live())
    (conf / "slurm.conf").write_text(OWN.replace("NodeName=g[1-2]", "#"))
    wanted = beside(conf, plan, RELEASE).files

    with pytest.raises(ApplyError, match="g1: jobs run there, but no file defines the node"):
        plan_change(place, wanted, live("2026-12-01T11:00:00", "g1"), RELEASE)


def test_files_changed_after_the_start_are_not_remembered(conf: Path) -> None:
    """Nobody knows what the slurmd read."""
    unknown = remember(
        conf / "hpcmgr.d", read_configuration(conf, RELEASE), live("2001-01-01T00:00:00")
    )

    assert unknown == ["g1", "g2"]
    assert recall(conf / "hpcmgr.d").layouts == {}


def test_a_broken_memory_is_an_error_for_people(conf: Path) -> None:
    """It says which file to remove."""
    (conf / "hpcmgr.d").mkdir()
    (conf / "hpcmgr.d" / NAME).write_text("{")

    with pytest.raises(ApplyError, match="is broken"):
        recall(conf / "hpcmgr.d")
