"""Commands as people meet them: help, exit codes, messages, no traceback."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpcmgr.cli.root import COMMANDS

HOSTS = Path(__file__).parent.parent / "hosts"


def hpcmgr(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hpcmgr", *args],
        capture_output=True, text=True, timeout=60,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **env},
    )  # fmt: skip


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Path:
    """A site.yaml whose inventory holds the mixed machine."""
    (tmp_path / "inventory").mkdir()
    found = hpcmgr("discover", "--host", str(HOSTS / "mixed"), "--json")
    (tmp_path / "inventory" / "mix01.json").write_text(found.stdout)
    path = tmp_path / "site.yaml"
    path.write_text(f"inventory: {tmp_path}/inventory\n")
    return path


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_a_usage_exit_code(name: str) -> None:
    """--help ends with 0 and says what it does; a wrong option ends with 2."""
    helped, wrong = hpcmgr(name, "--help"), hpcmgr(name, "--no-such-option")

    assert helped.returncode == 0
    assert "Usage: hpcmgr" in helped.stdout
    assert wrong.returncode == 2
    assert "No such option" in wrong.stderr


def test_help_imports_no_command() -> None:
    """hpcmgr --help stays fast: pydantic, rich and jinja2 are for those who need them."""
    code = (
        "import sys; from hpcmgr.cli.root import root;"
        "root.main(['--help'], standalone_mode=False);"
        "print([m for m in ('pydantic', 'rich', 'jinja2', 'yaml', 'ClusterShell')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stdout.splitlines()[-1] == "[]"


def test_every_command_in_the_table_is_there() -> None:
    """The table of names is the list of modules."""
    for name in COMMANDS:
        assert importlib.import_module(f"hpcmgr.cli.{name}").command is not None


def test_an_unknown_command_gets_the_nearest_name() -> None:
    """And the valid ones, exit code 2."""
    done = hpcmgr("quot")

    assert done.returncode == 2
    assert "Did you mean 'quote'?" in done.stderr


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("schema: hpcmgr.site/1\nclasss: {}\n", "site.yaml:2: classs: unknown key, did you mean"),
        ("{", "no valid YAML"),
        ("profiles: {override: {a100: {units: 3}}}", "no profile 'a100'"),
        ("classes: {gpu: {}}", "'gpu' is both class and kind"),
        ("profiles: {dirs: [/nonexistent]}", "/nonexistent: is no directory"),
    ],
)
def test_a_broken_site_yaml_is_told_with_file_and_line(
    tmp_path: Path, text: str, part: str
) -> None:
    """By every command that reads it; no traceback."""
    site = tmp_path / "site.yaml"
    site.write_text(text)

    done = hpcmgr("--config", str(site), "serve", "--check")

    assert done.returncode == 1
    assert part in done.stderr
    assert "Traceback" not in done.stderr


GOOD_PROFILE = """\
name: x1
title: T
vendor: v
kind: gpu
runtime: r
match: {model: [x]}
gres: {name: gpu, type: x1}
"""


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("title: T\n", "", "title: Field required"),
        ("name: x1\n", "name: other\n", "is named 'other'"),
        ("[x]", "['(']", "is no regular expression"),
        ("type: x1", "type: X1", "lower case"),
        ("type: x1", "type: a100", "share the GRES gpu:a100"),
        ("kind: gpu", "kind: tpu", "kind: Input should be 'gpu' or 'npu'"),
    ],
)
def test_a_broken_profile_is_told_with_its_file(
    tmp_path: Path, old: str, new: str, part: str
) -> None:
    """Missing fields, wrong names, bad patterns, clashing types."""
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "x1.yaml").write_text(GOOD_PROFILE.replace(old, new, 1))
    site = tmp_path / "site.yaml"
    site.write_text(f"profiles: {{dirs: [{tmp_path}/profiles]}}\n")

    done = hpcmgr("--config", str(site), "serve", "--check")

    assert done.returncode == 1
    assert part in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "part"),
    [("", "mix01.json"), ("{", "mix01.json"), ("[]", "mix01.json"), ('{"schema": "x"}', "schema")],
)
def test_a_broken_inventory_is_told_and_nothing_is_rendered(
    site: Path, text: str, part: str
) -> None:
    """A broken file is never an empty node."""
    (site.parent / "inventory" / "mix01.json").write_text(text)

    done = hpcmgr("--config", str(site), "render", "--out", str(site.parent / "out"))

    assert done.returncode == 1
    assert part in done.stderr
    assert "Traceback" not in done.stderr
    assert not (site.parent / "out").exists()


def test_without_any_inventory_the_next_step_is_named(tmp_path: Path) -> None:
    """A newcomer who renders before syncing learns what to do."""
    site = tmp_path / "site.yaml"
    site.write_text(f"inventory: {tmp_path}\n")

    done = hpcmgr("--config", str(site), "render")

    assert done.returncode == 1
    assert "run 'hpcmgr sync' on the nodes" in done.stderr


@pytest.mark.parametrize("command", [["render"], ["quote", "compute:8", "--idle"]])
def test_a_missing_inventory_folder_names_the_next_step_too(
    tmp_path: Path, command: list[str]
) -> None:
    """The first thing a newcomer meets."""
    site = tmp_path / "site.yaml"
    site.write_text(f"inventory: {tmp_path}/none\n")

    done = hpcmgr("--config", str(site), *command)

    assert done.returncode == 1
    assert "run 'hpcmgr sync' on the nodes" in done.stderr


def test_what_is_no_recording_is_told_in_one_line() -> None:
    """Not all the ways in which it was tried."""
    done = hpcmgr("discover", "--host", __file__)

    assert done.returncode == 1
    assert done.stderr.splitlines()[0].endswith("file could not be opened successfully")
    assert "ReadError" not in done.stderr


def test_render_writes_whole_files_and_only_what_changed(site: Path) -> None:
    """The second run touches nothing."""
    out = site.parent / "out"
    first = hpcmgr("--config", str(site), "render", "--out", str(out))
    times = {p.name: p.stat().st_mtime_ns for p in out.iterdir()}
    second = hpcmgr("--config", str(site), "render", "--out", str(out))

    assert first.returncode == second.returncode == 0
    assert set(times) == {"hpcmgr.conf", "gres.conf", "cgroup.conf"}
    assert {p.name: p.stat().st_mtime_ns for p in out.iterdir()} == times
    assert second.stderr.count("unchanged") == 3


def test_a_place_that_cannot_be_written_is_said_in_words(site: Path) -> None:
    """No traceback, no half file."""
    done = hpcmgr("--config", str(site), "render", "--out", "/proc/nowhere")

    assert done.returncode == 1
    assert "hpcmgr: error:" in done.stderr
    assert "Traceback" not in done.stderr


def test_quote_idle_needs_no_slurm(site: Path) -> None:
    """Against the inventory alone: every candidate with its terms."""
    done = hpcmgr("--config", str(site), "quote", "compute:16", "--idle", "--json")
    quote = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    assert quote["schema"] == "hpcmgr.quote/1"
    assert quote["binding"]["gres"] == "npu:ascend910b3"
    assert {c["profile"] for c in quote["candidates"]} == {"a100-80g", "ascend910b3"}


def test_without_slurm_the_missing_program_is_named(site: Path) -> None:
    """quote without --idle asks scontrol."""
    done = hpcmgr("--config", str(site), "quote", "compute:16", PATH="/nonexistent")

    assert done.returncode == 1
    assert "scontrol is not installed or not on PATH" in done.stderr


def sync(site: Path, host: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return hpcmgr("--config", str(site), "sync", "--host", str(host), "--dry-run", *args)


@pytest.mark.parametrize("fault", ["garbage", "fails", "hangs"])
def test_a_broken_tool_publishes_nothing(site: Path, tmp_path: Path, fault: str) -> None:
    """The node keeps its last inventory; exit code 4 names the source."""
    host = tmp_path / "host"
    shutil.copytree(HOSTS / "mixed", host)
    listing = (host / "host.yaml").read_text()
    if fault == "garbage":
        for path in (host / "commands").glob("nvidia-smi*"):
            path.write_text("Segmentation fault\n")
    elif fault == "fails":
        (host / "host.yaml").write_text(listing.replace("exit: 0", "exit: 9"))
    else:
        (host / "host.yaml").write_text(listing.replace("exit: 0", "exit: 0, timed_out: true"))
        if "timed_out" not in (host / "host.yaml").read_text():
            pytest.fail("the recording was not changed")
    before = (site.parent / "inventory" / "mix01.json").read_bytes()

    done = sync(site, host)

    assert done.returncode == 4, done.stderr
    assert "is broken" in done.stderr
    assert (site.parent / "inventory" / "mix01.json").read_bytes() == before


def test_the_loss_of_all_devices_needs_a_word(site: Path, tmp_path: Path) -> None:
    """A node that suddenly has nothing: exit code 3, unless --accept."""
    host = tmp_path / "host"
    shutil.copytree(HOSTS / "mixed", host)
    (host / "host.yaml").write_text(
        "schema: hpcmgr.host/1\nhostname: mix01\nrecorded: 2026-01-01\ncommands: []\n"
    )
    for gone in ("sys/bus/pci", "proc/driver", "commands"):
        shutil.rmtree(host / gone, ignore_errors=True)
    (host / "dev.txt").write_text("/dev/null c 1 3 0666\n")

    lost, accepted = sync(site, host), sync(site, host, "--accept")

    assert lost.returncode == 3, lost.stderr
    assert "all 3 devices of mix01 are gone" in lost.stderr
    assert accepted.returncode == 0, accepted.stderr
