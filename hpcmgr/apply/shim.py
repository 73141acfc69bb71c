"""The shim's files beside slurm.conf: installed, updated, a site's own script left alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SCRIPT = "job_submit.lua"

_PACKAGE = Path(__file__).parent.parent
_LINES = 5


def lua_dir() -> Path:
    """Where the shim's files lie: in the wheel, or in the checkout."""
    packaged = _PACKAGE / "_lua"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "lua"


def shim_files() -> dict[str, str]:
    """File name below the configuration directory → text."""
    place = lua_dir()
    return {
        str(path.relative_to(place)): path.read_text(encoding="utf-8")
        for path in sorted(place.rglob("*.lua"))
    }


def wanted_files(
    conf_dir: Path, installed: Mapping[str, str], shim: Mapping[str, str]
) -> tuple[dict[str, str], str]:
    """Files to have in ``conf_dir``, and what an administrator must do by hand (or nothing).

    Args:
        conf_dir: where slurm.conf lies.
        installed: checksum by file name of what was last put there.
        shim: the shim's files.
    """
    from hpcmgr.apply.workplace import checksum

    files = dict(shim)
    script = _read(conf_dir / SCRIPT)
    if script is None or script == shim[SCRIPT]:
        return files, ""
    if checksum(script) == installed.get(SCRIPT):
        return files, ""
    del files[SCRIPT]
    if "hpcmgr.submit" in script:
        return files, ""
    return files, (
        f"{conf_dir / SCRIPT} is the site's own and stays as it is; put these lines at its very "
        f"end:\n\n{five_lines(shim[SCRIPT])}"
    )


def five_lines(script: str) -> str:
    """The lines that a site's own script needs."""
    return "".join(f"    {line}\n" for line in script.rstrip().splitlines()[-_LINES:])


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
