"""A real Slurm cluster in namespaces of this machine, up in seconds."""

from __future__ import annotations

import atexit
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from lightcluster import accounting, cgroups, daemons, layout, needs, rootfs, siteconf, state
from lightcluster.daemons import Daemon, is_listening, read_log
from lightcluster.enter import Completed, Host, Spawned
from lightcluster.errors import LightClusterError
from lightcluster.namespaces import Namespaces
from lightcluster.spec import CONTROLLER, NodeSpec
from lightcluster.waiting import wait_until

T = TypeVar("T")

_counter = itertools.count(1)
_SLURM_UID = 64030  # Debian's fixed uid of the user slurm
_LOST = ("down", "drain", "fail", "inval", "not_resp", "unk")


class LightCluster:
    """A controller (also the login node) and compute nodes, as a context manager.

    ``conf`` is what lies in /etc/slurm: files given here replace those of the reference site
    in slurm-conf/, the others stay. Without an ``hpcmgr.conf`` the nodes have no accelerators.
    Both are adapted to a small machine (siteconf.py says how) unless ``tune`` is false.
    """

    def __init__(
        self,
        release: str,
        nodes: Sequence[NodeSpec],
        conf: Path | Mapping[str, str] | None = None,
        *,
        accounting: bool = False,
        tune: bool = True,
        name: str | None = None,
        checkout: Path = siteconf.CHECKOUT,
    ) -> None:
        self.release = release
        self.nodes = list(nodes)
        self.name = name or f"{os.getpid()}-{next(_counter)}"
        self.accounting = accounting
        self._conf = conf
        self._tune = tune
        self._checkout = checkout
        self._namespaces: Namespaces | None = None
        self._daemons: dict[str, Daemon] = {}
        self._wanted: set[str] = set()
        self._spawned: list[Spawned] = []

    # --- coming and going ---

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Bring everything up; returns when all nodes are idle."""
        needs.ensure()
        tree = rootfs.ensure(self.release)
        state.remove_stale()
        try:
            self._make_namespaces(tree)
            self._start_daemons()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it at once and leave nothing behind; harmless when it does not run."""
        atexit.unregister(self.stop)
        namespaces, self._namespaces = self._namespaces, None
        if namespaces is not None:
            namespaces.close()
        for each in self._spawned:
            each.stop()
        self._spawned.clear()
        self._wanted.clear()

    def _make_namespaces(self, tree: Path) -> None:
        atexit.register(self.stop)
        self._namespaces = Namespaces(
            layout.plan(self.name, self.release, tree, self._checkout, self.nodes)
        )
        controller = self.controller
        known = [
            daemons.munged(controller),
            daemons.mariadb(controller),
            daemons.slurmdbd(controller),
            daemons.slurmctld(controller),
        ]
        known += [daemons.slurmd(self.node(spec.name)) for spec in self.nodes]
        self._daemons = {daemon.name: daemon for daemon in known}

    def _start_daemons(self) -> None:
        version = cgroups.hierarchies()[0].version
        files = siteconf.compose(
            self._conf,
            self.nodes,
            accounting=self.accounting,
            cgroup_version=version,
            tune=self._tune,
        )
        self.write_conf(files)
        if self.accounting:
            self._start_together("munged", "mariadbd")
            self.start_daemon("slurmdbd")
            accounting.populate(self.controller, accounting.cluster_name(files["slurm.conf"]))
        else:
            self._start_together("munged")
        self.start_daemon("slurmctld")
        self._start_together(*(f"slurmd@{spec.name}" for spec in self.nodes))
        self.wait_nodes_idle()

    @property
    def alive(self) -> bool:
        """Whether the cluster is up (somebody may have taken it down from outside)."""
        return self._namespaces is not None and self._namespaces.alive

    # --- running programs ---

    @property
    def controller(self) -> Host:
        """The host of slurmctld and of the users."""
        return self._host(CONTROLLER)

    def node(self, name: str) -> Host:
        """A compute node."""
        return self._host(name)

    def _host(self, name: str) -> Host:
        hosts = self._namespaces.hosts if self._namespaces else {}
        if name not in hosts:
            raise LightClusterError(
                f"the cluster {self.name} has no host {name}; there is "
                f"{', '.join(hosts) or 'none: it does not run'}"
            )
        return hosts[name]

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
        """Run a program on the controller, as Host.run does."""
        return self.controller.run(
            argv, user=user, timeout=timeout, env=env, cwd=cwd, input=input, check=check
        )

    def spawn(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        on: str = CONTROLLER,
        env: Mapping[str, str] | None = None,
        log: str | None = None,
    ) -> Spawned:
        """Start a program that keeps running; its output goes to /var/log/slurm/LOG."""
        host = self._host(on)
        name = log or f"{Path(argv[0]).name}-{len(self._spawned) + 1}.log"
        path = host.root / "var/log/slurm" / name
        process = host.popen(argv, user=user, env=env, output=path)
        spawned = Spawned(process, lambda: read_log(path), " ".join(argv))
        self._spawned.append(spawned)
        return spawned

    def sbatch(self, *args: str, user: str = "alice", script: str | None = None) -> str:
        """Submit a job and return its id; a refusal raises CommandError with Slurm's words."""
        done = self.run(["sbatch", "--parsable", *args], user=user, input=script, check=True)
        return done.stdout.strip().split(";")[0]

    # --- configuration and daemons ---

    def write_conf(self, files: Mapping[str, str]) -> None:
        """Write files of /etc/slurm as they are; reconfigure() or a restart makes them count."""
        folder = self.controller.root / "etc/slurm"
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.write_text(text)
            if name == "slurmdbd.conf":
                path.chmod(0o600)
                os.chown(path, _SLURM_UID, _SLURM_UID)

    def reconfigure(self) -> None:
        """``scontrol reconfigure``, and wait until controller and nodes are back."""
        self.run(["scontrol", "reconfigure"], check=True)
        self.wait_until(lambda: is_listening(self.controller, 6817), 30, "slurmctld to answer")
        self.wait_until(self._all_registered, 30, "nodes to register after the reconfigure")

    def _all_registered(self) -> bool:
        states = self.node_states()
        running = [node.name for node in self.nodes if f"slurmd@{node.name}" in self._wanted]
        return not any(states.get(name, "unknown").startswith("unknown") for name in running)

    def start_daemon(self, name: str) -> None:
        """Start munged, mariadbd, slurmdbd, slurmctld or slurmd@NODE, and wait until ready."""
        self._start_together(name)

    def stop_daemon(self, name: str) -> None:
        """End a daemon; reset() will leave it so."""
        self._wanted.discard(self._daemon(name).name)
        self._daemon(name).stop()

    def restart_daemon(self, name: str) -> None:
        """Stop and start a daemon."""
        self.stop_daemon(name)
        self.start_daemon(name)

    def daemon_runs(self, name: str) -> bool:
        """Whether a daemon's process is there."""
        return self._daemon(name).pid() is not None

    def _start_together(self, *names: str) -> None:
        daemons.start_all([self._daemon(name) for name in names])
        self._wanted.update(self._daemon(name).name for name in names)

    def _daemon(self, name: str) -> Daemon:
        daemon = self._daemons.get("mariadbd" if name == "mariadb" else name)
        if daemon is None:
            raise LightClusterError(f"no daemon {name}; there is {', '.join(self._daemons)}")
        return daemon

    # --- waiting and looking ---

    def wait_until(self, condition: Callable[[], T], timeout: float, what: str) -> T:
        """Wait for a condition; the error shows the tails of all Slurm logs."""
        return wait_until(condition, timeout, what, self.logs_tail)

    def wait_nodes_idle(self, timeout: float = 30) -> None:
        """Wait until every node has registered and nothing runs on it."""
        wanted = {spec.name: "idle" for spec in self.nodes}

        def evidence() -> str:
            seen = self.run(["sinfo", "--Node", "--format=%N %T %E"])
            return seen.stdout + seen.stderr + self.logs_tail()

        what = f"nodes {', '.join(wanted)} to be idle"
        wait_until(lambda: self.node_states() == wanted, timeout, what, evidence)

    def node_states(self) -> dict[str, str]:
        """Each node's state as sinfo gives it."""
        done = self.run(["sinfo", "--noheader", "--Node", "--format=%N %T"])
        return dict(line.split() for line in done.stdout.splitlines())

    def wait_job(
        self, job_id: str | int, states: Sequence[str] = ("COMPLETED",), timeout: float = 30
    ) -> str:
        """Wait until a job is in one of the states (RUNNING, COMPLETED, …) and return it."""

        def arrived() -> str | None:
            now = self.job_state(job_id)
            return now if now in states else None

        def evidence() -> str:
            job = self.run(["scontrol", "show", "job", str(job_id)])
            return job.stdout + job.stderr + self.logs_tail()

        what = f"job {job_id} to be {' or '.join(states)}"
        return wait_until(arrived, timeout, what, evidence) or ""

    def job_state(self, job_id: str | int) -> str:
        """A job's state; empty when Slurm does not know the job."""
        done = self.run(["squeue", "--noheader", "--states=all", f"--jobs={job_id}", "--format=%T"])
        return done.stdout.split("\n")[0].strip()

    def log(self, daemon: str) -> str:
        """The whole log of a daemon."""
        found = self._daemon(daemon)
        return read_log(found.host.root / found.log)

    def logs_tail(self, lines: int = 25) -> str:
        """The ends of the logs of all daemons that should be running, and of spawned programs."""
        wanted = [daemon for name, daemon in self._daemons.items() if name in self._wanted]
        tails = [daemon.tail(lines) for daemon in wanted if daemon.name != "munged"]
        tails += [
            f"--- {each.what}\n" + "\n".join(each.log.splitlines()[-lines:])
            for each in self._spawned
        ]
        return "\n".join(tails)

    # --- between tests ---

    def reset(self, timeout: float = 30) -> None:
        """Cancel all jobs, restart daemons that died, resume lost nodes; all idle afterwards."""
        for name in [*self._daemons]:
            if name in self._wanted and not self.daemon_runs(name):
                self.start_daemon(name)
        self._cancel_all(timeout)
        lost = [name for name, what in self.node_states().items() if what.startswith(_LOST)]
        if lost:
            self.run(["scontrol", "update", f"NodeName={','.join(lost)}", "State=RESUME"])
        self.wait_nodes_idle(timeout)

    def _cancel_all(self, timeout: float) -> None:
        def ids() -> list[str]:
            done = self.run(["squeue", "--noheader", "--format=%A"])
            return sorted(set(done.stdout.split()))

        present = ids()
        if present:
            self.run(["scancel", *present])
            self.wait_until(lambda: not ids(), timeout, "all jobs to be gone")
