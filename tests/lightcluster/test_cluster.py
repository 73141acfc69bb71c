"""A real cluster: devices, topology, commands, daemons."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from lightcluster import CommandError, LightCluster, LightClusterError, WaitError
from lightcluster.testing import quick

pytestmark = pytest.mark.slurm

# Opens every device node and prints how that ended: EPERM (not the job's) or ENXIO (its own).
PROBE = """
import errno, os
for name in ("nvidia0", "davinci0", "davinci1"):
    try:
        os.open("/dev/" + name, os.O_RDWR)
    except OSError as error:
        print(name, errno.errorcode[error.errno])
"""


@pytest.fixture(autouse=True)
def _clean(cluster: LightCluster) -> Iterator[None]:
    yield
    cluster.reset()


def test_the_release_is_the_one_asked_for(cluster: LightCluster) -> None:
    """slurmctld says so itself."""
    assert f"slurm-wlm {cluster.release}" in cluster.run(["slurmctld", "-V"], check=True).stdout


def test_nodes_pose_as_the_machines_of_their_specs(cluster: LightCluster) -> None:
    """slurmd saw them so: a node with fewer CPUs than configured would be invalid."""
    done = cluster.run(["sinfo", "-h", "-N", "-o", "%N %X %Y %Z %T"], check=True)

    assert done.stdout.split("\n")[:2] == ["cpu01 1 4 1 idle", "mix01 2 8 2 idle"]


def test_a_job_opens_its_own_device_and_is_refused_the_others(cluster: LightCluster) -> None:
    """ENXIO: allowed, but no driver is there. EPERM: the cgroup forbids it."""
    npu = cluster.run(["srun", "--gres=npu:1", "python3", "-c", PROBE], user="alice", check=True)
    gpu = cluster.run(["srun", "--gres=gpu:1", "python3", "-c", PROBE], user="alice", check=True)

    assert npu.stdout.split("\n")[:3] == ["nvidia0 EPERM", "davinci0 ENXIO", "davinci1 EPERM"]
    assert gpu.stdout.split("\n")[:3] == ["nvidia0 ENXIO", "davinci0 EPERM", "davinci1 EPERM"]


def test_a_batch_job_writes_into_its_users_home(cluster: LightCluster) -> None:
    """/home is common to all hosts."""
    job = cluster.sbatch("-w", "cpu01", "-o", "out-%j", "--wrap=hostname; id -un", user="bob")
    cluster.wait_job(job)

    assert cluster.controller.read(f"/home/bob/out-{job}").split() == ["cpu01", "bob"]


def test_steps_run_on_several_nodes(cluster: LightCluster) -> None:
    """The nodes reach the controller and each other by name."""
    done = cluster.run(["srun", "-N2", "hostname"], user="alice", check=True)

    assert sorted(done.stdout.split()) == ["cpu01", "mix01"]


def test_a_node_sees_its_recording_and_no_hardware_of_this_machine(cluster: LightCluster) -> None:
    """/host is read-only, /sys has no PCI bus, other nodes' devices are not there."""
    mix, cpu = cluster.node("mix01"), cluster.node("cpu01")

    assert "/dev/davinci1" in mix.read("/host/dev.txt")
    assert mix.run(["touch", "/host/x"]).returncode != 0
    assert mix.run(["ls", "/sys/bus"]).returncode != 0
    assert cpu.run(["ls", "/dev/davinci0"]).returncode != 0
    assert mix.run(["hostname"]).stdout == "mix01\n"


def test_what_a_node_keeps_for_itself_others_do_not_see(cluster: LightCluster) -> None:
    """/etc/hpcmgr and the like are private, /shared is common."""
    for path in ("/etc/hpcmgr/x", "/run/hpcmgr/x", "/var/lib/hpcmgr/x", "/tmp/x", "/shared/x"):
        cluster.node("mix01").write(path, "of mix01\n")

    seen = cluster.node("cpu01").run(["sh", "-c", "ls /*/x /*/hpcmgr/x /var/lib/hpcmgr/x"]).stdout

    assert seen.split() == ["/shared/x"]
    assert cluster.node("mix01").read("/etc/hpcmgr/x") == "of mix01\n"


def test_reset_cancels_jobs_resumes_nodes_and_restarts_what_died(cluster: LightCluster) -> None:
    """Afterwards the next test finds an idle cluster."""
    cluster.sbatch("--wrap=sleep 600")
    cluster.sbatch("--hold", "--wrap=true", user="bob")
    cluster.run(["scontrol", "update", "NodeName=cpu01", "State=DRAIN", "Reason=x"], check=True)
    cluster.node("mix01").run(["sh", "-c", "kill -9 $(cat /run/slurmd.pid)"], check=True)
    cluster.wait_until(lambda: not cluster.daemon_runs("slurmd@mix01"), 10, "slurmd to die")

    cluster.reset()

    assert cluster.run(["squeue", "-h"]).stdout == ""
    assert cluster.node_states() == {"mix01": "idle", "cpu01": "idle"}
    assert cluster.daemon_runs("slurmd@mix01")


