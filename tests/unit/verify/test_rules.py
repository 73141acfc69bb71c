"""Every rule, with the smallest change to a good site that breaks it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from hpcmgr.slurm.capability import Release
from hpcmgr.verify.configuration import read_configuration
from hpcmgr.verify.finding import Finding, Severity
from hpcmgr.verify.rules import apply_rules
from hpcmgr.verify.values import Machine
from tests.verify_cases import BROKEN, GOOD, Broken, lay_out

TREE = "SwitchName=s1 Nodes=g[01-40]\nSwitchName=s2 Nodes=n[1-2]\nSwitchName=top Switches=s[1-2]\n"
WITH_TREE = {"slurm.conf": GOOD["slurm.conf"] + "TopologyPlugin=topology/tree\n"}
WITH_BLOCK = {"slurm.conf": GOOD["slurm.conf"] + "TopologyPlugin=topology/block\n"}


def lint(
    tmp_path: Path, files: Mapping[str, str], release: str = "24.11.5", **machines: Machine
) -> list[Finding]:
    """Findings of the rules for the good site with some files replaced."""
    directory = lay_out({**GOOD, **files}, tmp_path)
    return apply_rules(read_configuration(directory, Release.parse(release), machines))


def told(findings: list[Finding]) -> set[tuple[str, str]]:
    return {(f.severity.value, f.rule) for f in findings}


def swap(file: str, old: str, new: str) -> dict[str, str]:
    assert old in GOOD[file]
    return {file: GOOD[file].replace(old, new)}


@pytest.mark.parametrize("release", ["23.11.4", "24.11.5", "25.05", "25.11.7", "26.05.5"])
def test_a_good_site_has_no_finding(tmp_path: Path, release: str) -> None:
    """No false alarm, on any supported release."""
    assert lint(tmp_path, {}, release) == []


@pytest.mark.parametrize(
    "broken",
    [b for b in BROKEN if not b.needs_slurm or b.file == "gres.conf"],
    ids=lambda b: b.name,
)
def test_a_fault_is_an_error_at_its_line(tmp_path: Path, broken: Broken) -> None:
    """File and line point to what has to be changed."""
    findings = lint(tmp_path, broken.files)

    hits = [f for f in findings if f.rule == broken.rule and f.severity is Severity.ERROR]
    assert broken.at in [(f.place.file.name, f.place.line) for f in hits if f.place.file]


@pytest.mark.parametrize(
    ("files", "severity", "rule"),
    [
        ({"cgroup.conf": "ConstrainCores=yes\n"}, "error", "constrain-devices"),
        ({"cgroup.conf": "ConstrainDevices=no\n"}, "error", "constrain-devices"),
        (swap("slurm.conf", ",task/cgroup", ""), "error", "task-plugin"),
        (swap("slurm.conf", "proctrack/cgroup", "proctrack/pgid"), "warning", "proctrack"),
        (swap("slurm.conf", "select/cons_tres", "select/linear"), "error", "select-type"),
        (swap("slurm.conf", "JobSubmitPlugins=lua\n", ""), "error", "job-submit"),
        (swap("slurm.conf", "ClusterName=mixed\n", ""), "error", "cluster-name"),
        (swap("slurm.conf", "AuthType", "CacheGroups=0\nAuthType"), "error", "removed-key"),
        (swap("slurm.conf", "AuthType", "FastSchedule=0\nAuthType"), "error", "removed-key"),
        (swap("slurm.conf", "AuthType", "FastSchedule=1\nAuthType"), "warning", "removed-key"),
        (swap("hpcmgr.conf", "GresTypes=compute,gpu,npu", "GresTypes=compute,mps,npu"), "error",
         "shares-without-gpu"),
        (swap("hpcmgr.conf", "TaskProlog", "#TaskProlog"), "warning", "task-prolog"),
        (swap("hpcmgr.conf", ",compute:24", ""), "warning", "neutral-missing"),
        (swap("slurm.conf", "AccountingStorageType", "#"), "error", "accounting-slurmdbd"),
        (swap("hpcmgr.conf", "=gres/compute,gres/vram", "=gres/vram"), "error",
         "billing-untracked"),
        ({"slurm.conf": GOOD["slurm.conf"] + "SlurmdParameters=config_overrides\n"}, "warning",
         "config-overrides"),
        ({"slurm.conf": GOOD["slurm.conf"] + "PartitionName=q\nPartitionName=q\n"}, "error",
         "partition-twice"),
        ({"slurm.conf": GOOD["slurm.conf"] + "NodeSet=s Nodes=n1\nNodeSet=s Nodes=n2\n"}, "error",
         "node-set-twice"),
        (swap("hpcmgr.conf", "NodeName=n[1-2]", "NodeName=g[39-40]"), "error", "node-twice"),
        (swap("hpcmgr.conf", "NodeName=n[1-2]", "NodeName=n[a-b]"), "error", "hostlist"),
        (swap("hpcmgr.conf", "npu:ascend910b:4", "npu:ascend910b:four"), "error", "gres-form"),
        (swap("hpcmgr.conf", "npu:ascend910b:4", "npu:ascend910b:2,npu:2"), "error", "mixed-type"),
        (swap("hpcmgr.conf", "npu:ascend910b:4", "npu:ascend910b:3"), "warning", "count-high"),
        (swap("hpcmgr.conf", ",vram:256", ""), "warning", "gres-not-in-node"),
        (swap("hpcmgr.conf", "Sockets=2 CoresPerSocket=8 ThreadsPerCore=2", "CPUs=32"), "warning",
         "cores-unchecked"),
        (swap("hpcmgr.conf", "ThreadsPerCore=2", "ThreadsPerCore=2 CPUs=48"), "error",
         "cpus-differ"),
    ],
)  # fmt: skip
def test_slurm_conf_and_cgroup_conf(
    tmp_path: Path, files: dict[str, str], severity: str, rule: str
) -> None:
    """Isolation, admission, accounting and node lines."""
    assert (severity, rule) in told(lint(tmp_path, files))


@pytest.mark.parametrize(
    ("old", "new", "severity", "rule"),
    [
        ("File=/dev/nvidia[0-1] Cores=0-7", "Count=2", "error", "gpu-without-file"),
        ("Cores=0-7\nNodeName=g[01-40] Name=gpu", "\nNodeName=g[01-40] Name=gpu", "warning",
         "mixed-cores"),
        ("NodeName=g[01-40] Name=gpu", "Name=gpu NodeName=g[01-40]", "error", "gres-first-key"),
        ("NodeName=g[01-40] Name=gpu", "Type=a100 Name=gpu", "error", "gres-first-key"),
        ("File=/dev/nvidia[0-1]", "Count=3 File=/dev/nvidia[0-1]", "error", "count-files"),
        ("Count=32", "Count=4.0", "error", "count-form"),
        ("Count=32", "Count=1 Count=32", "warning", "key-twice"),
        ("File=/dev/nvidia[0-1]", "MultipleFiles=/dev/nvidia0", "error", "multiple-files"),
        ("File=/dev/nvidia[0-1]", "File=/dev/nvidia[1-0]", "error", "file-list"),
        ("File=/dev/nvidia[0-1]", "File=nvidia[0-1]", "error", "file-list"),
        ("Flags=CountOnly", "Flags=CountOnyl", "warning", "flag-unknown"),
        ("Flags=CountOnly", "", "warning", "count-only"),
        ("Cores=0-7", "Cores=0-7 Flags=CountOnly", "error", "count-only-file"),
        ("Type=a100", "Type=A100", "warning", "name-unsafe"),
        ("Name=compute", "Name=Compute", "error", "name-unsafe"),
        ("NodeName=n[1-2] Name", "NodeName=n#1 Name", "warning", "gres-no-name"),
        ("Cores=0-7", "Cores=0-7 Links=-1,NV4", "warning", "links"),
        ("Cores=0-7", "Cores=0-7 Links=4,4", "warning", "links"),
        ("Cores=0-7", "Cores=0-7 Links=-1,4,4,,4", "error", "links"),
        ("Type=a100", "Type=8", "warning", "name-unsafe"),
        ("Type=a100", "Type=a100-80g", "warning", "name-unsafe"),
        ("Cores=0-7", "Cores=zero", "error", "cores-form"),
        ("Cores=0-7", "Cores=32-39", "error", "cores-beyond"),
        ("NodeName=n[1-2]", "NodeName=m[1-2]", "warning", "gres-unknown-node"),
        ("NodeName=g[01-40] Name=gpu", "AutoDetect=nvml:\nNodeName=g[01-40] Name=gpu", "warning",
         "autodetect-value"),
        ("NodeName=g[01-40] Name=gpu", "AutoDetect=amdgpu\nNodeName=g[01-40] Name=gpu", "error",
         "autodetect-value"),
        ("NodeName=g[01-40] Name=gpu", "AutoDetect=nvml\nNodeName=g[01-40] Name=gpu", "warning",
         "autodetect-records"),
        ("NodeName=g[01-40]", "AutoDetect=nvml\nAutoDetect=rsmi\nNodeName=g[01-40]", "error",
         "autodetect-two"),
        ("NodeName=g[01-40] Name=gpu", "Name=gpu AutoDetect=nvml", "error", "autodetect-inline"),
    ],
)  # fmt: skip
def test_gres_conf(tmp_path: Path, old: str, new: str, severity: str, rule: str) -> None:
    """Records of gres.conf and AutoDetect."""
    assert old in GOOD["gres.conf"]
    changed = {"gres.conf": GOOD["gres.conf"].replace(old, new, 1)}

    assert (severity, rule) in told(lint(tmp_path, changed))


@pytest.mark.parametrize(
    ("topology", "severity", "rule", "line"),
    [
        (TREE.replace("n[1-2]", "n[1-2],m3"), "error", "topology-unknown-node", 2),
        (TREE.replace("n[1-2]", "n[1-2],g05"), "error", "topology-node-twice", 2),
        (TREE.replace("n[1-2]", "n1"), "error", "topology-node-missing", None),
        (TREE + "SwitchName=top2 Switches=s1\n", "error", "topology-two-parents", 4),
        (TREE.replace("s[1-2]", "s[1-3]"), "error", "topology-no-switch", 3),
        (TREE + "SwitchName=s1 Nodes=g01\n", "error", "topology-name-twice", 1),
        (TREE + "SwitchName=up Switches=up\n", "error", "topology-circle", 4),
        (TREE.replace("n[1-2]", "n[x]"), "error", "hostlist", 2),
        ("# nothing\n", "error", "topology-empty", None),
    ],
)
def test_a_tree(tmp_path: Path, topology: str, severity: str, rule: str, line: int | None) -> None:
    """What Slurm accepts silently in topology.conf is told."""
    findings = lint(tmp_path, {**WITH_TREE, "topology.conf": topology})

    assert (severity, rule, line) in [(f.severity.value, f.rule, f.place.line) for f in findings]


def test_a_good_tree_has_no_finding(tmp_path: Path) -> None:
    """Switches, leaves and all nodes in their places."""
    assert lint(tmp_path, {**WITH_TREE, "topology.conf": TREE}) == []


def test_a_missing_topology_is_fatal_everywhere(tmp_path: Path) -> None:
    """slurmctld waits a minute for it and ends."""
    assert told(lint(tmp_path, WITH_TREE)) == {("error", "topology-missing")}


def test_an_empty_topology_starts_no_job_or_no_slurmctld(tmp_path: Path) -> None:
    """With the tree 24.11 runs and starts nothing; with blocks it runs as if there were none."""
    tree = {**WITH_TREE, "topology.conf": ""}
    block = {**WITH_BLOCK, "topology.conf": "BlockSizes=4\n"}

    older, newer = lint(tmp_path / "a", tree, "24.11.5"), lint(tmp_path / "b", tree, "26.05.5")
    assert told(older) == told(newer) == {("error", "topology-empty")}
    assert "runs, but starts no job" in older[0].why
    assert "refuses to start" in newer[0].why
    assert told(lint(tmp_path / "c", block, "24.11.5")) == {("warning", "topology-empty")}
    assert told(lint(tmp_path / "d", block, "26.05.5")) == {("error", "topology-empty")}


def test_a_small_block_is_fatal_before_25_05_only(tmp_path: Path) -> None:
    """24.11 does not start with a block below the base size, 26.05 runs."""
    blocks = "BlockName=b1 Nodes=g[01-40]\nBlockName=b2 Nodes=n[1-2]\nBlockSizes=4\n"
    files = {**WITH_BLOCK, "topology.conf": blocks}

    assert ("error", "topology-block-small") in told(lint(tmp_path / "a", files, "24.11.5"))
    assert lint(tmp_path / "b", files, "26.05.5") == []


def test_topology_yaml_is_read_where_the_release_has_it(tmp_path: Path) -> None:
    """Unknown nodes are found in it; older releases do not read it at all."""
    text = (
        "- topology: fabric\n  cluster_default: true\n  tree:\n    switches:\n"
        "      - switch: s1\n        nodes: g[01-40],m1,n[1-2]\n"
    )
    files = {"topology.yaml": text}

    newer = lint(tmp_path / "a", files, "26.05.5")
    assert [(f.rule, f.place.line) for f in newer] == [("topology-unknown-node", 6)]
    older = lint(tmp_path / "b", files, "24.11.5")
    assert told(older) == {("warning", "topology-yaml-release")}


BLOCKS = "BlockName=b1 Nodes=g[01-40]\nBlockName=b2 Nodes=n[1-2]\n"


@pytest.mark.parametrize(
    ("topology", "severity", "rule", "line"),
    [
        (BLOCKS + "BlockSizes=2,6\n", "error", "topology-block-sizes", 3),
        (BLOCKS + "BlockSizes=2,1\n", "error", "topology-block-sizes", 3),
        (BLOCKS + "BlockSizes=0\n", "error", "topology-block-sizes", 3),
        (BLOCKS + "BlockSizes=64\n", "warning", "topology-block-small", 3),
        (BLOCKS.replace("n[1-2]", "n[1-2],g01"), "error", "topology-node-twice", 2),
        (BLOCKS.replace("n[1-2]", "n1"), "error", "topology-node-missing", None),
        (BLOCKS.replace("b2", "b1"), "error", "topology-name-twice", 1),
        (BLOCKS.replace("b1", "b" * 65), "error", "topology-name-long", 1),
        (TREE, "error", "topology-plugin", 1),
    ],
)
def test_blocks(tmp_path: Path, topology: str, severity: str, rule: str, line: int | None) -> None:
    """What slurmctld refuses, and what it accepts silently."""
    findings = lint(tmp_path, {**WITH_BLOCK, "topology.conf": topology}, "26.05.5")

    assert (severity, rule, line) in [(f.severity.value, f.rule, f.place.line) for f in findings]


@pytest.mark.parametrize("sizes", ["", "BlockSizes=2\n", "BlockSizes=2,4,64\n"])
def test_good_blocks_have_no_finding(tmp_path: Path, sizes: str) -> None:
    """Aggregated sizes may be more than all nodes."""
    assert lint(tmp_path, {**WITH_BLOCK, "topology.conf": BLOCKS + sizes}, "24.11.5") == []


def test_islands_are_a_note_and_an_unread_file_is_no_fault_of_the_nodes(tmp_path: Path) -> None:
    """Some sites want islands; without TopologyPlugin the file is not read."""
    apart = {**WITH_TREE, "topology.conf": TREE.rpartition("SwitchName=top")[0]}
    unread = {"topology.conf": "SwitchName=s1 Nodes=g01\n"}

    assert told(lint(tmp_path / "a", apart)) == {("note", "topology-islands")}
    assert told(lint(tmp_path / "b", unread)) == {("warning", "topology-plugin")}


TWO = """\
---
- topology: tree
  cluster_default: true
  tree:
    switches:
      - switch: s1
        nodes: g[01-40],n[1-2]
