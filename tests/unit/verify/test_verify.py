"""The whole, without Slurm: reports, exit codes, fallbacks, the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcmgr.cli.root import root
from hpcmgr.slurm.capability import Release
from hpcmgr.verify import Proof, verify_directory
from hpcmgr.verify import oracle as oracle_module
from hpcmgr.verify.configuration import read_configuration
from hpcmgr.verify.oracle import Programs, parse_states
from hpcmgr.verify.proof_files import write_proof
from hpcmgr.verify.rules import apply_rules
from tests.verify_cases import GOOD, lay_out


@pytest.fixture(name="no_slurm")
def _no_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which Slurm is not installed."""
    monkeypatch.setattr("hpcmgr.verify.find_programs", lambda: Programs(None, None, None))


@pytest.mark.usefixtures("no_slurm")
def test_without_slurmd_the_rules_alone_are_used(tmp_path: Path) -> None:
    """Nothing wrong, but nothing proven either: exit 4, and the reason."""
    report = verify_directory(lay_out(GOOD, tmp_path), Release.parse("24.11.5"))

    assert report.exit_code == 4
    assert report.proof is Proof.NONE
    assert any("no slurmd" in remark for remark in report.remarks)


@pytest.mark.usefixtures("no_slurm")
def test_an_error_outweighs_a_missing_proof(tmp_path: Path) -> None:
    """Exit 1 as soon as there is an error."""
    report = verify_directory(lay_out({**GOOD, "cgroup.conf": ""}, tmp_path))

    assert report.exit_code == 1


def test_an_unsupported_release_is_refused(tmp_path: Path) -> None:
    """With the reason; nothing else is looked at."""
    report = verify_directory(lay_out(GOOD, tmp_path), Release.parse("22.05.8"))

    assert [f.rule for f in report.findings] == ["release"]
    assert report.exit_code == 1


@pytest.mark.usefixtures("no_slurm")
def test_the_command_prints_json(tmp_path: Path) -> None:
    """With its schema; remarks and summary do not mix with the data."""
    directory = lay_out({**GOOD, "cgroup.conf": "ConstrainDevices=no\n"}, tmp_path)

    done = CliRunner().invoke(root, ["verify", str(directory), "--json"], standalone_mode=False)

    document = json.loads(done.stdout)
    assert document["schema"] == "hpcmgr.verify/1"
    assert [(f["rule"], f["line"], f["severity"]) for f in document["findings"]] == [
        ("constrain-devices", 1, "error")
    ]
    assert done.return_value == 1


def test_a_release_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    """--slurm-version takes a version."""
    done = CliRunner().invoke(root, ["verify", str(tmp_path), "--slurm-version", "new"])

    assert getattr(done.exception, "exit_code", None) == 2


def test_a_copy_of_a_directory_includes_its_own_files(tmp_path: Path) -> None:
    """Include by full path means the copy, not the live directory."""
    live = lay_out({**GOOD, "hpcmgr.conf": "NodeName=old CPUs=1\n"}, tmp_path / "live")
    text = GOOD["slurm.conf"].replace("Include hpcmgr.conf", f"Include {live}/hpcmgr.conf")
    copy = lay_out({**GOOD, "slurm.conf": text}, tmp_path / "copy")

    configuration = read_configuration(copy, Release.parse("24.11.5"), stands_for=live)

    assert "old" not in configuration.nodes
    assert apply_rules(configuration) == []


def test_the_proof_copy_never_leaves_its_directory(tmp_path: Path) -> None:
    """Device files with .. in them get stand-ins inside; the site's own places are left out."""
    gres = GOOD["gres.conf"].replace("/dev/nvidia[0-1]", "/dev/../../../../../../tmp/x[0-1]")
    configuration = read_configuration(
        lay_out({**GOOD, "gres.conf": gres}, tmp_path / "conf"), Release.parse("24.11.5")
    )
    stage = tmp_path / "a" / "stage"
    stage.mkdir(parents=True)

    copy = write_proof(configuration, list(configuration.nodes.values())[:1], stage, "root")

    assert (copy.root / "tmp/x0").is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"conf", "a"}
    text = copy.slurm_conf.read_text()
    for word in ("JobSubmitPlugins", "munge", "TaskProlog=", "Accounting", "/var/spool"):
        assert word not in text


def test_lines_of_the_proof_copy_know_where_they_come_from(tmp_path: Path) -> None:
    """Also those from an included file, and nodes that were split off their line."""
    configuration = read_configuration(lay_out(GOOD, tmp_path / "conf"), Release.parse("24.11.5"))
    stage = tmp_path / "stage"
    stage.mkdir()
    copy = write_proof(configuration, [configuration.nodes["g07"]], stage, "root")

    lines = copy.slurm_conf.read_text().splitlines()
    number = next(i for i, line in enumerate(lines, 1) if line.startswith("NodeName=g07 "))

    place = copy.files["slurm.conf"].place(number)
    assert (place.file, place.line) == (tmp_path / "conf" / "hpcmgr.conf", 5)


@pytest.mark.parametrize(
    ("line", "good", "unknown", "reason"),
    [
        ("NodeName=a State=IDLE ThreadsPerCore=1", True, False, ""),
        ("NodeName=a State=UNKNOWN ThreadsPerCore=1", False, True, ""),
        ("NodeName=a State=IDLE* ThreadsPerCore=1", False, True, ""),
        (
            "NodeName=a State=DOWN+DRAIN+INVALID_REG Reason=count low (0 < 4) [root@2026-1] X=x",
            False,
            False,
            "count low (0 < 4)",
        ),
    ],
)
def test_node_states_are_read(line: str, good: bool, unknown: bool, reason: str) -> None:
    """Idle is good; invalid or drained is not, with the reason that Slurm gives."""
    name, state = next(parse_states(line))

    assert name == "a"
    assert (state.good, state.unknown, state.reason) == (good, unknown, reason)


def test_daemons_are_looked_for_beyond_path() -> None:
    """Ordinary users have no sbin on PATH."""
    assert "/usr/sbin" in oracle_module.SEARCH_PATH
