"""Several hosts, a real network between them: what one machine's light cluster cannot show."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dockercluster import DockerCluster, StartError

from tests.docker.conftest import Site
from tests.slurm.probe import allocation, indices, run_job, submit

pytestmark = [pytest.mark.docker, pytest.mark.timeout(420)]


DEVICES = {"mix01": 3, "npu01": 8}


def capacity(site: Site) -> dict[str, Any]:
    """``hpcmgr capacity --json`` as alice sees it on the login node."""
    done = site.run(["hpcmgr", "capacity", "--json"], user="alice", check=True)
    return json.loads(done.stdout)


def test_the_release_is_the_one_that_was_asked_for(site: Site) -> None:
    """Every other result here is worth its release only."""
    said = site.run(["scontrol", "-V"]).stdout

    assert f"slurm-wlm {site.cluster.release}." in said


@pytest.mark.parametrize(
    ("request_", "gres", "units", "count", "device"),
    [
        ("compute:8", "gpu:a100", 8, 1, "/dev/nvidia"),
        ("compute:npu:16", "npu:ascend910b3", 16, 2, "/dev/davinci"),
        ("compute:cuda:1", "gpu:t4", 2, 1, "/dev/nvidia"),
    ],
)
def test_units_asked_on_the_login_node_are_devices_on_a_compute_node(
    site: Site, request_: str, gres: str, units: int, count: int, device: str
) -> None:
    """The job may open its own devices and no other of its node; the units are booked."""
    job = run_job(site, f"--gres={request_}")
    [(_, booked)] = job.nodes.values()

    assert f"becomes {count} x {gres}" in job.said
    assert len(indices(booked, gres)) == count
    assert f"compute(CNT:{units})" in booked
    seen = job.steps["batch"]
    assert seen.env["HPCMGR_GRES"] == gres
    if not site.cluster.confine:
        pytest.skip("this Docker lets no container make control groups: only IDX was checked")
    assert len(seen.open) == count
    assert all(file.startswith(device) for file in seen.open)
    assert seen.env["HPCMGR_DEVICES"] == ",".join(seen.open)
    assert seen.refused
    assert not seen.odd


def test_accounts_of_the_login_node_show_units(site: Site) -> None:
    """sacct talks to slurmdbd over the network; the bill is the units."""
    job = run_job(site, "--gres=compute:npu:16")
    line = ["sacct", "-n", "-P", "-X", "-j", job.id, "-o", "AllocTRES,User,Account"]

    def booked() -> str:
        return site.run(line, user="alice").stdout.strip()

    site.wait_until(lambda: "gres/compute=16" in booked(), 20, "sacct to know the job")
    assert "billing=16" in booked()
    assert booked().endswith("|alice|science")


def test_the_login_node_reads_the_journal_over_the_network_its_owner_only(site: Site) -> None:
    """The service's door: alice has the story of her job, bob has what the job itself tells."""
    job_id = submit(site, "--gres=compute:npu:8").split("\n")[0]

    def told(user: str) -> tuple[int, list[Any]]:
        done = site.run(["hpcmgr", "explain", job_id, "--json"], user=user)
        return done.returncode, json.loads(done.stdout)["journal"]

    site.wait_until(lambda: told("alice")[1], 20, "the journal to be written")
    assert told("alice")[0] == 0
    assert told("bob") == (4, [])


def test_a_step_runs_on_two_hosts_with_a_device_on_each(site: Site) -> None:
    """srun reaches both nodes; each task finds its node's own device."""
    body = "srun sh -c 'echo \"host $(hostname) $HPCMGR_DEVICES\"'\n"
    job_id = submit(site, "--gres=compute:npu:8", "-N2", body=body).split("\n")[0]
    output = f"/shared/out/{job_id}_4294967294"
    site.wait_job(job_id, ["RUNNING"], 30)
    site.wait_until(lambda: "ready" in site.run(["cat", output]).stdout, 30, "the step to end")

    lines = [line.split() for line in site.run(["cat", output]).stdout.splitlines()]
    seen = {words[1]: words[2] for words in lines if words[0] == "host"}
    assert set(seen) == {"mix01", "npu01"}
    assert seen["mix01"] in {"/dev/davinci4", "/dev/davinci5"}
    assert seen["npu01"].startswith("/dev/davinci")


def test_nodes_have_no_files_of_their_own_but_follow_the_controller(site: Site) -> None:
    """Configless: the devices of gres.conf reach slurmd by network alone."""
    cluster = site.cluster
    there = cluster.run("mix01", ["cat", "/run/slurm/conf/gres.conf"]).stdout

    assert cluster.run("mix01", ["test", "-e", "/etc/slurm/slurm.conf"]).returncode == 1
    assert there == cluster.check("ctl", ["cat", "/etc/slurm/gres.conf"]).stdout
    assert "Type=a100" in there


def test_a_reconfigure_reaches_the_nodes_and_ends_no_container(site: Site) -> None:
    """slurmctld and slurmd are other processes afterwards; the hosts stay up, a job lives on."""
    cluster = site.cluster
    job_id = submit(site, "--gres=compute:cuda:1").split("\n")[0]
    site.wait_job(job_id, ["RUNNING"], 30)
    mark = "# told by the controller\n"
    text = cluster.check("ctl", ["cat", "/etc/slurm/gres.conf"]).stdout
    cluster.check("ctl", ["tee", "/etc/slurm/gres.conf"], input=text + mark)

    cluster.check("ctl", ["scontrol", "reconfigure"])

    def arrived() -> bool:
        return mark in cluster.run("t401", ["cat", "/run/slurm/conf/gres.conf"]).stdout

    site.wait_until(arrived, 30, "the node to have the new file")
    cluster.check("ctl", ["sleep", "5"])  # longer than entrypoint.sh waits for a daemon
    assert set(cluster.hosts.values()) == {"running"}
    assert cluster.job(job_id)["JobState"] == "RUNNING"