- topology: racks
  block:
    block_sizes: [2]
    blocks:
      - block: b1
        nodes: n[1-2]
"""
RACKS = "PartitionName=racks Nodes=n[1-2] Topology=racks\n"


def test_two_topologies_are_good(tmp_path: Path) -> None:
    """A node need not stand in a topology that no partition of it uses."""
    files = {"topology.yaml": TWO, "slurm.conf": GOOD["slurm.conf"] + RACKS}

    assert lint(tmp_path / "a", files, "26.05.5") == []
    assert ("error", "topology-partition") in told(lint(tmp_path / "b", files, "24.11.5"))


@pytest.mark.parametrize(
    ("text", "partition", "severity", "rule", "line"),
    [
        (TWO, RACKS.replace("n[1-2]", "ALL"), "error", "topology-node-missing", 8),
        (TWO, RACKS.replace("=racks\n", "=rack\n"), "error", "topology-partition", 17),
        (TWO.replace("nodes: g", "node: g"), RACKS, "error", "topology-yaml-key", 7),
        (TWO.replace("g[01-40],n[1-2]", "g[01-40]"), RACKS, "error", "topology-node-missing", 2),
        (TWO.replace("[2]", "[2, 6]"), RACKS, "error", "topology-block-sizes", 10),
        (TWO + "      - block: b2\n        nodes: n2\n", RACKS, "error", "topology-node-twice", 15),
        (
            TWO + "      - block: b1\n        nodes: g01\n",
            RACKS,
            "error",
            "topology-name-twice",
            12,
        ),
        (TWO.partition("blocks:")[0] + "blocks: b1\n", RACKS, "error", "topology-yaml", 11),
        (TWO.replace("  block:", "  flat: true\n  block:"), RACKS, "error", "topology-yaml", 8),
        (
            TWO.replace("s1\n", "s1\n        children: s2\n"),
            RACKS,
            "error",
            "topology-no-switch",
            6,
        ),
    ],
)
def test_topology_yaml(
    tmp_path: Path, text: str, partition: str, severity: str, rule: str, line: int
) -> None:
    """The same rules as for topology.conf, each at its line."""
    files = {"topology.yaml": text, "slurm.conf": GOOD["slurm.conf"] + partition}
    findings = lint(tmp_path, files, "26.05.5")

    assert (severity, rule, line) in [(f.severity.value, f.rule, f.place.line) for f in findings]


def test_of_both_files_one_is_not_read(tmp_path: Path) -> None:
    """topology.yaml wins."""
    files = {**WITH_TREE, "topology.yaml": TWO, "topology.conf": TREE}

    assert told(lint(tmp_path, files, "26.05.5")) == {("warning", "topology-yaml-wins")}


@pytest.mark.parametrize("text", ["a: [", "x: 1\n", "- 1\n", ""])
def test_a_broken_topology_yaml_is_an_error(tmp_path: Path, text: str) -> None:
    """No YAML, or not a list of topologies."""
    findings = lint(tmp_path, {"topology.yaml": text}, "26.05.5")

    assert ("error", "topology-yaml") in told(findings)


@pytest.mark.parametrize(
    ("plugin", "release", "bad"),
    [
        ("flat", "24.11.5", True),
        ("flat", "26.05.5", False),
        ("default", "26.05.5", True),
        ("3d_torus", "26.05.5", True),
        ("ring", "25.11.7", True),
    ],
)
def test_topology_plugins_come_and_go(tmp_path: Path, plugin: str, release: str, bad: bool) -> None:
    """A plugin that the release does not have stops slurmctld."""
    files = {"slurm.conf": GOOD["slurm.conf"] + f"TopologyPlugin=topology/{plugin}\n"}

    found = ("error", "topology-plugin-release") in told(lint(tmp_path, files, release))
    assert found is bad


@pytest.mark.parametrize(("release", "bad"), [("24.11.5", True), ("25.11.7", False)])
def test_parameters_of_a_node_follow_the_release(tmp_path: Path, release: str, bad: bool) -> None:
    """24.11 does not know the key: its daemons would not start."""
    memory = "RealMemory=1540000"
    files = swap("hpcmgr.conf", memory, f"{memory} Parameters=l3cache_as_socket")
    found = ("error", "node-parameters") in told(lint(tmp_path, files, release))

    assert found is bad


def test_cores_rules_follow_the_release(tmp_path: Path) -> None:
    """Half a socket: allowed before 24.11.2. Two of four sockets: refused from 25.11 on."""
    half = swap("gres.conf", "Cores=0-7", "Cores=0-3")
    four = {
        **swap("hpcmgr.conf", "Sockets=2 CoresPerSocket=8", "Sockets=4 CoresPerSocket=4"),
    }
    rule = "cores-socket"

    assert ("warning", rule) in told(lint(tmp_path / "a", half, "24.11.1"))
    assert ("error", rule) in told(lint(tmp_path / "b", half, "24.11.2"))
    assert ("warning", rule) in told(lint(tmp_path / "c", four, "25.05.3"))
    assert ("error", rule) in told(lint(tmp_path / "d", four, "25.11.0"))


def test_env_flags_of_a_name_agree(tmp_path: Path) -> None:
    """NVIDIA and AMD cards of one node cannot both be called gpu with their own flags."""
    gres = GOOD["gres.conf"].replace("Cores=0-7", "Cores=0-7 Flags=nvidia_gpu_env", 1)
    gres = gres.replace("Cores=8-15", "Cores=8-15 Flags=amd_gpu_env", 1)

    assert ("error", "env-flags") in told(lint(tmp_path, {"gres.conf": gres}))


def test_types_of_equal_hash_are_told(tmp_path: Path) -> None:
    """Slurm adds letters by position modulo 4, so abcdx and xbcda are one type to it."""
    text = (
        GOOD["gres.conf"]
        .replace("Type=a100", "Type=xbcda", 1)
        .replace("Type=a100", "Type=abcdx", 1)
    )
    node = swap("hpcmgr.conf", "gpu:a100:4", "gpu:xbcda:2,gpu:abcdx:2")

    assert ("error", "hash-collision") in told(lint(tmp_path, {"gres.conf": text, **node}))


def test_one_device_under_two_names_is_told(tmp_path: Path) -> None:
    """Slurm looks at one GRES name at a time and would hand the device out twice."""
    gres = GOOD["gres.conf"].replace("/dev/davinci[2-3]", "/dev/davinci[2-3]") + (
        "NodeName=n[1-2] Name=gpu Type=x File=/dev/davinci0\n"
    )

    assert ("error", "file-twice") in told(lint(tmp_path, {"gres.conf": gres}))


def test_a_node_line_that_differs_from_the_inventory_is_told(tmp_path: Path) -> None:
    """Where the machine is known, the line must say the same."""
    findings = lint(tmp_path, {}, g07=Machine(1, 16, 2))

    assert ("error", "machine-differs") in told(findings)


def test_hpcmgr_conf_alone_is_checked_as_far_as_it_goes(tmp_path: Path) -> None:
    """The rendered files without the site's slurm.conf: a note, and no complaint about the rest."""
    files = {name: text for name, text in GOOD.items() if name != "slurm.conf"}
    directory = lay_out(files, tmp_path)

    findings = apply_rules(read_configuration(directory, Release.parse("24.11.5")))

    assert told(findings) == {("note", "fragment")}


