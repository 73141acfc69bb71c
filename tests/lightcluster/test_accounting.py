"""A cluster with MariaDB and slurmdbd."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lightcluster import LightCluster, NodeSpec
from lightcluster.testing import require

from .conftest import PLAIN_LUA, RELEASES

pytestmark = pytest.mark.slurm


@pytest.fixture(name="site", scope="module", params=RELEASES)
def _site(request: pytest.FixtureRequest) -> Iterator[LightCluster]:
    require()
    with LightCluster(request.param, [NodeSpec("n1")], PLAIN_LUA, accounting=True) as cluster:
        yield cluster


def test_alice_and_bob_have_an_account(site: LightCluster) -> None:
    """Made at the start."""
    done = site.run(["sacctmgr", "-nP", "list", "assoc", "format=cluster,account,user"])

    assert {"reference|science|alice", "reference|science|bob"} <= set(done.stdout.split())


def test_finished_jobs_are_accounted(site: LightCluster) -> None:
    """sacct knows state and user."""
    job = site.sbatch("--wrap=true", user="bob")
    site.wait_job(job)

    def record() -> str:
        done = site.run(["sacct", "-nPX", "-j", job, "-o", "state,user,account"])
        return done.stdout.strip() if "COMPLETED" in done.stdout else ""

    assert site.wait_until(record, 10, "sacct to know") == "COMPLETED|bob|science"


def test_a_user_without_an_account_is_refused(site: LightCluster) -> None:
    """Associations are enforced."""
    done = site.run(["sbatch", "--wrap=true"], user="nobody", cwd="/tmp")

    assert done.returncode != 0
    assert "Invalid account" in done.stderr
