"""The shim's files: installed, updated, a site's own script left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmgr.apply.shim import SCRIPT, five_lines, shim_files, wanted_files
from hpcmgr.apply.workplace import checksum

SHIM = shim_files()


def test_the_shim_is_the_checkouts() -> None:
    """Script and modules, nothing else."""
    assert {SCRIPT, "hpcmgr/submit.lua", "hpcmgr/modify.lua"} <= set(SHIM)
    assert all(name.endswith(".lua") for name in SHIM)


@pytest.mark.parametrize("script", [SCRIPT, "cli_filter.lua"])
def test_five_lines_are_the_code_of_the_script(script: str) -> None:
    """What a site's own script needs, nothing of the comments."""
    lines = five_lines(SHIM[script]).splitlines()

    assert len(lines) == 5
    assert "require" in lines[2]
    assert not any(line.lstrip().startswith("--") for line in lines)


def test_an_empty_directory_gets_everything(tmp_path: Path) -> None:
    """Nothing is left to do by hand."""
    assert wanted_files(tmp_path, {}, SHIM) == (SHIM, "")


@pytest.mark.parametrize(
    ("script", "installed", "written", "said"),
    [
        (SHIM[SCRIPT], {}, True, False),
        ("-- last year's\n", {SCRIPT: checksum("-- last year's\n")}, True, False),
        ("-- the site's\n", {}, False, True),
        ("-- the site's\n", {SCRIPT: checksum("-- last year's\n")}, False, True),
        ('-- the site\'s\nlocal h = require("hpcmgr.submit")\n', {}, False, False),
    ],
)
def test_only_an_untouched_script_of_ours_is_replaced(
    tmp_path: Path, script: str, installed: dict[str, str], written: bool, said: bool
) -> None:
    """A site's own gets the lines to add, unless it has them."""
    (tmp_path / SCRIPT).write_text(script)

    files, note = wanted_files(tmp_path, installed, SHIM)

    assert (SCRIPT in files) is written
    assert bool(note) is said
    assert "hpcmgr/submit.lua" in files


def test_a_sites_own_filter_stays(tmp_path: Path) -> None:
    """As its job_submit.lua does; once it has the lines nothing more is said."""
    (tmp_path / "cli_filter.lua").write_text("-- the site's\n")
    files, said = wanted_files(tmp_path, {}, SHIM)

    assert "cli_filter.lua" not in files
    assert SCRIPT in files
    assert 'require("hpcmgr.steps")' in said
    (tmp_path / "cli_filter.lua").write_text(f"-- the site's\n{said}")
    assert wanted_files(tmp_path, {}, SHIM) == (files, "")
