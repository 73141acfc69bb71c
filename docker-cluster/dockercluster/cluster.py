"""A cluster of containers: up, down, commands in it, and the accidents that tests need."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from docker.errors import APIError, DockerException, NotFound
from docker.models.containers import Container
from docker.models.networks import Network
from docker.types import IPAMConfig, IPAMPool

from dockercluster import composefile, dockerd, image
from dockercluster.composefile import Project, Service
from dockercluster.errors import DockerClusterError, StartError

T = TypeVar("T")

LABEL = "hpcmgr.cluster"
_READY_S = 180
_SUBNETS = [f"10.78.{number}" for number in range(32)]


@dataclass(frozen=True)
class Completed:
    """A command's end: exit status and both texts."""

    returncode: int
    stdout: str
    stderr: str


class DockerCluster:
    """The hosts of compose.yaml as containers called NAME-HOST, as a context manager.

    ``confine`` is True once it is up where jobs are confined to their devices.
    ``install``: fetch Docker with apt-get where it is missing (Debian, root).
    """

    def __init__(self, release: str = "24.11", name: str = "hpcmgr", *, install: bool = False):
        self.release = release
        self.name = name
        self.confine = True
        self._install = install
        self._docker: dockerd.Docker | None = None
        self._project: Project = self._load()

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
        """Make image, network, volumes and containers; returns when every host is ready.

        Raises:
            NoDocker: no daemon answers and none can be started.
            StartError: something did not come up; nothing of it is left then.
        """
        self._docker = dockerd.ensure(install=self._install)
        if self._containers():
            raise StartError(f"{self.name} is up already: take it down first")
        try:
            image.ensure(self.docker.client, self.release)
            self._make_volumes()
            self.confine = self._can_confine()
            network = self._make_network()
            self._project = self._load(network.attrs["IPAM"]["Config"][0]["Subnet"])
            for service in self._project.services:
                self._create(service, network).start()
            self._wait_ready()
        except DockerException as error:
            self.stop()
            raise StartError(f"Docker refused: {error}") from error
        except BaseException:
            self.stop()
            raise

    def attach(self) -> Self:
        """Take hold of a cluster that is up.

        Raises:
            DockerClusterError: none of this name is.
        """
        self._docker = dockerd.find()
        if self._docker is None or not self._containers():
            raise DockerClusterError(f"no cluster {self.name} is up")
        found = self._container("ctl")
        self.release = found.image.tags[0].rpartition(":")[2] if found.image else self.release
        self.confine = "HPCMGR_CONFINE=yes" in found.attrs["Config"]["Env"]
        return self

    def stop(self, *, cache: bool = False) -> None:
        """Remove containers, network and volumes, and the daemon if it is ours; the image stays,
        unless ``cache`` is true. Harmless when nothing is up."""
        found, self._docker = self._docker or dockerd.find(), None
        if found is None:
            if cache:
                dockerd.remove_data()
            return
        mine: dict[str, Any] = {"label": f"{LABEL}={self.name}"}
        for container in found.client.containers.list(all=True, filters=mine):
            with contextlib.suppress(NotFound):
                container.remove(force=True, v=True)
        for network in found.client.networks.list(filters=mine):
            network.remove()
        for volume in found.client.volumes.list(filters=mine):
            volume.remove(force=True)
        if cache:
            with contextlib.suppress(NotFound):
                found.client.images.remove(f"{image.REPOSITORY}:{self.release}", force=True)
        dockerd.stop(found, cache=cache)

    @property
    def docker(self) -> dockerd.Docker:
        """The daemon the cluster runs in."""
        if self._docker is None:
            raise DockerClusterError(f"the cluster {self.name} is not up")
        return self._docker

    def _load(self, subnet: str = "") -> Project:
        return composefile.load(
            {
                "HPCMGR_SLURM": self.release,
                "HPCMGR_NET": subnet.rpartition(".")[0],
                "HPCMGR_CONFINE": "yes" if self.confine else "no",
            }
        )

    def _can_confine(self) -> bool:
        """Whether a container may have what slurmd needs; asked of one that is made for it."""
        node = self._project.compute[0]
        probe = None
        try:
            probe = self._make(node, f"{self.name}-probe", command=["probe"], network_mode="none")
            probe.start()
            status = probe.wait(timeout=60)["StatusCode"]
            said = probe.logs().decode(errors="replace").strip()
        except APIError as error:
            status, said = 1, str(error.explanation or error)
        finally:
            if probe is not None:
                probe.remove(force=True)
        if status != 0:
            _say(
                "this Docker lets no container make control groups: jobs are told their devices "
                f"(IDX), not confined to them ({said})"
            )
        return bool(status == 0)

    def _make_network(self) -> Network:
        """A network of its own: the first of our subnets that nobody uses."""
        wanted = os.environ.get("HPCMGR_NET")
        for prefix in [wanted] if wanted else _SUBNETS:
            try:
                return self.docker.client.networks.create(
                    f"{self.name}_cluster",
                    driver="bridge",
                    ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=f"{prefix}.0/24")]),
                    labels={LABEL: self.name},
                )
            except APIError as error:
                if "overlap" not in str(error):
                    raise
        raise StartError("all our subnets (10.78.0-31.0/24) are in use; set HPCMGR_NET")

    def _make_volumes(self) -> None:
        """Before any container: a volume that Docker makes by itself lacks our label."""
        for volume in self._project.volumes:
            self.docker.client.volumes.create(f"{self.name}_{volume}", labels={LABEL: self.name})

    def _create(self, service: Service, network: Network) -> Container:
        endpoint = self.docker.client.api.create_endpoint_config(
            ipv4_address=service.address, aliases=[service.name]
        )
        return self._make(
            service,
            f"{self.name}-{service.name}",
            command=list(service.command),
            network=network.name,
            networking_config={network.name: endpoint},
            extra_hosts=dict(service.hosts),
        )

    def _make(self, service: Service, name: str, **more: Any) -> Container:
        binds = [
            f"{source if source.startswith('/') else f'{self.name}_{source}'}:{target}:{mode}"
            for source, target, mode in service.volumes
        ]
        confined: dict[str, Any] = {}
        if self.confine:
            confined = {
                "cap_add": list(service.cap_add),
                "security_opt": list(service.security_opt),
                "cgroupns": service.cgroup,
            }
        return self.docker.client.containers.create(
            service.image,
            name=name,
            hostname=service.name,
            entrypoint=list(service.entrypoint),
            environment=dict(service.environment),
            volumes=binds,
            tmpfs=dict.fromkeys(service.tmpfs, ""),
            device_cgroup_rules=list(service.device_cgroup_rules),
            init=True,
            labels={LABEL: self.name},
            **confined,
            **more,
        )

    def _wait_ready(self) -> None:
        def all_ready() -> bool:
            for service in self._project.services:
                container = self._container(service.name)
                if container.status not in ("created", "running"):
                    raise StartError(f"{service.name} has ended:\n{self.logs(service.name)}")
            return all(self.is_ready(service.name) for service in self._project.services)

        self.wait_until(all_ready, _READY_S, "every host to be ready")

    # --- looking and waiting ---

    @property
    def hosts(self) -> dict[str, str]:
        """Host → what Docker says of its container (running, exited, …)."""
        return {
            str(container.name).removeprefix(f"{self.name}-"): container.status
            for container in self._containers()
        }

    def is_ready(self, host: str) -> bool:
        """Whether its entrypoint has started everything."""
        return self.run(host, ["test", "-e", "/run/ready"]).returncode == 0

    def logs(self, host: str, lines: int = 40) -> str:
        """The end of what a host has said."""
        text: bytes = self._container(host).logs(tail=lines)
        return text.decode(errors="replace")

    def wait_until(self, condition: Callable[[], T], timeout: float, what: str) -> T:
        """Wait for a condition, in seconds; the error shows what the hosts said last."""
        limit = time.monotonic() + timeout
        while True:
            result = condition()
            if result:
                return result
            if time.monotonic() > limit:
                tails = "\n".join(f"--- {host}\n{self.logs(host, 15)}" for host in self.hosts)
                raise StartError(
                    f"waited {timeout:g} s for {what}; at the end: {result!r}\n{tails}"
                )
            time.sleep(0.3)

    def node_states(self) -> dict[str, str]:
        """Each node's state as sinfo gives it."""
        done = self.run("ctl", ["sinfo", "--noheader", "--Node", "--format=%N %T"])
        return dict(line.split() for line in done.stdout.splitlines())

    def job(self, job_id: str) -> dict[str, str]:
        """The fields of ``scontrol show job -d``; empty when Slurm does not know it."""
        text = self.run("ctl", ["scontrol", "-o", "show", "job", "-d", job_id]).stdout
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    # --- commands ---

    def run(
        self,
        host: str,
        argv: Sequence[str],
        *,
        user: str = "root",
        timeout: float = 120,
        input: str | None = None,  # noqa: A002 - as subprocess.run calls it
    ) -> Completed:
        """Run a program on a host to its end; after ``timeout`` seconds it is ended (exit 124)."""
        command = ["timeout", "--kill-after=5", f"{timeout:g}", *argv]
        if input is not None:
            feed = 'text=$1; shift; printf %s "$text" | exec "$@"'
            command = ["sh", "-c", feed, "sh", input, *command]
        place = "/root" if user == "root" else f"/home/{user}"
        done: Any = self._container(host).exec_run(
            command,
            user=user,
            workdir=place if user in ("root", "alice", "bob") else "/",
            environment={"USER": user},
            demux=True,
        )
        out, err = ((each or b"").decode(errors="replace") for each in done.output)
        return Completed(done.exit_code, out, err)

    def check(
        self,
        host: str,
        argv: Sequence[str],
        *,
        user: str = "root",
        input: str | None = None,  # noqa: A002 - as subprocess.run calls it
    ) -> Completed:
        """As ``run``; a failure is an error.

        Raises:
            DockerClusterError: with the command's own words.
        """
        done = self.run(host, argv, user=user, input=input)
        if done.returncode != 0:
            raise DockerClusterError(
                f"{shlex.join(argv)} on {host} as {user} gave exit {done.returncode}:\n"
                f"{done.stdout}{done.stderr}"
            )
        return done

    # --- accidents ---

    def kill(self, host: str) -> None:
        """Power off: the host is gone from one moment to the next."""
        self._container(host).kill()

    def restart(self, host: str) -> None:
        """Power on again; returns when the host is ready."""
        self._container(host).start()
        self.wait_until(lambda: self.is_ready(host), 60, f"{host} to be ready")

    @contextlib.contextmanager
    def cut(self, host: str) -> Iterator[None]:
        """Pull the network cable; plugged in again at the end, with the same address."""
        network = self.docker.client.networks.get(f"{self.name}_cluster")
        container = self._container(host)
        address = next(s.address for s in self._load(self._subnet()).services if s.name == host)
        network.disconnect(container)
        try:
            yield
        finally:
            network.connect(container, ipv4_address=address, aliases=[host])

    def _subnet(self) -> str:
        network = self.docker.client.networks.get(f"{self.name}_cluster")
        return str(network.attrs["IPAM"]["Config"][0]["Subnet"])

    def _containers(self) -> list[Container]:
        mine: dict[str, Any] = {"label": f"{LABEL}={self.name}"}
        return list(self.docker.client.containers.list(all=True, filters=mine))

    def _container(self, host: str) -> Container:
        try:
            return self.docker.client.containers.get(f"{self.name}-{host}")
        except NotFound:
            known = ", ".join(sorted(self.hosts)) or "none: it is not up"
            raise DockerClusterError(f"{self.name} has no host {host}; there is {known}") from None


def _say(text: str) -> None:
    print(f"docker-cluster: {text}", file=sys.stderr, flush=True)
