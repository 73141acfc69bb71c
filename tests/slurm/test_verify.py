"""``hpcmgr verify`` with the real daemons of each release, as root and as an ordinary user."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lightcluster import Completed, LightCluster, NodeSpec
from lightcluster.testing import quick, require
from tests.verify_cases import BROKEN, GOOD, Broken, lay_out

RELEASES = os.environ.get("HPCMGR_SLURM", "24.11,26.05").split(",")

pytestmark = pytest.mark.slurm


@pytest.fixture(name="machine", scope="module", params=RELEASES)
def _machine(request: pytest.FixtureRequest) -> Iterator[LightCluster]:
    """A machine with Slurm; its own small cluster runs on beside the proofs."""
    require()
    with LightCluster(request.param, [NodeSpec("n1")]) as cluster:
        yield cluster


def verify(
    machine: LightCluster, files: Mapping[str, str], *options: str, user: str = "root"
) -> Completed:
    """Lay the files out on the machine and run the command over them."""
    machine.run(["rm", "-rf", "/tmp/case"])
    lay_out(files, machine.controller.root / "tmp/case")
    return machine.run(["hpcmgr", "verify", "/tmp/case", *options], user=user)


def read(done: Completed) -> dict[str, Any]:
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["schema"] == "hpcmgr.verify/1"
    return document


def leftovers(machine: LightCluster) -> list[str]:
    """Directories and daemons of a proof that are still there."""
    folders = machine.run(["sh", "-c", "ls -d /tmp/hpcmgr-verify-* 2>/dev/null"]).stdout.split()
    daemons = machine.run(["ps", "-e", "-o", "args"]).stdout.splitlines()
    return folders + [line for line in daemons if "hpcmgr-verify-" in line]


@pytest.mark.parametrize("user", ["root", "alice"])
def test_a_good_site_is_proven(machine: LightCluster, user: str) -> None:
    """One node of each kind registers, there is no finding, and nothing is left behind."""
    done = verify(machine, GOOD, "--json", user=user)

    document = read(done)
    assert document["findings"] == []
    assert document["proof"] == "full", document["remarks"]
    assert document["proven_nodes"] == ["g01", "n1"]
    assert done.returncode == 0
    assert leftovers(machine) == []
    assert machine.node_states() == {"n1": "idle"}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: b.name)
def test_a_fault_is_an_error_at_its_line(machine: LightCluster, broken: Broken) -> None:
    """Whatever is broken, the finding names file and line, and the exit code is 1."""
    done = verify(machine, broken.files, "--json")

    errors = [f for f in read(done)["findings"] if f["severity"] == "error"]
    places = {(f["file"].removeprefix("/tmp/case/"), f["line"], f["rule"]) for f in errors}
    assert (*broken.at, broken.rule) in places
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("file", "old", "new", "line", "words"),
    [
        ("cgroup.conf", "ConstrainRAMSpace", "ConstrainRAMSpaces", 3, "ConstrainRAMSpaces"),
        ("slurm.conf", "Nodes=ALL", "Nodes=ALL,zz9", 16, "zz9"),
        ("slurm.conf", "MaxTime=1-0", "MaxTime=never", 16, "never"),
        ("slurm.conf", "=CR_Core_Memory", "=CR_Socks", 11, "CR_Socks"),
    ],
)
def test_what_no_rule_knows_slurm_tells(
    machine: LightCluster, file: str, old: str, new: str, line: int, words: str
) -> None:
    """Faults that only Slurm knows become findings with its own words."""
    assert old in GOOD[file]
    done = verify(machine, {**GOOD, file: GOOD[file].replace(old, new)}, "--json")

    found = read(done)["findings"]
    assert any(words in f["text"] for f in found), found
    assert done.returncode == 1


def test_another_release_is_checked_by_rules(machine: LightCluster) -> None:
    """Daemons of one release prove nothing for another: that is said, with exit code 4."""
    other = "26.05" if machine.release == "24.11" else "24.11"

    done = verify(machine, GOOD, "--slurm-version", other)

    assert done.returncode == 4
    assert "the rules alone were used" in done.stderr


def test_people_read_file_and_line_first(machine: LightCluster) -> None:
    """One paragraph a finding: place, fault, why, what to do."""
    files = {**GOOD, "cgroup.conf": "ConstrainCores=yes\n"}

    done = verify(machine, files)

    first, *more = done.stdout.splitlines()
    assert first == "/tmp/case/cgroup.conf: error: ConstrainDevices is not set"
    assert any(line.startswith("    Fix: set ConstrainDevices=yes") for line in more)
    assert "1 error" in done.stderr


@pytest.mark.parametrize(("name", "code"), [("INT", 130), ("TERM", 143)])
def test_an_interrupted_proof_leaves_nothing(machine: LightCluster, name: str, code: int) -> None:
    """Ctrl-C or SIGTERM in the middle ends the daemons and removes their directory."""
    kinds = range(2, 122)  # enough kinds of nodes for a proof of many seconds
    nodes = "".join(f"NodeName=x{i} Sockets=1 CoresPerSocket={i} Gres=npu:a:1\n" for i in kinds)
    gres = "".join(f"NodeName=x{i} Name=npu Type=a File=/dev/davinci0\n" for i in kinds)
    conf = {"hpcmgr.conf": f"GresTypes=npu\n{nodes}", "gres.conf": gres}
    machine.run(["rm", "-rf", "/tmp/case"])
    lay_out({**GOOD, **conf}, machine.controller.root / "tmp/case")

    limit = ["timeout", "--preserve-status", f"--signal={name}", "1.5"]
    done = machine.run([*limit, "hpcmgr", "verify", "/tmp/case"])

    assert done.returncode == code, done.stdout + done.stderr
    assert leftovers(machine) == []


def test_a_proof_takes_no_more_than_seconds(machine: LightCluster) -> None:
    """Two kinds of nodes are proven in well under five seconds."""
    assert quick(lambda: verify(machine, GOOD), 5)
