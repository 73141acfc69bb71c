"""The shim's files beside slurm.conf: installed, updated, a site's own script left alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SCRIPT = "job_submit.lua"
_MODULE_OF = {SCRIPT: "hpcmgr.submit", "cli_filter.lua": "hpcmgr.steps"}
"""Scripts that a site may have of its own, and the module that its lines for hpcmgr load."""

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

    files, by_hand = dict(shim), []
    for name, module in _MODULE_OF.items():
        script = _read(conf_dir / name)
        if script is None or script == shim[name] or checksum(script) == installed.get(name):
            continue
        del files[name]
        if module not in script:
            by_hand.append(
                f"{conf_dir / name} is the site's own and stays as it is; put these lines at its "
                f"very end:\n\n{five_lines(shim[name])}"
            )
    return files, "\n".join(by_hand)


def five_lines(script: str) -> str:
    """The lines that a site's own script needs."""
    return "".join(f"    {line}\n" for line in script.rstrip().splitlines()[-_LINES:])


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
