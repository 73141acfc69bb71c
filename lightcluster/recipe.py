"""What a root file system is made of: the suite of a Slurm release and its packages."""

from __future__ import annotations

import hashlib
from pathlib import Path

from lightcluster.errors import RootfsError

# Debian suites whose Slurm is of that release; rootfs.py proves it after the build.
SUITES = {"24.11": "trixie", "26.05": "forky"}

PACKAGES = (
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurmrestd",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "munge",
    "mariadb-server",
    "lua-socket",
    "lua-cjson",
    "python3",
    "python3-click",
    "python3-jinja2",
    "python3-yaml",
    "python3-rich",
    "python3-pydantic",
    "python3-clustershell",
    "procps",
    "iproute2",
)

CUSTOMIZE = Path(__file__).with_name("customize.sh")


def suite(release: str) -> str:
    """The Debian suite that has this Slurm release."""
    try:
        return SUITES[release]
    except KeyError:
        known = ", ".join(sorted(SUITES))
        raise RootfsError(f"no root file system for Slurm {release}; there is {known}") from None


def key(release: str) -> str:
    """Names the tree in the cache: another recipe is another name, so nothing goes stale."""
    recipe = "\n".join((suite(release), *PACKAGES, CUSTOMIZE.read_text()))
    return f"{suite(release)}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def mmdebstrap_argv(release: str, target: Path, mirror: str | None = None) -> list[str]:
    """The command that builds the tree; without a mirror mmdebstrap takes Debian's own."""
    return [
        "mmdebstrap",
        "--quiet",
        "--variant=minbase",
        "--format=directory",
        # A frozen mirror's Release file may be past its date.
        '--aptopt=Acquire::Check-Valid-Until "false"',
        f"--include={','.join(PACKAGES)}",
        f"--customize-hook={CUSTOMIZE}",
        suite(release),
        str(target),
        *([mirror] if mirror else []),
    ]
