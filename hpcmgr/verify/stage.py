"""A stage for throw-away daemons: a network of their own, a directory of their own, a certain end.

The daemons run with auth/none, so nobody else may reach them: they get a network namespace in
which only ``lo`` exists. root makes one directly; an ordinary user makes a user namespace around
it. There the user must not be root, who could not drop groups, nor nobody, whom Slurm refuses, and
must have a passwd entry: who lacks it poses as another user, inside only.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from hpcmgr.errors import CommandError, CommandTimeout
from hpcmgr.slurm.command import Output

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_SIOCSIFFLAGS = 0x8914
_SIOCSIFADDR = 0x8916
_IFF_UP_LOOPBACK_RUNNING = 0x1 | 0x8 | 0x40
_SECONDS_TO_END = 3.0
_NOBODY = 65534

_libc = ctypes.CDLL(None, use_errno=True)


class StageError(Exception):
    """This machine gives no private network to this user."""


class Stage:
    """Directory, network namespace and processes; leaving the context ends and removes them all."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="hpcmgr-verify-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._holder: subprocess.Popen[bytes] | None = None
        self._inner_uid = _usable_uid()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def user(self) -> str:
        """The name under which processes run here."""
        uid = os.geteuid() if self._holder is None else self._inner_uid
        return pwd.getpwuid(uid).pw_name if _has_entry(uid) else str(uid)

    def open_network(self) -> None:
        """Make the private network; from then on every process starts in it.

        Raises:
            StageError: the kernel or a sandbox forbids it.
        """
        ready, told = os.pipe()
        try:
            with _signals_wait():
                # cat ends when its standard input does, with this process at the latest.
                holder = subprocess.Popen(
                    ["cat"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    preexec_fn=lambda: _enter_new_network(self._inner_uid, told),
                )
                self._holder = holder
                self._processes.append(holder)
        except (OSError, subprocess.SubprocessError) as problem:
            os.close(told)
            reason = os.read(ready, 200).decode(errors="replace")
            raise StageError(reason or str(problem)) from problem
        else:
            os.close(told)
        finally:
            os.close(ready)

    def start(
        self, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a daemon in the foreground; both its outputs go to ``log``."""
        with log.open("wb") as file:
            return self._popen(argv, file, env)

    def run(
        self, argv: Sequence[str], timeout: float, env: Mapping[str, str] | None = None
    ) -> Output:
        """Run a program to its end; both outputs are in ``stdout``, in their order.

        Raises:
            CommandTimeout: it did not end in time; it has been killed.
        """
        with tempfile.TemporaryFile() as file:
            process = self._popen(argv, file, env)
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired as problem:
                raise CommandTimeout(argv, timeout) from problem
            finally:
                _kill(process)
                self._processes.remove(process)
            file.seek(0)
            return Output(process.returncode, file.read().decode(errors="replace"), "")

    def _popen(
        self, argv: Sequence[str], output: IO[bytes], env: Mapping[str, str] | None
    ) -> subprocess.Popen[bytes]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "HWLOC"))}
        try:
            with _signals_wait():
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**clean, "LC_ALL": "C", **(env or {})},
                    cwd=self.directory,
                    # Ctrl-C is for this program; it ends the daemons in its own way.
                    start_new_session=True,
                    preexec_fn=self._join(),
                )
                self._processes.append(process)
        except (OSError, subprocess.SubprocessError) as problem:
            raise CommandError(argv, None, str(problem)) from problem
        return process

    def _join(self) -> Callable[[], None]:
        if self._holder is None:
            return _begin_child
        spaces = Path(f"/proc/{self._holder.pid}/ns")
        names = ["net"] if os.geteuid() == 0 else ["user", "net"]

        def join() -> None:
            _begin_child()
            for name in names:
                handle = os.open(spaces / name, os.O_RDONLY)
                _check(_libc.setns(handle, 0), f"setns {name}")
                os.close(handle)

        return join

    def close(self) -> None:
        """End every process (politely, then not) and remove the directory.

        A second Ctrl-C or SIGTERM waits until this is done: it takes seconds at most.
        """
        with _signals_wait():
            self._end_processes()
            shutil.rmtree(self.directory, ignore_errors=True)

    def _end_processes(self) -> None:
        living = [p for p in reversed(self._processes) if p.poll() is None]
        for process in living:
            process.terminate()
        deadline = time.monotonic() + _SECONDS_TO_END
        for process in living:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        for process in self._processes:
            _kill(process)
            if process.stdin:
                process.stdin.close()
        self._processes.clear()


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


_ENDING = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait: Python loses an exception of a signal that comes while it forks, and
    a process that is not yet listed, or a directory half removed, would stay behind."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_child() -> None:
    """In every child: it dies with this process, and takes signals again."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for number in _ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def _usable_uid() -> int:
    """The own uid where Slurm takes it, else one that it does."""
    own = os.geteuid()
    if own != _NOBODY and _has_entry(own):
        return own
    known = sorted(entry.pw_uid for entry in pwd.getpwall())
    return next((uid for uid in known if uid not in {0, _NOBODY}), own)


def _has_entry(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _group_of(uid: int, default: int) -> int:
    # slurmctld changes to its user's own group.
    return pwd.getpwuid(uid).pw_gid if _has_entry(uid) else default


def _enter_new_network(inner_uid: int, told: int) -> None:
    """In the child: its own network with ``lo`` up; what fails is written to ``told``."""
    try:
        _begin_child()
        uid, gid = os.geteuid(), os.getegid()
        if uid == 0:
            _check(_libc.unshare(_CLONE_NEWNET), "a network namespace")
        else:
            _check(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET), "a user namespace")
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{inner_uid} {uid} 1")
            Path("/proc/self/gid_map").write_text(f"{_group_of(inner_uid, gid)} {gid} 1")
        _bring_up_loopback()
    except OSError as problem:
        os.write(told, str(problem.strerror or problem).encode())
        raise


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        up = struct.pack("16sH14x", b"lo", _IFF_UP_LOOPBACK_RUNNING)
        fcntl.ioctl(handle, _SIOCSIFFLAGS, up)
        # glibc takes a machine whose only address is 127.0.0.1 for one without IPv4
        # (AI_ADDRCONFIG), and Slurm could not listen: a second address helps.
        address = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, bytes((127, 0, 0, 2)))
        fcntl.ioctl(handle, _SIOCSIFADDR, address)
