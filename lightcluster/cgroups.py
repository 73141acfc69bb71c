"""Control groups: one sub-tree for each cluster and in it one for each of its hosts.

A host then has a cgroup namespace of its own, so that Slurm finds the root it expects and two
clusters on one machine never meet. Tested with cgroup v1; v2 follows the documentation.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

# What Slurm's cgroup/v1 plugin may ask for; devices and freezer are the ones it must have.
_WANTED = frozenset({"devices", "freezer", "memory", "cpuset", "cpu", "cpuacct"})
_REMOVE_LIMIT_S = 5.0


@dataclass(frozen=True)
class Hierarchy:
    """A mounted cgroup hierarchy and the directory in which this process may make groups."""

    version: int
    name: str
    options: str
    directory: Path


def hierarchies(mountinfo: str | None = None, own: str | None = None) -> list[Hierarchy]:
    """The v1 hierarchies Slurm can use; where devices is not among them, the v2 one."""
    mountinfo = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    own = Path("/proc/self/cgroup").read_text() if own is None else own
    paths = _own_paths(own)
    found: dict[str, Hierarchy] = {}
    for line in mountinfo.splitlines():
        hierarchy = _hierarchy(line, paths)
        if hierarchy is not None:
            found[hierarchy.name] = hierarchy
    v1 = [each for each in found.values() if each.version == 1]
    if any("devices" in each.options.split(",") for each in v1):
        return v1
    return [each for each in found.values() if each.version == 2]


def _own_paths(own: str) -> dict[str, str]:
    """Controller → the group this process is in."""
    paths = {}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    return paths


def _hierarchy(line: str, paths: dict[str, str]) -> Hierarchy | None:
    """Read one line of mountinfo."""
    before, _, after = line.partition(" - ")
    mount_point = Path(before.split()[4])
    kind, _, super_options = after.split(" ", 2)
    if kind == "cgroup2":
        return Hierarchy(2, mount_point.name, "", mount_point)
    controllers = [name for name in super_options.split(",") if name in paths and name in _WANTED]
    if kind != "cgroup" or not controllers:
        return None
    inside = mount_point / paths[controllers[0]].lstrip("/")
    # In a container the path may be one of the world outside: then the mount's root is ours.
    directory = inside if inside.is_dir() else mount_point
    return Hierarchy(1, mount_point.name, ",".join(controllers), directory)


def cluster_dirs(name: str, tree: list[Hierarchy]) -> list[Path]:
    """The directories that belong to the cluster of this name."""
    return [each.directory / f"hpcmgr-{name}" for each in tree]


def create(directory: Path, hierarchy: Hierarchy) -> Path:
    """Make a group that processes can enter at once."""
    directory.mkdir(exist_ok=True)
    if "cpuset" in hierarchy.options.split(","):
        for setting in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group
            (directory / setting).write_text((directory.parent / setting).read_text())
    if hierarchy.version == 2:
        _delegate(directory.parent)
    return directory


def _delegate(parent: Path) -> None:
    """v2 only: let the children of ``parent`` have the controllers that it has itself."""
    wanted = (parent / "cgroup.controllers").read_text().split()
    for controller in wanted:
        with contextlib.suppress(OSError):  # one that cannot be had is Slurm's to report
            (parent / "cgroup.subtree_control").write_text(f"+{controller}")


def enter(directory: Path) -> None:
    """Move this process into the group."""
    (directory / "cgroup.procs").write_text("0")


def remove(directory: Path) -> None:
    """Remove a group with all below it; the last processes may still be on their way out."""
    limit = time.monotonic() + _REMOVE_LIMIT_S
    for group in sorted(_groups(directory), reverse=True):
        while True:
            try:
                group.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                if time.monotonic() > limit:
                    raise
                time.sleep(0.01)
                continue
            break


def thaw(directory: Path) -> None:
    """Let processes go on that Slurm had frozen to end them: frozen, not even SIGKILL ends one."""
    for group in _groups(directory):
        state = group / "freezer.state"
        if state.exists():
            state.write_text("THAWED")


def _groups(directory: Path) -> list[Path]:
    return [Path(place) for place, _, _ in os.walk(directory)]
