"""job_submit.lua itself: what slurmctld loads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lupa import lua51

from tests.lua.shim_host import LUA, Slurmctld

SCRIPT = LUA / "job_submit.lua"
FILES = sorted(LUA.rglob("*.lua"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(LUA)))
def test_every_file_is_lua_5_1(path: Path) -> None:
    """Slurm's plugin is linked with what the distribution chose, and 5.1 is the oldest."""
    loaded = lua51.LuaRuntime().eval("loadfile")(str(path))

    assert not isinstance(loaded, tuple), loaded


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(LUA)))
def test_no_file_makes_a_global(path: Path) -> None:
    """A site's script shares the state; it gets Slurm's functions and nothing else."""
    host = Slurmctld()
    host.lua.execute(
        """setmetatable(_G, { __newindex = function(t, k, v)
               local slurms = k:find("^slurm_job_") or k:find("^slurm_cli_")
               if not slurms then error("global " .. k) end
               rawset(t, k, v)
           end })"""
    )
    host.lua.eval("dofile")(str(path))


def test_the_script_finds_its_modules_beside_itself() -> None:
    """slurmctld's working directory is not the script's."""
    host = Slurmctld()
    host.lua.execute('package.path, package.loaded["hpcmgr.submit"] = "", nil')
    host.lua.eval("dofile")(str(SCRIPT))

    assert host.lua.eval("type(slurm_job_submit) .. type(slurm_job_modify)") == "functionfunction"
    path = host.lua.eval("package.path")
    assert path.startswith(f"{LUA}/?.lua;/etc/slurm/?.lua;/usr/share/hpcmgr/lua/?.lua;")


def test_the_script_comes_behind_a_sites_own_functions() -> None:
    """The same five lines serve both kinds of site."""
    host = Slurmctld()
    host.lua.execute("function slurm_job_submit() return 7 end")
    host.lua.eval("dofile")(str(SCRIPT))

    assert host.lua.eval("slurm_job_submit({}, nil, 2001)") == 7
    code = [line for line in SCRIPT.read_text().splitlines() if re.match(r"[^-\s]", line)]
    assert len(code) == 5


def test_every_setting_is_told_in_the_script() -> None:
    """And no other is."""
    text = SCRIPT.read_text().split("configure{}", 1)[1]
    settings = re.findall(r"^--     (\w+) += ", text, re.MULTILINE)
    code = (LUA / "hpcmgr" / "submit.lua").read_text()
    in_code = re.findall(r"^    (\w+) = \{ ", code, re.MULTILINE)

    assert sorted(settings) == sorted(in_code)
