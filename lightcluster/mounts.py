"""What a host of the cluster sees: its root, /dev, /proc, /sys, and what is its own."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from lightcluster import linux
from lightcluster.cgroups import Hierarchy
from lightcluster.devices import DeviceNode
from lightcluster.layout import Layout, Member
from lightcluster.spec import hosts_file

# Fixed numbers of the root file system's recipe.
_ACCEL_GID = 2100
_MUNGE = "munge"
_MYSQL = "mysql"
_SLURM = "slurm"

_STANDARD = (
    DeviceNode("/dev/null", "c", 1, 3, 0o666),
    DeviceNode("/dev/zero", "c", 1, 5, 0o666),
    DeviceNode("/dev/full", "c", 1, 7, 0o666),
    DeviceNode("/dev/random", "c", 1, 8, 0o666),
    DeviceNode("/dev/urandom", "c", 1, 9, 0o666),
    DeviceNode("/dev/tty", "c", 5, 0, 0o666),
)
_LINKS = {
    "ptmx": "pts/ptmx",
    "fd": "/proc/self/fd",
    "stdin": "fd/0",
    "stdout": "fd/1",
    "stderr": "fd/2",
}
# Places where a compute node must not see what another one wrote.
_PRIVATE = {
    "etc/hpcmgr": 0o755,
    "var/lib/hpcmgr": 0o755,
    "var/spool/slurmd": 0o755,
    "tmp": 0o1777,
}


def make_root(layout: Layout, base: Path) -> Path:
    """The root all hosts share: the cached tree below, memory above, so the cache stays clean.

    The upper layer is a tmpfs: it goes with the last process, and it works where this machine's
    own root is an overlay, too.
    """
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    linux.tmpfs(base)
    upper, work, root = base / "upper", base / "work", base / "root"
    for place in (upper, work, root):
        place.mkdir()
    lower = layout.rootfs.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")
    linux.mount("overlay", root, "overlay", 0, f"lowerdir={lower},upperdir={upper},workdir={work}")
    linux.mount("proc", root / "proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    linux.bind(layout.checkout, root / "opt/hpcmgr", read_only=True)
    table = {member.name: member.address for member in layout.members}
    (root / "etc/hosts").write_text(hosts_file(table))
    # Names are in /etc/hosts or nowhere: asking a name server would only stall.
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
    _make_run(root)
    return root


def furnish(root: Path, member: Member, tree: list[Hierarchy]) -> None:
    """The mounts of one host; called in its own mount and cgroup namespace."""
    _make_dev(root / "dev", member.devices)
    _mount_cgroups(root / "sys", tree)
    if not member.compute:
        return
    for place, mode in _PRIVATE.items():
        linux.tmpfs(root / place, mode)
    _make_node_run(root)
    if member.host:
        linux.bind(member.host, root / "host", read_only=True)


def _ids(root: Path, user: str) -> tuple[int, int]:
    """The uid and gid of a user of the tree."""
    for line in (root / "etc/passwd").read_text().splitlines():
        fields = line.split(":")
        if fields[0] == user:
            return int(fields[2]), int(fields[3])
    raise LookupError(f"{root}/etc/passwd has no user {user}")


def _make_run(root: Path) -> None:
    run = root / "run"
    linux.tmpfs(run)
    for name, user in (("munge", _MUNGE), ("mysqld", _MYSQL), ("hpcmgr", _SLURM)):
        (run / name).mkdir()
        os.chown(run / name, *_ids(root, user))
    (run / "lock").mkdir(mode=0o777)


def _make_node_run(root: Path) -> None:
    """A node's /run is its own, but munged serves all: a socket file crosses namespaces."""
    draft = root / "mnt"
    linux.tmpfs(draft)
    for name in ("munge", "hpcmgr", "lock"):
        (draft / name).mkdir()
    linux.bind(root / "run/munge", draft / "munge")
    linux.mount(str(draft), root / "run", flags=linux.MS_MOVE)


def _make_dev(dev: Path, recorded: list[DeviceNode]) -> None:
    """A /dev with what programs need and the recorded devices; nothing of this machine's."""
    linux.tmpfs(dev)
    for node in _STANDARD:
        _mknod(dev, node)
    for name, target in _LINKS.items():
        (dev / name).symlink_to(target)
    linux.tmpfs(dev / "shm", 0o1777)
    (dev / "pts").mkdir()
    linux.mount(
        "devpts",
        dev / "pts",
        "devpts",
        linux.MS_NOSUID | linux.MS_NOEXEC,
        "newinstance,ptmxmode=0666,mode=620,gid=5",
    )
    # A recording also lists what every machine has; the node's own /dev/null stays.
    for node in recorded:
        if not os.path.lexists(dev / Path(node.path).relative_to("/dev")):
            os.chown(_mknod(dev, node), 0, _ACCEL_GID)


def _mknod(dev: Path, node: DeviceNode) -> Path:
    path = dev / Path(node.path).relative_to("/dev")
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = stat.S_IFCHR if node.type == "c" else stat.S_IFBLK
    os.mknod(path, kind | node.mode, os.makedev(node.major, node.minor))
    path.chmod(node.mode)  # mknod obeys the umask
    return path


def _mount_cgroups(sys: Path, tree: list[Hierarchy]) -> None:
    """/sys holds the control groups only: this machine's own hardware must not show."""
    linux.tmpfs(sys)
    root = sys / "fs/cgroup"
    if tree[0].version == 2:
        root.mkdir(parents=True)
        linux.mount("cgroup2", root, "cgroup2")
        _settle_v2(root)
        return
    linux.tmpfs(root)
    for hierarchy in tree:
        (root / hierarchy.name).mkdir()
        linux.mount("cgroup", root / hierarchy.name, "cgroup", 0, hierarchy.options)


def _settle_v2(root: Path) -> None:
    """Leave the host's group to its children, as cgroup v2 demands; not tested.

    Slurm finds its place by the group of process 1, which here is another host's: the file that
    tells it is covered.
    """
    holder = root / "holder"
    holder.mkdir()
    (holder / "cgroup.procs").write_text("0")
    told = root.parents[2] / "run/cgroup-of-init"
    told.write_text("0::/\n")
    linux.bind(told, root.parents[2] / "proc/1/cgroup")
