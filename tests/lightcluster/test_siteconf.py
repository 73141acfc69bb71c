"""What /etc/slurm is composed of."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from lightcluster import NodeSpec
from lightcluster.siteconf import compose, with_settings

NODES = [NodeSpec("n1", sockets=2, cores_per_socket=8)]


def test_a_setting_is_changed_where_it_stands_with_its_reason() -> None:
    """Slurm complains to every command about a key set twice."""
    text = "ClusterName=x\nkillwait = 30  # patience\nInclude y\n"

    changed = with_settings(text, {"KillWait": ("2", "tests wait")})

    assert changed == (
        "ClusterName=x\n# Changed by lightcluster: tests wait.\nKillWait=2\nInclude y\n"
    )


def test_a_new_setting_goes_to_the_head() -> None:
    """An include at the end may open a partition line's section."""
    changed = with_settings("ClusterName=x\n", {"KillWait": ("2", "tests wait")})

    assert changed.splitlines()[-2:] == ["KillWait=2", "ClusterName=x"]


def test_lists_are_merged() -> None:
    """What the site chose stays, unless it is the very same option."""
    changed = with_settings(
        "SchedulerParameters=bf_continue,bf_interval=30\n",
        {"SchedulerParameters": ("bf_interval=1,sched_interval=2", "tests wait")},
    )

    assert "SchedulerParameters=bf_continue,bf_interval=1,sched_interval=2\n" in changed


def test_no_key_stands_twice() -> None:
    """Over slurm.conf and what it includes."""
    for accounting in (True, False):
        files = compose(None, NODES, accounting=accounting, cgroup_version=1)
        text = files["slurm.conf"] + files["accounting.conf"]
        keys = Counter(re.findall(r"^(\w+)=", text, re.MULTILINE))

        assert [key for key, count in keys.items() if count > 1] == []


def test_accounting_lines_are_there_only_with_accounting() -> None:
    """AccountingStorageTRES and the like are fatal without slurmdbd."""
    without = compose(None, NODES, accounting=False, cgroup_version=1)
    with_it = compose(None, NODES, accounting=True, cgroup_version=1)

    assert "=" not in without["accounting.conf"]
    assert "AccountingStorageType=accounting_storage/slurmdbd" in with_it["accounting.conf"]


def test_files_of_the_caller_replace_the_references(tmp_path: Path) -> None:
    """A folder and a mapping mean the same."""
    (tmp_path / "gres.conf").write_text("Name=gpu Count=1\n")

    from_folder = compose(tmp_path, NODES, accounting=False, cgroup_version=1)
    from_mapping = compose(
        {"gres.conf": "Name=gpu Count=1\n"}, NODES, accounting=False, cgroup_version=1
    )

    assert from_folder == from_mapping
    assert from_folder["gres.conf"] == "Name=gpu Count=1\n"
    assert "NodeName=n1 Sockets=2 CoresPerSocket=8" in from_folder["hpcmgr.conf"]


def test_devices_stay_constrained_whatever_else_is_let_go() -> None:
    """The isolation of devices is what the cluster is for."""
    cgroup = compose(None, NODES, accounting=False, cgroup_version=1)["cgroup.conf"]

    assert "ConstrainDevices=yes" in cgroup
    assert "ConstrainCores=no" in cgroup
    assert "CgroupPlugin=cgroup/v1" in cgroup


def test_without_tuning_files_are_written_as_they_are() -> None:
    """For who wants to see the reference site itself."""
    files = compose(None, NODES, accounting=False, cgroup_version=1, tune=False)

    assert "lightcluster" not in files["slurm.conf"]


def test_every_node_has_a_switch_until_hpcmgr_renders_them() -> None:
    """Slurm starts no job on other nodes; an empty topology.conf stops 26.05."""
    own = "SwitchName=mine Nodes=n1\n"
    composed, given, none = (
        compose(conf, nodes, accounting=False, cgroup_version=1).get("topology.conf")
        for conf, nodes in ((None, NODES), ({"topology.conf": own}, NODES), (None, []))
    )

    assert composed == "SwitchName=all Nodes=n1\n"
    assert given == own
    assert none is None
