"""Root file systems: built once for each Slurm release, then shared read-only by all clusters."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lightcluster import recipe
from lightcluster.errors import RootfsError

_BUILD_LIMIT_S = 900


def cache_dir() -> Path:
    """Where root file systems are kept: $HPCMGR_CACHE, or hpcmgr in the user's cache."""
    chosen = os.environ.get("HPCMGR_CACHE")
    return (Path(chosen) if chosen else Path.home() / ".cache" / "hpcmgr") / "rootfs"


def ensure(release: str) -> Path:
    """The root file system with this Slurm release; built first if the cache lacks it."""
    tree = cache_dir() / recipe.key(release)
    if not tree.is_dir():
        tree.parent.mkdir(parents=True, exist_ok=True)
        with _lock(tree.parent / f"{tree.name}.lock"):
            if not tree.is_dir():  # another builder may have finished while we waited
                _build(release, tree)
    return tree


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting for another builder ({path})")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(release: str, tree: Path) -> None:
    """Build under another name and rename: what bears the name is complete."""
    started = time.monotonic()
    partial = tree.with_name(f"{tree.name}.partial")
    _discard(partial)
    _say(
        f"building a root file system with Slurm {release} ({recipe.suite(release)}), "
        "about a minute, once"
    )
    try:
        _mmdebstrap(release, partial)
        found = _slurm_version(partial)
        if not found.startswith(f"{release}."):
            raise RootfsError(
                f"Debian {recipe.suite(release)} now has Slurm {found}, not {release}: "
                "correct SUITES in lightcluster/recipe.py"
            )
        partial.rename(tree)
    finally:
        _discard(partial)
    _say(f"Slurm {found} is in {tree} ({time.monotonic() - started:.0f} s)")


def _mmdebstrap(release: str, target: Path) -> None:
    build = recipe.mmdebstrap_argv(release, target, os.environ.get("HPCMGR_DEBIAN_MIRROR"))
    # The namespaces die with this process, and mounts and package scripts die with them.
    argv = [
        "setpriv",
        "--pdeathsig=KILL",
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        *build,
    ]
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        output, _ = process.communicate(timeout=_BUILD_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise RootfsError(f"mmdebstrap did not finish within {_BUILD_LIMIT_S} s") from None
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0:
        tail = "\n".join(output.splitlines()[-15:])
        raise RootfsError(
            f"mmdebstrap could not build {recipe.suite(release)} (exit {process.returncode}). "
            f"Can this machine reach a Debian mirror? HPCMGR_DEBIAN_MIRROR names one.\n{tail}"
        )


def _slurm_version(tree: Path) -> str:
    done = subprocess.run(
        ["chroot", tree, "slurmctld", "-V"], capture_output=True, text=True, check=False, timeout=30
    )
    match = re.search(r"(\d+\.\d+\.\d+)", done.stdout)
    if not match:
        raise RootfsError(f"slurmctld -V in {tree} said: {done.stdout}{done.stderr}")
    return match[1]


def _discard(tree: Path) -> None:
    if tree.exists():
        shutil.rmtree(tree)


def _say(text: str) -> None:
    print(f"lightcluster: {text}", file=sys.stderr, flush=True)
