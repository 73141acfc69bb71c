"""The daemons of a cluster: how each is started, known to be ready, and stopped."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lightcluster.enter import Host
from lightcluster.errors import StartError, WaitError
from lightcluster.waiting import wait_until

# A daemon joins its host's control groups first: nsenter does not move what it starts.
# (The second part is for cgroup v2, where a group with children holds no processes; not tested.)
_IN_CGROUP = """
for procs in /sys/fs/cgroup/*/cgroup.procs; do
    [ -f "$procs" ] && echo 0 >"$procs"
done
if [ -f /sys/fs/cgroup/cgroup.procs ]; then
    mkdir -p /sys/fs/cgroup/daemons && echo 0 >/sys/fs/cgroup/daemons/cgroup.procs
fi
exec "$@"
"""
_START_LIMIT_S = 30
_STOP_LIMIT_S = 10


@dataclass(frozen=True)
class Daemon:
    """One daemon on one host."""

    name: str
    host: Host
    argv: tuple[str, ...]
    pidfile: str
    log: str
    user: str = "root"
    port: int | None = None
    socket: str | None = None

    def launch(self) -> int:
        """Start it; returns, when it is in the background, how long its log was before."""
        logged = len(self._log())
        done = self.host.run(self.argv, user=self.user, timeout=_START_LIMIT_S)
        if done.returncode != 0:
            raise StartError(
                f"{self.name} did not start (exit {done.returncode}): "
                f"{done.stdout}{done.stderr}\n{self.tail()}"
            )
        return logged

    def wait_ready(self, logged: int) -> None:
        """Wait until others can talk to it; what it logs from ``logged`` on may end that."""

        def ready() -> bool:
            fatal = [line for line in self._log()[logged:].splitlines() if "fatal:" in line]
            if fatal and self.pid() is None:
                raise StartError(f"{self.name} did not start: {fatal[0]}\n{self.tail()}")
            return self._ready()

        wait_until(ready, _START_LIMIT_S, f"{self.name} to be ready", self.tail)

    def _ready(self) -> bool:
        if self.pid() is None:
            return False
        if self.socket is not None:
            return (self.host.root / self.socket).is_socket()
        return self.port is None or is_listening(self.host, self.port)

    def pid(self) -> int | None:
        """Its number inside the cluster; None if it does not run."""
        try:
            pid = int((self.host.root / self.pidfile).read_text())
            command = (self.host.root / f"proc/{pid}/comm").read_text().strip()
        except (OSError, ValueError):
            return None
        return pid if self.name.startswith(command.removesuffix("-wlm")) else None

    def stop(self) -> None:
        """End it with SIGTERM, and with SIGKILL where that does not help."""
        for signal in ("TERM", "KILL"):
            pid = self.pid()
            if pid is None:
                return
            self.host.run(["kill", f"-{signal}", str(pid)])
            if self._ended(pid):
                return
        raise StartError(f"{self.name} does not end, not even by SIGKILL\n{self.tail()}")

    def _ended(self, pid: int) -> bool:
        place = self.host.root / f"proc/{pid}"
        try:
            return wait_until(lambda: not place.exists(), _STOP_LIMIT_S, f"{self.name} to end")
        except WaitError:  # the next signal is the answer
            return False

    def tail(self, lines: int = 30) -> str:
        """The end of its log, under a heading."""
        return "\n".join([f"--- {self.name} ({self.log})", *self._log().splitlines()[-lines:]])

    def _log(self) -> str:
        return read_log(self.host.root / self.log)


def read_log(path: Path) -> str:
    """A log as far as it is written; empty before its first line and after the cluster's end."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def is_listening(host: Host, port: int) -> bool:
    """Whether something in the host's network listens on a TCP port."""
    lines = Path(f"/proc/{host.pid}/net/tcp").read_text().splitlines()[1:]
    rows = (line.split() for line in lines)
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


def munged(controller: Host) -> Daemon:
    """One munged serves all hosts of the cluster, through its socket in /run/munge."""
    return Daemon(
        "munged",
        controller,
        ("munged", "--num-threads=4"),
        "run/munge/munged.pid",
        "var/log/munge/munged.log",
        user="munge",
        socket="run/munge/munge.socket.2",
    )


def mariadb(controller: Host) -> Daemon:
    """The database; it does not go to the background by itself."""
    script = "setsid --fork mariadbd --user=mysql >>/var/log/mariadbd.log 2>&1"
    return Daemon(
        "mariadbd",
        controller,
        ("sh", "-c", script),
        "run/mysqld/mysqld.pid",
        "var/log/mariadbd.log",
        socket="run/mysqld/mysqld.sock",
    )


def slurmdbd(controller: Host) -> Daemon:
    """The accounting daemon."""
    return Daemon(
        "slurmdbd",
        controller,
        ("slurmdbd",),
        "run/slurmdbd.pid",
        "var/log/slurm/slurmdbd.log",
        port=6819,
    )


def slurmctld(controller: Host) -> Daemon:
    """The controller."""
    return Daemon(
        "slurmctld",
        controller,
        ("slurmctld",),
        "run/slurmctld.pid",
        "var/log/slurm/slurmctld.log",
        port=6817,
    )


def slurmd(host: Host) -> Daemon:
    """A compute node's daemon."""
    return Daemon(
        f"slurmd@{host.name}",
        host,
        ("sh", "-c", _IN_CGROUP, "slurmd", "slurmd"),
        "run/slurmd.pid",
        f"var/log/slurm/slurmd-{host.name}.log",
        port=6818,
    )


def start_all(daemons: list[Daemon]) -> None:
    """Start several at once and wait for all of them; the first error is raised at the end."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        launched = [pool.submit(daemon.launch) for daemon in daemons]
    for daemon, future in zip(daemons, launched, strict=True):
        daemon.wait_ready(future.result())
