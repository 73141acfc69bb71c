"""What a machine must have to run a light cluster, and how it gets what it lacks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lightcluster import cgroups
from lightcluster.errors import NeedsError

# program → the Debian package it comes in
TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
_DEBIAN = ("12", "13")
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True)
class Machine:
    """What the checks look at, so that tests can show them any machine."""

    platform: str
    uid: int
    os_release: dict[str, str]
    which: Callable[[str], str | None]
    keyring: bool
    namespaces: bool
    overlay: bool
    cgroup_versions: tuple[int, ...]
    can_mknod: bool

    @property
    def installs(self) -> bool:
        """Whether missing packages may be installed here without asking."""
        return (
            self.os_release.get("ID") == "debian"
            and self.os_release.get("VERSION_ID") in _DEBIAN
            and self.which("apt-get") is not None
        )

    @property
    def title(self) -> str:
        """The system's name for messages."""
        return self.os_release.get("PRETTY_NAME", "this system")


def ensure() -> None:
    """Raise NeedsError unless a light cluster can run here; install what is missing on Debian."""
    refuse_hopeless(sys.platform, os.geteuid())
    packages = missing_packages(machine())
    if packages:
        install(packages, machine())
    problems = kernel_problems(machine())
    if problems:
        raise NeedsError("a light cluster cannot run here: " + "; ".join(problems))


def refuse_hopeless(platform: str, uid: int) -> None:
    """What nothing on this machine can change."""
    if not platform.startswith("linux"):
        raise NeedsError(
            f"a light cluster needs Linux namespaces; this is {platform}. "
            "Run it in a Linux virtual machine."
        )
    if uid != 0:
        raise NeedsError(
            "a light cluster makes namespaces, mounts and device nodes: run it as root (sudo)."
        )


def missing_packages(here: Machine) -> list[str]:
    """The Debian packages whose programs are not there."""
    packages = {package for tool, package in TOOLS.items() if here.which(tool) is None}
    if not here.keyring:
        packages.add("debian-archive-keyring")
    return sorted(packages)


def install(packages: list[str], here: Machine) -> None:
    """Install with apt-get on a Debian known to work; elsewhere say what is missing."""
    names = " ".join(packages)
    if not here.installs:
        raise NeedsError(
            f"a light cluster needs {names}, and {here.title} is not Debian "
            f"{' or '.join(_DEBIAN)}, where they would be installed now: install them yourself"
        )
    print(f"lightcluster: installing {names} with apt-get", file=sys.stderr, flush=True)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for argv in (
        ["apt-get", "-qq", "update"],
        ["apt-get", "-qq", "install", "--no-install-recommends", "-y", *packages],
    ):
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NeedsError(f"{' '.join(argv)} failed: {done.stderr.strip()}")


def kernel_problems(here: Machine) -> list[str]:
    """What the kernel, or the container around us, withholds."""
    problems = []
    if not here.namespaces:
        problems.append(
            "mount, pid, net, uts, ipc or cgroup namespaces cannot be made (in a "
            "container, add CAP_SYS_ADMIN and seccomp=unconfined)"
        )
    if not here.overlay:
        problems.append("the kernel has no overlayfs (modprobe overlay)")
    if not here.cgroup_versions:
        problems.append(
            "no cgroup v1 hierarchy with the devices controller and no cgroup v2 is "
            "mounted and writable under /sys/fs/cgroup"
        )
    if not here.can_mknod:
        problems.append(
            "device nodes cannot be made or opened (in a container, add "
            "--device-cgroup-rule='c *:* rwm')"
        )
    return problems


def machine() -> Machine:
    """The machine we are on."""
    return Machine(
        platform=sys.platform,
        uid=os.geteuid(),
        os_release=_os_release(),
        which=shutil.which,
        keyring=_KEYRING.exists(),
        namespaces=_namespaces_work(),
        overlay=_has_overlay(),
        cgroup_versions=_writable_cgroups(),
        can_mknod=_devices_work(),
    )


def _os_release() -> dict[str, str]:
    path = Path("/etc/os-release")
    if not path.is_file():
        return {}
    pairs = (line.partition("=") for line in path.read_text().splitlines() if "=" in line)
    return {key: value.strip("\"'") for key, _, value in pairs}


def _namespaces_work() -> bool:
    argv = ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--fork", "true"]
    try:
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _has_overlay() -> bool:
    known = Path("/proc/filesystems")
    if "\toverlay\n" not in known.read_text() and shutil.which("modprobe"):
        subprocess.run(["modprobe", "overlay"], capture_output=True, check=False)
    return "\toverlay\n" in known.read_text()


def _writable_cgroups() -> tuple[int, ...]:
    found = cgroups.hierarchies()
    return tuple(sorted({each.version for each in found if os.access(each.directory, os.W_OK)}))


def _devices_work() -> bool:
    """Make a node that no driver answers and open it, in a mount namespace of a child's own."""
    script = "mount -t tmpfs none /mnt && mknod /mnt/probe c 4000 0 && cat /mnt/probe 2>&1 || true"
    try:
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
        )
    except FileNotFoundError:
        return False
    return "No such device" in done.stdout
