"""The reference site with hpcmgr on it, as an administrator would set it up: every node syncs, the
controller renders, the daemons take the files, the service runs as SlurmUser."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

import yaml

from lightcluster import waiting
from lightcluster.cluster import LightCluster
from lightcluster.enter import Spawned
from lightcluster.siteconf import CHECKOUT
from lightcluster.spec import NodeSpec

HOSTS = CHECKOUT / "tests" / "hosts"
SITE_YAML = "/etc/hpcmgr/site.yaml"
SOCKET = "/run/hpcmgr/submit.sock"
STATE_DIR = "/var/lib/hpcmgr/service"


class ReferenceSite(LightCluster):
    """``machines``: node name → recorded host in tests/hosts. ``site``: keys of site.yaml that
    replace those of slurm-conf/site.yaml."""

    def __init__(
        self,
        release: str,
        machines: Mapping[str, str],
        *,
        accounting: bool = False,
        site: Mapping[str, object] | None = None,
        name: str | None = None,
    ) -> None:
        specs = [_spec(node, HOSTS / host) for node, host in machines.items()]
        super().__init__(release, specs, accounting=accounting, name=name)
        self._site = dict(site or {})
        self.service: Spawned | None = None

    def start(self) -> None:
        """Bring Slurm up, then hpcmgr."""
        super().start()
        try:
            self.write_site()
            for spec in self.nodes:
                self.sync(spec.name)
            self.render()
            self.be_patient()
            self.restart_slurm()
            self.start_service()
        except BaseException:
            self.stop()
            raise

    def write_site(self, **keys: object) -> None:
        """Write site.yaml on every host; ``keys`` replace keys of the file."""
        reference = yaml.safe_load((CHECKOUT / "slurm-conf" / "site.yaml").read_text())
        names = ",".join(spec.name for spec in self.nodes)
        # slurmd compares RealMemory with this machine, whatever the recorded one had.
        reference["nodes"] = [{"nodes": names, "memory_mib": _memory_mib()}]
        reference["accounting"] = self.accounting
        # Nodes pose with CPUs and memory that this machine does not have.
        reference["cgroup"] = {"constrain_cores": False, "constrain_ram": False}
        reference["cgroup"]["plugin"] = f"cgroup/v{_cgroup_version()}"
        if _cgroup_version() == 2:
            reference["cgroup"]["ignore_systemd"] = True
        text = yaml.safe_dump({**reference, **self._site, **keys}, sort_keys=False)
        for host in (self.controller, *(self.node(spec.name) for spec in self.nodes)):
            host.write(SITE_YAML, text)

    def sync(self, node: str) -> None:
        """``hpcmgr sync`` on a node, from its recorded machine."""
        self.node(node).run(["hpcmgr", "sync", "--host", "/host", "--node", node], check=True)

    def render(self) -> None:
        """``hpcmgr render`` into /etc/slurm."""
        self.run(["hpcmgr", "render", "--out", "/etc/slurm"], check=True)

    def be_patient(self) -> None:
        """Where tests wait longer, the shim does: what it does after its time is not their subject,
        and a machine with much to do does not keep to 50 ms."""
        if waiting.patience > 1:
            limit = f"s/configure{{}}/configure{{limit_ms={round(50 * waiting.patience)}}}/"
            self.run(["sed", "-i", limit, "/etc/slurm/job_submit.lua"], check=True)

    def restart_slurm(self) -> None:
        """Let every daemon read its files again; returns when all nodes are idle."""
        for name in ("slurmctld", *(f"slurmd@{spec.name}" for spec in self.nodes)):
            self.stop_daemon(name)
        self.start_daemon("slurmctld")
        self._start_together(*(f"slurmd@{spec.name}" for spec in self.nodes))
        self.wait_nodes_idle()

    def start_service(self) -> Spawned:
        """``hpcmgr serve`` as SlurmUser; returns when it answers from a fresh picture."""
        script = f"install -d -o slurm -g slurm {Path(SOCKET).parent} {STATE_DIR}"
        self.run(["sh", "-c", script], check=True)
        self.service = self.spawn(["hpcmgr", "serve"], user="slurm", log="hpcmgr.log")
        self.wait_until(self._service_answers, 20, "hpcmgr serve to answer")
        return self.service

    def wait_picture(self) -> None:
        """Until the service has looked at the cluster as it is now. It must have a door."""
        asked = time.monotonic()

        def fresh() -> bool:
            said = self.run(["hpcmgr", "quote", "compute:1", "--json"]).stdout
            age = json.loads(said or "{}").get("age_s")
            return age is not None and age < time.monotonic() - asked

        self.wait_until(fresh, 20, "the service to look at the cluster")

    def stop_service(self) -> None:
        """End it; submissions are held from now on."""
        if self.service is not None:
            self.service.stop()
        self.service = None

    def close_breaker(self) -> None:
        """Let the shim ask the service at once: slurmctld loads a touched script anew (its times
        count in whole seconds)."""
        self.run(["sh", "-c", "sleep 1.1; touch /etc/slurm/job_submit.lua"], check=True)

    def _service_answers(self) -> bool:
        if self.service is not None and not self.service.alive:
            raise RuntimeError(f"hpcmgr serve ended:\n{self.service.log}")
        ask = (
            "import json,socket;s=socket.socket(socket.AF_UNIX);s.settimeout(2);"
            f"s.connect('{SOCKET}');"
            's.sendall(b\'{"v":1,"op":"submit","uid":0,"job":{}}\\n\');'
            "print(json.loads(s.makefile().readline()).get('pass'))"
        )
        return self.run(["python3", "-c", ask]).stdout.strip() == "True"


def _spec(name: str, host: Path) -> NodeSpec:
    """The recorded machine's CPUs, as its own README and the discovery tell them."""
    from hpcmgr.discovery import open_host
    from hpcmgr.discovery.cpu_topology import collect

    cpu = collect(open_host(host)).cpu
    return NodeSpec(name, cpu.sockets, cpu.cores_per_socket, cpu.threads_per_core, host)


def _memory_mib() -> int:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return min(8000, int(pages * size / (1 << 20) * 0.8))


def _cgroup_version() -> int:
    from lightcluster import cgroups

    return cgroups.hierarchies()[0].version
