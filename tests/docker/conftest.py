"""One cluster of containers a release for the whole session, idle before every test."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

# A folder with a dash in its name is no package: what lies in it is found by path.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docker-cluster"))

from dockercluster import Completed, DockerCluster, NoDocker, dockerd

RELEASES = os.environ.get("HPCMGR_SLURM", "24.11,26.05").split(",")
_WANTED = os.environ.get("HPCMGR_DOCKER") == "1"


def require_docker() -> None:
    """Skip, with the reason, where no Docker answers or CI did not ask for it.

    HPCMGR_DOCKER=1 (``make docker-test``) starts a daemon, installs it where that can be done, and
    fails without one.
    """
    if _WANTED:
        try:
            dockerd.ensure(install=True)
        except NoDocker as error:
            pytest.fail(str(error), pytrace=False)
    elif os.environ.get("CI") == "true":
        pytest.skip("CI runs these with HPCMGR_DOCKER=1 only")
    elif dockerd.find() is None:
        pytest.skip("no Docker daemon answers; HPCMGR_DOCKER=1 (make docker-test) starts one")


class Site:
    """The cluster as tests/slurm/probe.py knows a site: commands run on the login node."""

    def __init__(self, cluster: DockerCluster) -> None:
        self.cluster = cluster
        self.wait_until = cluster.wait_until

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        input: str | None = None,  # noqa: A002
        check: bool = False,
    ) -> Completed:
        call = self.cluster.check if check else self.cluster.run
        return call("login", argv, user=user, input=input)

    def wait_job(self, job_id: str, states: Sequence[str], timeout: float = 30) -> None:
        def arrived() -> bool:
            return self.cluster.job(job_id).get("JobState") in states

        self.wait_until(arrived, timeout, f"job {job_id} to be {' or '.join(states)}")

    def reset(self) -> None:
        """No jobs, all nodes idle."""
        self.run(["scancel", "--user=alice"])
        self.run(["scancel", "--user=bob"])
        self.wait_until(
            lambda: set(self.cluster.node_states().values()) == {"idle"}, 90, "nodes to be idle"
        )


@pytest.fixture(scope="session", params=RELEASES)
def running(request: pytest.FixtureRequest) -> Iterator[Site]:
    """The cluster, up once a release; nothing is left of it afterwards."""
    require_docker()
    with DockerCluster(request.param, f"hpcmgr-test-{os.getpid()}") as cluster:
        cluster.check("login", ["install", "-d", "-m", "1777", "/shared/out"])
        yield Site(cluster)


@pytest.fixture
def site(running: Site) -> Site:
    """The cluster without jobs, all nodes idle."""
    running.reset()
    return running
