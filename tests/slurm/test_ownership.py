"""Partitions from site.yaml; accounts, QOS and their limits, and owners, on a real Slurm."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from lightcluster.enter import Completed
from lightcluster.site import ReferenceSite
from lightcluster.testing import require
from tests.slurm.conftest import MACHINES, RELEASES

pytestmark = pytest.mark.slurm

ALL = {"nodes": ",".join(MACHINES), "memory_mib": 2000}
SITE: dict[str, object] = {
    "nodes": [
        ALL,
        {"nodes": "mix01", "pool": "train"},
        {"nodes": "t401", "pool": "small"},
        {"nodes": "npu01", "department": "physics"},
    ],
    "departments": {"physics": {"accounts": ["phys"]}},
    "partitions": {
        "train": {"pools": ["train"], "accounts": ["science"]},
        "small": {"pools": ["small"], "max_time": "01:00:00"},
        "physics": {"departments": ["physics"], "accounts": ["phys"]},
        "open": {},
    },
}
ACCOUNTS = """\
add account phys parent=science
add account chem
add user alice,bob account=phys
add user bob account=chem
add qos eight set MaxTRESPerJob=gres/compute=8,gres/gpu:a100=0
add qos shut set MaxTRESPerJob=gres/compute=8
add qos deny set MaxTRESPerJob=gres/compute=8 flags=DenyOnLimit
modify user alice where account=science set qos=normal,eight,shut,deny
quit
"""


@pytest.fixture(scope="module", params=RELEASES)
def running(request: pytest.FixtureRequest) -> Iterator[ReferenceSite]:
    require()
    with ReferenceSite(request.param, MACHINES, accounting=True, site=SITE) as site:
        site.run(["sacctmgr", "-i", "-Q"], input=ACCOUNTS, check=True)
        site.run(["sed", "-i", "1i EnforcePartLimits=ANY", "/etc/slurm/slurm.conf"], check=True)
        site.reconfigure()
        soon(lambda: "does not take" in quote(site, "compute:8", "-p", "physics").stdout)
        yield site


@pytest.fixture
def site(running: ReferenceSite) -> ReferenceSite:
    running.reset()
    running.close_breaker()
    return running


def soon(good: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until the service has seen it."""
    end = time.monotonic() + seconds
    while not good():
        assert time.monotonic() < end, "the service did not see it"
        time.sleep(0.3)


def quote(site: ReferenceSite, *args: str, user: str = "alice") -> Completed:
    return site.run(["hpcmgr", "quote", *args], user=user)


def submit(site: ReferenceSite, *args: str, user: str = "alice") -> Completed:
    return site.run(["sbatch", *args, "--wrap=sleep 1"], user=user)


def nodes_of(site: ReferenceSite, partition: str) -> str:
    return site.run(["sinfo", "-h", "-p", partition, "-o", "%N"], check=True).stdout.strip()


def test_slurm_has_the_partitions_with_their_nodes_and_accounts(site: ReferenceSite) -> None:
    """An open partition leaves out what a department keeps; Slurm itself refuses other accounts."""
    assert nodes_of(site, "train") == "mix01"
    assert nodes_of(site, "small") == "t401"
    assert nodes_of(site, "physics") == "npu01"
    assert nodes_of(site, "open") == "mix01,t[401-402]"

    refused = submit(site, "-p", "physics", "-A", "chem", "--gres=npu:ascend910b3:1", user="bob")
    assert "Invalid account or account/partition combination" in refused.stderr
    assert submit(site, "-p", "physics", "-A", "phys", "--gres=npu:ascend910b3:1").returncode == 0


def test_an_account_that_the_partition_does_not_take_is_told_so(site: ReferenceSite) -> None:
    """By its default account; with the right one the job runs, also below an allowed one."""
    refused = submit(site, "-p", "physics", "--gres=compute:8")
    assert "partition physics does not take account science" in refused.stderr
    for args in (["-p", "physics", "-A", "phys"], ["-p", "train", "-A", "phys"], ["-p", "train"]):
        done = submit(site, *args, "--gres=compute:8", "--wait")
        assert done.returncode == 0, done.stderr
    refused = submit(site, "-p", "train", "-A", "chem", "--gres=compute:8", user="bob")
    assert "does not take account chem" in refused.stderr


