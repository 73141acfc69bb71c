"""The few Linux calls that Python 3.11 does not have: namespaces, mounts, death signals."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_MOVE = 0x2000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        errno = ctypes.get_errno()
        raise OSError(errno, f"{what}: {os.strerror(errno)}")


def unshare(flags: int) -> None:
    """Leave the namespaces named by ``flags`` for new ones."""
    _check(_libc.unshare(flags), f"unshare({flags:#x})")


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, however that ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def mount(
    source: str, target: str | Path, fstype: str = "", flags: int = 0, data: str = ""
) -> None:
    """mount(2), with an error that names source and target."""
    result = _libc.mount(
        source.encode(),
        os.fsencode(target),
        fstype.encode() or None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _check(result, f"mount {fstype or 'bind'} {source} on {target}")


def bind(source: str | Path, target: str | Path, *, read_only: bool = False) -> None:
    """Show ``source`` at ``target``; the kernel makes a bind read-only only by a remount."""
    mount(str(source), target, flags=MS_BIND | MS_REC)
    if read_only:
        mount("none", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def tmpfs(target: str | Path, mode: int = 0o755) -> None:
    """A fresh, empty tmpfs on ``target``, which is made where it is missing."""
    Path(target).mkdir(parents=True, exist_ok=True)
    mount("tmpfs", target, "tmpfs", MS_NOSUID, f"mode={mode:o}")


def pivot_root(new_root: Path) -> None:
    """Make ``new_root`` the root and let go of the old one altogether."""
    os.chdir(new_root)
    # The old root is stacked on the new one and unmounted from there: no directory is needed.
    _check(_libc.pivot_root(b".", b"."), f"pivot_root {new_root}")
    _check(_libc.umount2(b".", MNT_DETACH), "umount of the old root")
    os.chdir("/")


def set_hostname(name: str) -> None:
    """Set the host name of this UTS namespace."""
    _check(_libc.sethostname(name.encode(), ctypes.c_size_t(len(name))), f"sethostname {name}")