def test_reset_of_an_idle_cluster_is_quick(cluster: LightCluster) -> None:
    """It stands between all tests."""
    assert quick(cluster.reset, 2)


def test_nodes_keep_their_cpus_over_a_reconfigure(cluster: LightCluster) -> None:
    """slurmd reads them from a cache that any ``slurmd -G`` on the node writes."""
    cluster.node("mix01").run(["slurmd", "-G"])
    cluster.reconfigure()

    assert cluster.node_states() == {"mix01": "idle", "cpu01": "idle"}


def test_changed_files_count_after_a_reconfigure(cluster: LightCluster) -> None:
    """As on a real site."""
    before = cluster.controller.read("/etc/slurm/hpcmgr.conf")
    cluster.write_conf({"hpcmgr.conf": before.replace("npu:ascend910b:2", "npu:ascend910b:1")})
    cluster.reconfigure()
    gres = cluster.run(["sinfo", "-h", "-n", "mix01", "-o", "%G"]).stdout
    cluster.write_conf({"hpcmgr.conf": before})
    cluster.reconfigure()

    assert gres.strip() == "gpu:a100:1,npu:ascend910b:1"


def test_daemons_stop_and_start(cluster: LightCluster) -> None:
    """A stopped controller does not answer; a restarted one knows its nodes."""
    cluster.stop_daemon("slurmctld")

    assert not cluster.daemon_runs("slurmctld")
    cluster.start_daemon("slurmctld")
    cluster.wait_nodes_idle()


def test_a_refused_submission_raises_with_slurms_words(cluster: LightCluster) -> None:
    """So that a test's failure explains itself."""
    with pytest.raises(CommandError, match="Invalid generic resource"):
        cluster.sbatch("--gres=tpu:1", "--wrap=true")


def test_waiting_for_a_job_in_vain_shows_the_job(cluster: LightCluster) -> None:
    """And the tails of the logs."""
    job = cluster.sbatch("--hold", "--wrap=true")

    with pytest.raises(WaitError, match=rf"job {job} to be COMPLETED(?s:.)*JobState=PENDING") as it:
        cluster.wait_job(job, timeout=0.2)
    assert "--- slurmctld" in str(it.value)


def test_a_program_that_hangs_is_killed_with_all_it_started(cluster: LightCluster) -> None:
    """What it had said until then is in the message."""
    script = "echo started; sleep 4711 & wait"

    with pytest.raises(WaitError, match=r"did not end within 0\.3 s; it had said:\nstarted"):
        cluster.run(["sh", "-c", script], timeout=0.3)
    assert cluster.run(["pgrep", "-f", "sleep 4711"]).stdout == ""


def test_a_spawned_program_runs_until_stopped(cluster: LightCluster) -> None:
    """It gets SIGTERM itself and may end in order."""
    script = "import signal,sys,time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
    script += "print('ready', flush=True)\ntime.sleep(600)\n"
    serving = cluster.spawn(["python3", "-c", script], user="slurm")
    cluster.wait_until(lambda: "ready" in serving.log, 10, "the program to be ready")

    assert serving.alive
    assert serving.stop() == 7
    assert not serving.alive


def test_a_spawned_program_can_be_signalled(cluster: LightCluster) -> None:
    """SIGHUP, for one, makes services read their settings."""
    script = "import signal,time\nsignal.signal(signal.SIGHUP, lambda *_: print('hup', flush=True))"
    serving = cluster.spawn(
        ["python3", "-c", f"{script}\nprint('ready', flush=True)\nwhile 1: time.sleep(1)"]
    )
    cluster.wait_until(lambda: "ready" in serving.log, 10, "the program to be ready")
    serving.signal(signal.SIGHUP)
    cluster.wait_until(lambda: "hup" in serving.log, 10, "the signal to arrive")
    serving.stop()


def test_hpcmgr_of_the_checkout_is_installed_everywhere(cluster: LightCluster) -> None:
    """Read-only, so that no run leaves anything in the checkout."""
    for host in (cluster.controller, cluster.node("mix01")):
        assert "python3 -m hpcmgr" in host.read("/usr/local/bin/hpcmgr")
        assert host.run(["test", "-f", "/opt/hpcmgr/lightcluster/__init__.py"]).returncode == 0
        assert host.run(["touch", "/opt/hpcmgr/x"]).returncode != 0


def test_an_unknown_user_or_host_is_named(cluster: LightCluster) -> None:
    """With those there are."""
    with pytest.raises(LightClusterError, match="no user carol; there is alice"):
        cluster.run(["true"], user="carol")
    with pytest.raises(LightClusterError, match="no host n9; there is ctl, mix01, cpu01"):
        cluster.node("n9")


def test_entering_a_host_costs_little(cluster: LightCluster) -> None:
    """Less than 30 ms a command, where nothing else runs."""
    assert quick(lambda: cluster.run(["true"], user="alice", check=True), 0.03, tries=20)