def test_of_several_partitions_only_those_that_take_the_job_count(site: ReferenceSite) -> None:
    """physics has the only free NPUs that alone could serve; alice's account may not go there."""
    npus = submit(site, "-p", "physics,small", "--gres=compute:npu:8")
    assert "partition physics does not take account science" in npus.stderr
    done = submit(site, "-p", "physics,train", "--gres=compute:8", "--wait")
    assert done.returncode == 0, done.stderr


def test_what_a_department_keeps_serves_its_accounts_only(site: ReferenceSite) -> None:
    """In the site's own partition main, which has every node."""
    four = ["--gres=compute:npu:64"]
    refused = submit(site, *four)
    assert "at most 2 on a node, 8 needed" in refused.stderr
    assert "its nodes serve only phys, not account science" in refused.stderr
    done = submit(site, *four, "-A", "phys", "--wait")
    assert done.returncode == 0, done.stderr


def test_a_type_that_the_qos_never_allows_is_no_candidate(site: ReferenceSite) -> None:
    """compute:8 becomes NPUs where the QOS allows no A100, and runs; 16 units are refused."""
    done = submit(site, "-q", "eight", "--gres=compute:8", "--wait")
    assert done.returncode == 0, done.stderr
    assert "npu:ascend910b3" in done.stdout + done.stderr

    refused = submit(site, "-q", "eight", "-p", "train", "--gres=compute:npu:16")
    assert "it takes 16 units; QOS eight allows a job 8" in refused.stderr
    told = quote(site, "-q", "eight", "compute:8").stdout
    assert "it takes 1 gpu:a100; QOS eight allows a job none" in told


def test_a_raised_limit_is_seen_soon(site: ReferenceSite) -> None:
    """The refusal makes the service look again; nothing is restarted."""
    ask = ["-q", "shut", "-p", "train", "--gres=compute:npu:16"]
    assert "QOS shut allows a job 8" in submit(site, *ask).stderr
    change = "modify qos shut set MaxTRESPerJob=gres/compute=16"
    site.run(["sacctmgr", "-i", "-Q", *change.split()], check=True)

    soon(lambda: submit(site, *ask).returncode == 0, 20)


def test_a_limit_that_was_lowered_meanwhile_is_slurms_to_enforce(site: ReferenceSite) -> None:
    """Bound by the older picture the job waits, or is refused, as Slurm has it."""
    change = "modify qos deny set MaxTRESPerJob=gres/compute=4"
    site.run(["sacctmgr", "-i", "-Q", *change.split()], check=True)

    refused = submit(site, "-q", "deny", "-p", "train", "--gres=compute:npu:8")

    assert refused.returncode != 0
    assert "QOSMaxGRESPerJob" in refused.stderr or "QOS deny allows a job 4" in refused.stderr


def test_a_node_joins_a_pool_and_a_partition_goes_by_apply(site: ReferenceSite) -> None:
    """Under a running job; a partition with jobs stays, since slurmctld would end them."""
    job = site.sbatch("-p", "small", "--wrap=sleep 300", "-t", "10")
    site.wait_until(lambda: site.run(["squeue", "-h", "-j", job, "-t", "R"]).stdout, 20, "a start")
    groups = [*SITE["nodes"], {"nodes": "t402", "pool": "small"}]  # type: ignore[misc]
    site.write_site(nodes=groups)
    done = site.run(["hpcmgr", "apply", "--yes"], timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert nodes_of(site, "small") == "t[401-402]"

    rest = {k: v for k, v in SITE["partitions"].items() if k != "small"}  # type: ignore[attr-defined]
    site.write_site(nodes=groups, partitions=rest)
    refused = site.run(["hpcmgr", "apply", "--yes"], timeout=240)
    assert refused.returncode == 1
    assert "there are jobs in partitions that would go: small (1)" in refused.stderr
    assert "RUNNING" in site.run(["squeue", "-h", "-j", job, "-o", "%T"]).stdout
    site.write_site()
