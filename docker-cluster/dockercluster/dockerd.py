"""The Docker daemon: the one that answers already, or one of our own, started once and briefly.

Ours has its own data, socket and process id, makes no bridge and no firewall rules (its containers
talk to each other only), and ends with the last cluster.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import DockerException

from dockercluster.errors import NoDocker
from lightcluster import needs
from lightcluster.errors import NeedsError
from lightcluster.rootfs import cache_dir

PLACE = Path("/run/hpcmgr-docker")
SOCKET = f"unix://{PLACE}/docker.sock"
_PING_S = 5
_CALL_S = 600  # the longest command a caller runs in a container
_CGROUP = "hpcmgr-docker"  # the parent of our containers' control groups
_START_S = 40
_STOP_S = 40
_PACKAGE = "docker.io"


@dataclass(frozen=True)
class Docker:
    """A client of a daemon that answers. ``own``: we started it and may end it."""

    client: docker.DockerClient
    own: bool

    @property
    def command(self) -> str:
        """How a person calls ``docker`` for this daemon."""
        return f"docker -H {SOCKET}" if self.own else "docker"


def data_root() -> Path:
    """Where our daemon keeps images: beside the root file systems they are made of."""
    return cache_dir().parent / "docker"


def find() -> Docker | None:
    """The daemon that answers (DOCKER_HOST, or Docker's usual socket), else our own."""
    usual = _connect(None)
    if usual is not None:
        return Docker(usual, own=False)
    own = _connect(SOCKET)
    return Docker(own, own=True) if own is not None else None


def _connect(url: str | None) -> docker.DockerClient | None:
    try:
        client = (
            docker.DockerClient(base_url=url, timeout=_PING_S)
            if url
            else docker.from_env(timeout=_PING_S)
        )
        client.ping()
    except (DockerException, OSError):
        return None
    client.api.timeout = _CALL_S
    return client


def ensure(*, install: bool) -> Docker:
    """A daemon that answers; one of our own is started where root may.

    ``install``: on Debian, fetch it with apt-get where it is missing.

    Raises:
        NoDocker: there is none, with the reason.
    """
    found = find()
    if found is not None:
        return found
    _refuse(install=install)
    return Docker(_start(), own=True)


def _refuse(*, install: bool) -> None:
    """Say why no daemon can be started here, or make it possible."""
    if not sys.platform.startswith("linux"):
        raise NoDocker("no Docker daemon answers: start Docker, or set DOCKER_HOST")
    if os.geteuid() != 0:
        raise NoDocker(
            "no Docker daemon answers, and only root can start one: start Docker (and be in the "
            "group docker), set DOCKER_HOST, or run this as root"
        )
    if shutil.which("dockerd"):
        return
    if not install:
        raise NoDocker(f"no Docker daemon answers, and dockerd is not installed ({_PACKAGE})")
    try:
        needs.install([_PACKAGE], needs.machine())
    except NeedsError as error:
        raise NoDocker(f"no Docker daemon answers: {error}") from error


def _start() -> docker.DockerClient:
    """One try with a limit; what it said is in the error."""
    data_root().mkdir(parents=True, exist_ok=True)
    PLACE.mkdir(mode=0o700, exist_ok=True)
    print("docker-cluster: no Docker daemon answers; starting one", file=sys.stderr, flush=True)
    with (PLACE / "log").open("w") as log:
        process = subprocess.Popen(
            [
                "dockerd",
                f"--data-root={data_root()}",
                f"--exec-root={PLACE}/exec",
                f"--pidfile={PLACE}/dockerd.pid",
                f"--host={SOCKET}",
                f"--cgroup-parent=/{_CGROUP}",
                "--bridge=none",
                "--iptables=false",
                "--ip6tables=false",
                "--ip-forward=false",
                "--log-level=warn",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    limit = time.monotonic() + _START_S
    while time.monotonic() < limit and process.poll() is None:
        client = _connect(SOCKET)
        if client is not None:
            return client
        time.sleep(0.2)
    status = process.poll()
    how = f"gave no answer within {_START_S} s" if status is None else f"ended (exit {status})"
    _end(process.pid)
    process.wait()
    said = "\n".join((PLACE / "log").read_text(errors="replace").splitlines()[-8:])
    _remove_place()
    raise NoDocker(f"no Docker daemon answers, and dockerd cannot run here: it {how}\n{said}")


def stop(found: Docker, *, cache: bool = False) -> None:
    """End our own daemon unless somebody's containers run in it; ``cache``: its images, too."""
    if not found.own or found.client.containers.list(all=True):
        return
    found.client.close()
    pid = _own_pid()
    if pid is not None:
        _end(pid)
    _remove_place()
    for group in _groups():
        with contextlib.suppress(OSError):  # not empty: not ours alone
            group.rmdir()
    if cache:
        remove_data()


def remove_data() -> None:
    """Remove the images of our daemon, which does not run."""
    shutil.rmtree(data_root(), ignore_errors=True)


def _remove_place() -> None:
    """The daemon's run directory, with the network namespace that it leaves mounted there."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place = Path(line.split()[4])
        if place.is_relative_to(PLACE):
            subprocess.run(["umount", "--lazy", str(place)], check=False)
    shutil.rmtree(PLACE, ignore_errors=True)


def _groups() -> list[Path]:
    """Our containers' parent group: one in each hierarchy (v1), or one in all (v2)."""
    root = Path("/sys/fs/cgroup")
    return [*root.glob(f"*/{_CGROUP}"), *root.glob(_CGROUP)]


def _own_pid() -> int | None:
    """The daemon's process, if the number in its file is still its own."""
    try:
        pid = int((PLACE / "dockerd.pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_text()
    except (OSError, ValueError):
        return None
    return pid if SOCKET in command else None


def _end(pid: int) -> None:
    """TERM, and KILL where that is not enough."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        limit = time.monotonic() + _STOP_S
        while time.monotonic() < limit:
            if not Path(f"/proc/{pid}").exists() or _is_zombie(pid):
                return
            time.sleep(0.1)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