def test_an_empty_directory_is_an_error(tmp_path: Path) -> None:
    """There is nothing to verify, and that is said."""
    findings = apply_rules(read_configuration(tmp_path, Release.parse("24.11.5")))

    assert ("error", "slurm-conf") in told(findings)


MIG = (
    "NodeName=n[1-2] Name=gpu Type=a100_1g.10gb "
    "MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap12,/dev/nvidia-caps/nvidia-cap13\n"
    "NodeName=n[1-2] Name=gpu Type=a100_1g.10gb "
    "MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22\n"
)
CUT = (
    "GresTypes=gpu\nNodeName=n[1-2] Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=900 "
    "Gres=gpu:a100_1g.10gb:2\n"
)


def of_gpus(tmp_path: Path, gres: str, records: str) -> set[tuple[str, str]]:
    """Findings for nodes n1 and n2 with that Gres= and those records, without NodeName."""
    lines = "".join(f"NodeName=n[1-2] {line}\n" for line in records.splitlines())
    node = CUT.replace("gpu:a100_1g.10gb:2", gres).replace("=gpu\n", "=gpu,mps,shard\n")
    return told(lint(tmp_path, {"hpcmgr.conf": node, "gres.conf": lines}))


class TestSlicesAndShares:
    """MIG, shard, MPS and Links."""

    def test_slices_share_their_gpu(self, tmp_path: Path) -> None:
        """Three files a record, the GPU in both: no finding."""
        assert lint(tmp_path, {"hpcmgr.conf": CUT, "gres.conf": MIG}) == []

    @pytest.mark.parametrize(
        ("old", "new", "rule"),
        [
            ("/dev/nvidia-caps/nvidia-cap12,", "", "mig-files"),
            ("/dev/nvidia0,", "", "mig-files"),
            ("cap12,", "cap12,/dev/nvidia-caps/nvidia-cap30,", "mig-files"),
            ("cap21,/dev/nvidia-caps/nvidia-cap22", "cap12,/dev/nvidia-caps/nvidia-cap13",
             "file-twice"),
            ("MultipleFiles", "File", "mig-files"),
        ],
    )  # fmt: skip
    def test_a_slice_of_other_files(self, tmp_path: Path, old: str, new: str, rule: str) -> None:
        """One too few, one too many, those of another slice, devices of their own."""
        files = {"hpcmgr.conf": CUT, "gres.conf": MIG.replace(old, new, 1)}

        assert ("error", rule) in told(lint(tmp_path, files))

    def test_good_shares(self, tmp_path: Path) -> None:
        """By device, by range, or a mere count."""
        gpus = "Name=gpu Type=t4 File=/dev/nvidia[0-1]\n"
        for shares in (
            "Name=shard Count=4 File=/dev/nvidia0\nName=shard Count=4 File=/dev/nvidia1",
            "Name=shard Count=8 File=/dev/nvidia[0-1]",
            "Name=shard Count=8",
        ):
            assert of_gpus(tmp_path, "gpu:t4:2,shard:8", gpus + shares) == set()
        mps = "Name=mps Count=100 File=/dev/nvidia0\nName=mps Count=100 File=/dev/nvidia1"
        assert of_gpus(tmp_path, "gpu:t4:2,mps:200", gpus + mps) == set()

    def test_bad_shares(self, tmp_path: Path) -> None:
        """Both sorts, no GPU, another GPU, other counts, a remainder."""
        gpus = "Name=gpu Type=t4 File=/dev/nvidia[0-1]\n"
        shard, mps = (
            "Name=shard Count=4 File=/dev/nvidia0\n",
            "Name=mps Count=100 File=/dev/nvidia1",
        )

        both = of_gpus(tmp_path, "gpu:t4:2,shard:4,mps:100", gpus + shard + mps)
        assert both == {("error", "two-shares")}
        assert of_gpus(tmp_path, "shard:4", shard) == {("error", "shares-without-gpu")}
        other = gpus.replace("[0-1]", "1")
        assert of_gpus(tmp_path, "gpu:t4:1,shard:4", other + shard) == {
            ("error", "shares-without-gpu")
        }
        assert of_gpus(tmp_path, "gpu:t4:2,shard:8", gpus + shard) == {("error", "count-low")}
        assert of_gpus(tmp_path, "gpu:t4:2,shard:2", gpus + shard) == {("warning", "count-high")}
        odd = "Name=shard Count=5 File=/dev/nvidia[0-1]"
        assert of_gpus(tmp_path, "gpu:t4:2,shard:5", gpus + odd) == {
            ("warning", "shares-remainder")
        }

    @pytest.mark.parametrize(
        ("rows", "good"),
        [
            (("-1,4", "4,-1"), True),
            (("4,-1", "-1,4"), True),
            (("-1,4,0", "4,-1,0"), False),
            (("-1,4", ""), False),
            (("-1,4", "-1,4"), False),
            (("-1,-2", "4,-1"), False),
            (("0,4", "4,-1"), False),
            (("-1,x", "4,-1"), False),
        ],
    )
    def test_links(self, tmp_path: Path, rows: tuple[str, str], good: bool) -> None:
        """A square with one -1 a device; GPUs may stand in any order. Too many numbers make the
        node invalid, the rest is as bad as its links."""
        records = "\n".join(
            f"Name=gpu Type=t4 File=/dev/nvidia{n}" + (f" Links={row}" if row else "")
            for n, row in enumerate(rows)
        )
        found = of_gpus(tmp_path, "gpu:t4:2", records)

        worst = "error" if rows[0].count(",") > 1 else "warning"
        assert ((worst, "links") in found) is not good
