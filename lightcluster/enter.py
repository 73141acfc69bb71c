"""Running programs inside a host of the cluster: one nsenter each, a few milliseconds."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lightcluster.errors import CommandError, LightClusterError, WaitError

Completed = subprocess.CompletedProcess[str]

_NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Login:
    """A user of the cluster."""

    name: str
    uid: int
    gid: int
    home: str


ROOT = Login("root", 0, 0, "/root")


def login(root: Path, name: str) -> Login:
    """Find a user in the root's /etc/passwd."""
    if name == "root":
        return ROOT
    for line in (root / "etc/passwd").read_text().splitlines():
        fields = line.split(":")
        if fields[0] == name:
            return Login(name, int(fields[2]), int(fields[3]), fields[5])
    raise LightClusterError(f"the cluster has no user {name}; there is alice, bob, slurm, root")


@dataclass(frozen=True)
class Host:
    """A host that can be entered: its name, the process that holds its namespaces, its CPUs."""

    name: str
    pid: int
    hwloc: str

    @property
    def root(self) -> Path:
        """The host's root as this machine sees it; only for paths without symbolic links."""
        return Path(f"/proc/{self.pid}/root")

    def environment(self, user: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """A login's environment; nothing of the caller's own, so that runs are alike everywhere.

        The host's CPUs belong in it: any ``slurmd -C`` or ``-G`` writes what it sees into the
        cache that the node's daemon reads at the next reconfigure.
        """
        return {
            "PATH": _PATH,
            "HOME": login(self.root, user).home,
            "USER": user,
            "LOGNAME": user,
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "HWLOC_SYNTHETIC": self.hwloc,
            **(extra or {}),
        }

    def command(self, argv: Sequence[str], user: str, cwd: str | None = None) -> list[str]:
        """The command line that runs ``argv`` here as ``user``."""
        who = login(self.root, user)
        has_home = (self.root / who.home.lstrip("/")).is_dir()
        place = cwd or (who.home if has_home else "/")
        enter = [shutil.which("nsenter") or "nsenter", f"--target={self.pid}", *_NAMESPACES, "--"]
        become = [] if who == ROOT else [
            "setpriv", f"--reuid={who.uid}", f"--regid={who.gid}", "--init-groups"
        ]  # fmt: skip
        return [*enter, *become, "env", f"--chdir={place}", *argv]

    def popen(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: int = subprocess.DEVNULL,
        output: Path | None = None,
    ) -> subprocess.Popen[str]:
        """Start a program; its output goes to pipes, or both streams to the file ``output``."""
        command = self.command(argv, user, cwd)
        with contextlib.ExitStack() as stack:
            out: int | IO[str] = subprocess.PIPE
            if output is not None:
                out = stack.enter_context(output.open("a"))
            # A session of its own, so that a program that hangs can be killed with its nsenter.
            return subprocess.Popen(
                command,
                env=self.environment(user, env),
                text=True,
                errors="replace",
                stdin=stdin,
                stdout=out,
                stderr=subprocess.STDOUT if output else out,
                start_new_session=True,
            )

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        timeout: float = 60,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        input: str | None = None,  # noqa: A002 - as subprocess.run calls it
        check: bool = False,
    ) -> Completed:
        """Run a program to its end; with ``check`` a failure raises CommandError."""
        stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
        process = self.popen(argv, user=user, env=env, cwd=cwd, stdin=stdin)
        try:
            stdout, stderr = process.communicate(input, timeout=timeout)
        except subprocess.TimeoutExpired:
            _kill_group(process)
            stdout, stderr = process.communicate()
            raise WaitError(
                f"{shlex.join(argv)} on {self.name} did not end within {timeout:g} s; "
                f"it had said:\n{stdout}{stderr}"
            ) from None
        except BaseException:
            _kill_group(process)
            process.wait()
            raise
        done = subprocess.CompletedProcess(list(argv), process.returncode, stdout, stderr)
        if check and done.returncode != 0:
            raise CommandError(
                f"{shlex.join(argv)} on {self.name} as {user} gave exit {done.returncode}:\n"
                f"{stdout}{stderr}"
            )
        return done

    def write(self, path: str, text: str, *, owner: str = "root", mode: int = 0o644) -> None:
        """Write a file on this host, its folder too where that is missing."""
        script = 'mkdir -p "${1%/*}" && cat >"$1" && chmod "$2" "$1" && chown "$3:" "$1"'
        self.run(["sh", "-c", script, "write", path, f"{mode:o}", owner], input=text, check=True)

    def read(self, path: str) -> str:
        """A file of this host."""
        return self.run(["cat", path], check=True).stdout


def _kill_group(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Spawned:
    """A long-running program on a host, such as ``hpcmgr serve``."""

    def __init__(self, process: subprocess.Popen[str], log: Callable[[], str], what: str) -> None:
        self._process = process
        self._log = log
        self.what = what

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    @property
    def log(self) -> str:
        """All it has written to stdout and stderr so far."""
        return self._log()

    @property
    def returncode(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    def signal(self, number: int) -> None:
        """Send a signal to the program itself (and not to nsenter, which waits for it)."""
        for child in _children(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

    def stop(self, timeout: float = 10) -> int:
        """End it with SIGTERM, after ``timeout`` seconds with SIGKILL; returns its exit status."""
        limit = time.monotonic() + timeout
        while self.alive and time.monotonic() < limit:
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=0.5)
        _kill_group(self._process)
        return self._process.wait()


def _children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