def test_a_container_opens_no_device_that_is_not_its_machines(site: Site) -> None:
    """Not even root of a node can: the rules name single devices."""
    script = "rm -f /dev/foreign && mknod /dev/foreign c 600 0 && cat /dev/foreign"
    foreign = site.cluster.run("mix01", ["sh", "-c", script])
    own = site.cluster.run("mix01", ["cat", "/dev/nvidia0"])

    assert "Operation not permitted" in foreign.stderr
    assert "No such device or address" in own.stderr


def test_a_dead_nodes_job_runs_elsewhere_and_its_devices_are_gone_from_the_pool(
    site: Site,
) -> None:
    """Power off: the node is down, its job is requeued and starts on the other NPU node."""
    cluster = site.cluster
    job_id = submit(site, "--gres=compute:npu:16").split("\n")[0]
    site.wait_job(job_id, ["RUNNING"], 30)
    dead = cluster.job(job_id)["NodeList"]
    assert dead in {"mix01", "npu01"}

    cluster.kill(dead)
    try:
        site.wait_until(
            lambda: cluster.node_states()[dead].startswith("down"), 120, f"{dead} to be down"
        )
        assert cluster.job(job_id)["Restarts"] == "1"
        # Slurm lets a requeued job wait two minutes.
        site.run(["scontrol", "update", f"JobId={job_id}", "StartTime=now"], check=True)
        site.wait_job(job_id, ["RUNNING"], 60)
        [(alive, (_, booked))] = allocation(site, job_id)[0].items()
        assert {alive, dead} == {"mix01", "npu01"}
        assert "npu:ascend910b3:2(IDX:" in booked
        quote = site.run(["hpcmgr", "quote", "compute:npu:16", "--nodes", "2"], user="alice")
        assert f"waits until the nodes are back: {dead} is down" in quote.stdout
        pool = capacity(site)
        assert [lost["nodes"] for lost in pool["lost"]] == [dead]
        assert pool["total"]["devices"]["out"] == DEVICES[dead]
    finally:
        cluster.restart(dead)
    site.wait_until(lambda: cluster.node_states()[dead] == "idle", 60, f"{dead} to be back")
    assert capacity(site)["lost"] == []


def test_a_cut_network_costs_no_job_and_stops_no_submission(site: Site) -> None:
    """Unplugged, the node does not respond; others get jobs; plugged in, its job goes on."""
    cluster = site.cluster
    job_id = submit(site, "--gres=compute:cuda:1").split("\n")[0]
    site.wait_job(job_id, ["RUNNING"], 30)
    before = cluster.job(job_id)
    node = before["NodeList"]

    with cluster.cut(node):
        site.wait_until(lambda: cluster.node_states()[node].endswith("*"), 60, "silence")
        other, _, said = submit(site, "--gres=compute:npu:8").partition("\n")
        site.wait_job(other, ["RUNNING"], 30)
        quote = site.run(["hpcmgr", "quote", "compute:8", "--json"], user="alice")
        assert json.loads(quote.stdout)["source"] == "service"
    site.wait_until(lambda: cluster.node_states()[node] == "mixed", 60, f"{node} to answer")

    after = cluster.job(job_id)
    assert "becomes 1 x npu:ascend910b3" in said
    assert cluster.job(other)["NodeList"] != node
    assert (after["JobState"], after["Restarts"]) == ("RUNNING", "0")
    assert after["StartTime"] == before["StartTime"]
    alive = cluster.run(node, ["pgrep", "-f", "sleep 60"])
    assert alive.returncode == 0


def test_a_second_cluster_lives_beside_and_leaves_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same host names, a network of its own; without confinement jobs still get their IDX."""
    can_confine = DockerCluster._can_confine
    monkeypatch.setattr(DockerCluster, "_can_confine", lambda self: can_confine(self) and False)
    name = f"{site.cluster.name}-second"
    with DockerCluster(site.cluster.release, name) as second:
        beside = Site(second)
        second.check("login", ["install", "-d", "-m", "1777", "/shared/out"])
        job_id = submit(beside, "--gres=compute:npu:8").split("\n")[0]
        beside.wait_job(job_id, ["RUNNING"], 30)
        [(_, booked)] = allocation(beside, job_id)[0].values()
        assert len(indices(booked, "npu:ascend910b3")) == 1
        assert second.run("mix01", ["true"]).returncode == 0

    # By name and not by label: what Docker made by itself would have none.
    client = site.cluster.docker.client
    things = [
        *client.containers.list(all=True),
        *client.networks.list(),
        *client.volumes.list(),
    ]
    assert [str(each.name) for each in things if str(each.name).startswith(name)] == []
    assert set(site.cluster.node_states().values()) == {"idle"}


def test_a_name_that_is_up_is_not_started_again(site: Site) -> None:
    """The running cluster stays as it is."""
    again = DockerCluster(site.cluster.release, site.cluster.name)

    with pytest.raises(StartError, match="is up already"):
        again.start()
    assert set(site.cluster.hosts.values()) == {"running"}
