"""Files brought into force on a real Slurm: no job is killed, no device is in two jobs, and what
goes wrong is taken back."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from subprocess import CompletedProcess

import pytest

from lightcluster.site import ReferenceSite
from lightcluster.testing import require
from tests.slurm.conftest import RELEASES
from tests.slurm.probe import LOOK, allocation, indices, parse

pytestmark = pytest.mark.slurm

MACHINES = {"mix01": "mixed", "t401": "t4x4", "t402": "t4x4"}
CONF = "/etc/slurm"
INVENTORY = "/shared/hpcmgr/inventory"
FAST = {"node_limit": 25.0, "drain_limit": 40.0, "backups": 3}

Apply = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module", params=RELEASES, name="own_site")
def _own_site(request: pytest.FixtureRequest) -> Iterator[ReferenceSite]:
    """A site of its own: these tests change its configuration."""
    require()
    site = ReferenceSite(request.param, MACHINES, site={"apply": FAST})
    try:
        site.start()
        site.run(["install", "-d", "-m", "1777", "/shared/out"], check=True)
        script = f"cp -a {CONF} /root/conf; cp -a {INVENTORY} /root/inventory"
        site.run(["sh", "-c", script], check=True)
        yield site
    finally:
        site.stop()


@pytest.fixture(name="ground")
def _ground(own_site: ReferenceSite) -> ReferenceSite:
    """The site as it was first set up, in force, without jobs."""
    site = own_site
    site.run(["sh", "-c", "squeue -h -o %A | xargs -r scancel"])
    site.wait_until(lambda: not site.run(["squeue", "-h"]).stdout, 30, "jobs to be gone")
    site.write_site()
    script = (
        f"rm -rf {CONF}/hpcmgr.d; cp -a /root/conf/. {CONF}/; rm -rf {INVENTORY}; "
        f"cp -a /root/inventory {INVENTORY}; sleep 1.1"
    )
    site.run(["sh", "-c", script], check=True)
    for spec in site.nodes:
        if not site.daemon_runs(f"slurmd@{spec.name}"):
            site.start_daemon(f"slurmd@{spec.name}")
    site.reconfigure()
    site.reset()
    return site


@pytest.fixture(name="apply")
def _apply(ground: ReferenceSite) -> Apply:
    def call(*options: str, **kwargs: object) -> CompletedProcess[str]:
        return ground.run(["hpcmgr", "apply", *options], timeout=180, **kwargs)  # type: ignore[arg-type]

    return call


def lose_device(site: ReferenceSite, node: str, index: int = 0) -> None:
    """The inventory of ``node`` no longer has its device of that index: all others move."""
    path = f"{INVENTORY}/{node}.json"
    inventory = json.loads(site.controller.read(path))
    inventory["devices"] = [d for d in inventory["devices"] if d["index"] != index]
    site.controller.write(path, json.dumps(inventory))


def claim_device(site: ReferenceSite, node: str) -> None:
    """The inventory of ``node`` names a device that the machine does not have."""
    path = f"{INVENTORY}/{node}.json"
    text = site.controller.read(path)
    assert "/dev/nvidia3" in text
    site.controller.write(path, text.replace("/dev/nvidia3", "/dev/nvidia93"))


def set_units(site: ReferenceSite, units: int) -> None:
    """A T4 counts for so many units: only CountOnly counts change."""
    site.write_site(profiles={"override": {"t4": {"units": units}}})


def take_down(site: ReferenceSite, node: str) -> None:
    """Its slurmd ends and slurmctld gives it up. Soon after a reconfigure slurmctld may still count
    an answer from before, and with ReturnToService=2 bring the node back: until it stays down."""
    site.stop_daemon(f"slurmd@{node}")
    for _ in range(4):
        site.run(
            ["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test"], check=True
        )
        time.sleep(2.5)
        if node_fields(site, node)["State"].startswith("DOWN"):
            return
    pytest.fail(f"{node} does not stay down")


def give_up_soon(site: ReferenceSite) -> None:
    """Slurm's commands ask a slurmctld that is not there for so long."""
    script = f"sed -i s/^MessageTimeout=.*/MessageTimeout=3/ {CONF}/slurm.conf"
    site.run(["sh", "-c", script], check=True)


def file(site: ReferenceSite, name: str) -> str:
    return site.controller.read(f"{CONF}/{name}")


def files(site: ReferenceSite) -> dict[str, str]:
    return {name: file(site, name) for name in ("hpcmgr.conf", "gres.conf", "cgroup.conf")}


def node_fields(site: ReferenceSite, node: str) -> dict[str, str]:
    text = site.run(["scontrol", "-o", "show", "node", node], check=True).stdout
    return dict(re.findall(r"(\S+?)=(\S+)", text))


def run_on(site: ReferenceSite, node: str, gres: str, name: str) -> str:
    """A job that looks which devices it may open, every second, until it is cancelled."""
    out = f"/shared/out/{name}"
    look = f"while :; do look batch >{out}.new; mv {out}.new {out}; sleep 1; done"
    script = f"#!/bin/sh\nrm -f {out}\n{LOOK}\n{look}\n"
    job = site.sbatch("-w", node, f"--gres={gres}", "-o", "/dev/null", script=script)
    site.wait_job(job, ["RUNNING"], 30)
    site.wait_until(lambda: opened(site, name), 30, f"{name} to look")
    return job


def opened(site: ReferenceSite, name: str) -> set[str]:
    """Devices that the job could open when it last looked."""
    seen = parse(site.run(["cat", f"/shared/out/{name}"]).stdout).get("batch")
    return set(seen.open) if seen else set()


def held_by(site: ReferenceSite, job: str, node: str, gres: str) -> set[int]:
    return indices(allocation(site, job)[0][node][1], gres)


def wrapped(site: ReferenceSite, shell: str) -> dict[str, str]:
    """An environment whose scontrol first does ``shell``."""
    script = f'#!/bin/sh\n{shell}\nexec /usr/bin/scontrol "$@"\n'
    site.controller.write("/root/wrapped/scontrol", script, mode=0o755)
    return {"PATH": "/root/wrapped:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


# --- good changes ---


def test_nothing_to_change_is_said_and_nothing_is_restarted(
    ground: ReferenceSite, apply: Apply
) -> None:
    """Equal files are never applied again."""
    before = node_fields(ground, "t401")["SlurmdStartTime"]

    done = apply("--yes")

    assert done.returncode == 0, done.stderr
    assert "nothing to change: the files are in force" in done.stderr
    assert node_fields(ground, "t401")["SlurmdStartTime"] == before


def test_a_dry_run_shows_the_difference_and_proves_it(ground: ReferenceSite, apply: Apply) -> None:
    """Exit code 3, a unified diff on stdout, nothing written."""
    lose_device(ground, "t401")
    before = files(ground)

    done = apply("--dry-run")

    assert done.returncode == 3, done.stderr
    assert f"--- {CONF}/gres.conf" in done.stdout
    assert "\n-NodeName=t[401-402] Name=gpu Type=t4 File=/dev/nvidia1" in done.stdout
    assert "proven" in done.stderr
    assert files(ground) == before
    assert ground.run(["ls", f"{CONF}/hpcmgr.d"]).returncode != 0


def test_a_good_change_is_in_force_and_every_node_is_told(
    ground: ReferenceSite, apply: Apply
) -> None:
    """The node has its new count, is idle again, and the files before are in the backup."""
    lose_device(ground, "t401")
    before = files(ground)

    done = apply("--yes")

    assert done.returncode == 0, done.stderr
    assert "t401: came back with the counts it should have" in done.stdout
    assert "2 other nodes came back as they were" in done.stdout
    assert "gpu:t4:3" in node_fields(ground, "t401")["Gres"]
    ground.wait_nodes_idle()
    backup = re.search(r"as they were before: (\S+)", done.stderr)
    assert backup
    assert ground.controller.read(f"{backup[1]}/gres.conf") == before["gres.conf"]
    assert ground.run(["ls", f"{CONF}/hpcmgr.d/apply.json"]).returncode != 0
    assert apply("--yes").returncode == 0


def test_without_yes_and_terminal_it_refuses(ground: ReferenceSite, apply: Apply) -> None:
    """Exit code 2, nothing written."""
    lose_device(ground, "t401")
    before = files(ground)

    done = apply()

    assert done.returncode == 2
    assert "no terminal to ask on" in done.stderr
    assert files(ground) == before


def test_what_does_not_stand_the_proof_is_not_written(ground: ReferenceSite, apply: Apply) -> None:
    """Slurm itself refuses it first."""
    ground.write_site(nodes=[{"nodes": "t401", "options": {"Weigth": 10}}])
    before = files(ground)

    done = apply("--yes")

    assert done.returncode == 1
    assert "do not stand the proof" in done.stderr
    assert files(ground) == before
    ground.wait_nodes_idle()


# --- jobs on the devices ---


def test_no_device_is_in_two_jobs_after_an_apply_and_no_job_is_killed(
    ground: ReferenceSite, apply: Apply
) -> None:
    """Devices move on two nodes, one of them with a job: that one waits, its job lives and keeps
    its device, new jobs get the others; the free node changes at once."""
    job = run_on(ground, "t401", "gpu:t4:2", "first")
    mine = opened(ground, "first")
    before = held_by(ground, job, "t401", "gpu:t4")
    lose_device(ground, "t401")
    lose_device(ground, "t402")

    done = apply("--yes")

    assert done.returncode == 4, done.stderr
    assert f"t401 waits (its devices would move): {job} (alice, R)" in done.stdout
    assert "t402: came back with the counts it should have" in done.stdout
    assert "gpu:t4:4" in node_fields(ground, "t401")["Gres"]
    assert "gpu:t4:3" in node_fields(ground, "t402")["Gres"]
    other = run_on(ground, "t401", "gpu:t4:2", "second")
    assert ground.job_state(job) == "RUNNING"
    assert opened(ground, "first") == mine
    assert held_by(ground, job, "t401", "gpu:t4") == before
    assert not before & held_by(ground, other, "t401", "gpu:t4")
    assert not mine & opened(ground, "second")

    ground.run(["scancel", job, other])
    ground.wait_nodes_idle()
    assert apply("--yes").returncode == 0
    assert "gpu:t4:3" in node_fields(ground, "t401")["Gres"]


def test_counts_without_devices_change_under_running_jobs(
    ground: ReferenceSite, apply: Apply
) -> None:
    """Units are CountOnly: no node waits, the job lives."""
    job = run_on(ground, "t401", "gpu:t4:1", "units")
    set_units(ground, 3)

    done = apply("--yes")

    assert done.returncode == 0, done.stderr
    assert "compute:12" in node_fields(ground, "t401")["Gres"]
    assert ground.job_state(job) == "RUNNING"
    assert held_by(ground, job, "t401", "gpu:t4") == {0}


def test_a_node_waits_with_only_its_own_lines_and_the_units_of_others_change(
    ground: ReferenceSite, apply: Apply
) -> None:
    """The waiting node keeps its lines whole, word for word."""
    job = run_on(ground, "t401", "gpu:t4:1", "kept")
    lose_device(ground, "t401")
    set_units(ground, 3)

    done = apply("--yes")

    assert done.returncode == 4, done.stderr
    assert "NodeName=t401 Sockets=2" in file(ground, "hpcmgr.conf")
    assert "compute:8" in node_fields(ground, "t401")["Gres"]
    assert "compute:12" in node_fields(ground, "t402")["Gres"]
    assert ground.job_state(job) == "RUNNING"
    again = apply("--yes")
    assert again.returncode == 4
    assert "nothing to change now" in again.stderr


def test_a_suspended_job_still_has_its_devices(ground: ReferenceSite, apply: Apply) -> None:
    """Its node waits as well."""
    job = run_on(ground, "t401", "gpu:t4:1", "asleep")
    ground.run(["scontrol", "suspend", job], check=True)
    lose_device(ground, "t401")

    done = apply("--yes")

    assert done.returncode == 4, done.stderr
    assert f"{job} (alice, S)" in done.stdout
    ground.run(["scontrol", "resume", job], check=True)
    assert ground.job_state(job) == "RUNNING"


def test_a_job_that_starts_after_the_first_look_makes_its_node_wait(
    ground: ReferenceSite, apply: Apply
) -> None:
    """It starts between the check and the drain: seen by the second look, nothing moves."""
    lose_device(ground, "t401")
    env = wrapped(
        ground,
        'case "$*" in *State=DRAIN*) su alice -c "sbatch -w t401 --gres=gpu:t4:1 -o /dev/null '
        "--wrap='sleep 120'\" >/shared/out/late; sleep 4;; esac",
    )

    done = apply("--yes", env=env)

    job = ground.run(["cat", "/shared/out/late"]).stdout.split()[-1]
    assert done.returncode == 4, done.stderr
    assert f"t401 waits (its devices would move): {job} (alice, R)" in done.stdout
    assert ground.job_state(job) == "RUNNING"
    assert "gpu:t4:4" in node_fields(ground, "t401")["Gres"]
    assert "DRAIN" not in node_fields(ground, "t401")["State"]


def test_jobs_that_come_in_all_the_time_are_not_harmed(ground: ReferenceSite) -> None:
    """On the very node that changes: none dies, no device is in two of them."""
    lose_device(ground, "t401")
    options = ["-w", "t401", "--gres=gpu:t4:1", "--wrap=sleep 120", "-o", "/dev/null"]
    running = ground.spawn(["hpcmgr", "apply", "--yes"], log="racing.log")
    jobs: list[str] = []
    while running.alive and len(jobs) < 200:
        jobs.append(ground.run(["sbatch", "--parsable", *options], user="alice").stdout.strip())
    ground.wait_until(lambda: not running.alive, 120, "the apply to end")

    assert running.returncode in (0, 4), running.log
    assert "Killing job" not in ground.log("slurmctld")
    # slurmctld answers nobody for a moment while it starts anew.
    states = {job: ground.job_state(job) for job in jobs if job}
    assert set(states.values()) <= {"RUNNING", "PENDING"}, states
    taken = [held_by(ground, j, "t401", "gpu:t4") for j, s in states.items() if s == "RUNNING"]
    assert len(set().union(*taken)) == sum(len(t) for t in taken)
    assert "drain" not in ground.node_states()["t401"]


def test_drain_first_waits_for_the_jobs_and_gives_the_node_back(
    ground: ReferenceSite, apply: Apply
) -> None:
    """The job ends in its own time, the node changes, new jobs run on it."""
    job = ground.sbatch("-w", "t401", "--gres=gpu:t4:1", "--wrap=sleep 6", "-o", "/dev/null")
    ground.wait_job(job, ["RUNNING"])
    lose_device(ground, "t401")

    done = apply("--yes", "--drain-first")

    assert done.returncode == 0, done.stderr
    assert "drained, waiting for jobs on t401" in done.stderr
    assert ground.job_state(job) == "COMPLETED"
    assert "gpu:t4:3" in node_fields(ground, "t401")["Gres"]
    ground.wait_until(lambda: ground.node_states()["t401"] == "idle", 20, "t401 to be idle")


def test_drain_first_ended_by_ctrl_c_resumes_its_own_drains_only(ground: ReferenceSite) -> None:
    """What an administrator drained stays drained."""
    job = ground.sbatch("-w", "t401", "--gres=gpu:t4:1", "--wrap=sleep 90", "-o", "/dev/null")
    other = ground.sbatch("-w", "t402", "--gres=gpu:t4:1", "--wrap=sleep 90", "-o", "/dev/null")
    ground.wait_job(job, ["RUNNING"])
    ground.wait_job(other, ["RUNNING"])
    drained = ["scontrol", "update", "NodeName=t402", "State=DRAIN", "Reason=fan"]
    ground.run(drained, check=True)
    lose_device(ground, "t401")
    lose_device(ground, "t402")
    before = files(ground)

    running = ground.spawn(["hpcmgr", "apply", "--yes", "--drain-first"], log="ctrlc.log")
    ground.wait_until(lambda: "waiting for jobs" in running.log, 60, "the drain")
    assert "DRAIN" in node_fields(ground, "t401")["State"]
    running.signal(2)
    ground.wait_until(lambda: not running.alive, 30, "the apply to end")

    assert "Traceback" not in running.log
    assert "DRAIN" not in node_fields(ground, "t401")["State"]
    assert "DRAIN" in node_fields(ground, "t402")["State"]
    assert files(ground) == before
    assert ground.job_state(job) == ground.job_state(other) == "RUNNING"


# --- what goes wrong ---


def test_a_node_that_registers_invalid_has_everything_taken_back(
    ground: ReferenceSite, apply: Apply
) -> None:
    """Less memory than its line says: the old files are in force again, the node is idle, the job
    on another node lives."""
    job = run_on(ground, "t402", "gpu:t4:1", "neighbour")
    before = files(ground)
    # RealMemory is what the recorded machine had, far above this one's.
    ground.write_site(nodes=[{"nodes": "mix01,t402", "memory_mib": 8000}])

    done = apply("--yes")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "taken back" in done.stderr
    assert "t401" in done.stderr
    assert files(ground) == before
    ground.wait_until(lambda: ground.node_states()["t401"] == "idle", 20, "t401 to be idle")
    assert ground.job_state(job) == "RUNNING"
    assert held_by(ground, job, "t402", "gpu:t4") == {0}


def test_a_missing_device_file_is_taken_back(ground: ReferenceSite, apply: Apply) -> None:
    """slurmd waits for the file; the node comes back with its old lines."""
    before = files(ground)
    claim_device(ground, "t401")

    done = apply("--yes")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "t401 its slurmd has not read the new files" in done.stderr
    assert files(ground) == before
    ground.wait_until(lambda: ground.node_states()["t401"] == "idle", 20, "t401 to be idle")


def test_an_unreachable_node_is_told_and_the_others_go_on(
    ground: ReferenceSite, apply: Apply
) -> None:
    """Exit code 4; the node takes the files when its slurmd is back."""
    ground.write_site(apply={**FAST, "node_limit": 12.0})
    take_down(ground, "t402")
    lose_device(ground, "t401")
    lose_device(ground, "t402")

    done = apply("--yes")

    assert done.returncode == 4, done.stderr
    assert "t402: was DOWN" in done.stdout
    assert "t401: came back with the counts it should have" in done.stdout
    ground.start_daemon("slurmd@t402")
    ground.reset()
    assert "gpu:t4:3" in node_fields(ground, "t402")["Gres"]


def test_a_slurmd_that_died_unnoticed_leaves_no_node_drained(
    ground: ReferenceSite, apply: Apply
) -> None:
    """Nobody knows whether it died over the new files: they are taken back; the next apply knows it
    as away."""
    ground.write_site(apply={**FAST, "node_limit": 12.0})
    before = files(ground)
    ground.stop_daemon("slurmd@t402")
    lose_device(ground, "t401")
    lose_device(ground, "t402")

    done = apply("--yes")

    assert done.returncode == 1, done.stderr
    assert "taken back: t402 does not answer" in done.stderr
    assert "could not be resumed" not in done.stderr
    assert files(ground) == before
    states = {node: node_fields(ground, node)["State"] for node in MACHINES}
    assert not [state for state in states.values() if "DRAIN" in state], states

    again = apply("--yes")

    assert again.returncode == 4, again.stderr
    assert "t401: came back with the counts it should have" in again.stdout


def test_without_slurmctld_nothing_is_changed(ground: ReferenceSite, apply: Apply) -> None:
    """Nobody knows which nodes have jobs."""
    give_up_soon(ground)
    lose_device(ground, "t401")
    before = files(ground)
    ground.stop_daemon("slurmctld")
    try:
        done, shown = apply("--yes"), apply("--dry-run")
    finally:
        ground.start_daemon("slurmctld")

    assert done.returncode == 1
    assert "slurmctld does not answer" in done.stderr
    assert "Traceback" not in done.stderr
    assert files(ground) == before
    assert shown.returncode == 3
    assert "which nodes would have to wait is not known" in shown.stderr


def test_a_slurmctld_that_does_not_come_back_gets_its_old_files(
    ground: ReferenceSite, apply: Apply
) -> None:
    """The files are as they were, and the hint says what to start."""
    give_up_soon(ground)
    lose_device(ground, "t401")
    before = files(ground)
    crash = '[ "$1" = reconfigure ] && exec kill -9 $(cat /run/slurmctld.pid)'

    done = apply("--yes", env=wrapped(ground, crash))

    assert done.returncode == 1, done.stderr
    assert "start it (systemctl start slurmctld)" in done.stderr
    assert files(ground) == before
    ground.start_daemon("slurmctld")
    ground.wait_until(lambda: ground.run(["scontrol", "ping"]).returncode == 0, 20, "slurmctld")
    again = apply("--yes")
    assert again.returncode == 0, again.stderr
    assert "was killed" in again.stderr
    assert "gpu:t4:3" in node_fields(ground, "t401")["Gres"]
    ground.wait_until(lambda: ground.node_states()["t401"] == "idle", 20, "t401 to be idle")


def test_an_apply_killed_before_the_reconfigure_is_taken_back_by_the_next(
    ground: ReferenceSite, apply: Apply
) -> None:
    """Files written, nobody has read them: they are put back, then applied anew."""
    lose_device(ground, "t401")
    env = wrapped(ground, '[ "$1" = reconfigure ] && exec kill -9 $PPID')
    killed = apply("--yes", env=env)
    assert killed.returncode in (-9, 137)
    assert "DRAIN" in node_fields(ground, "t401")["State"]

    done = apply("--yes")

    assert done.returncode == 0, done.stderr
    assert "was killed before its files were in force" in done.stderr
    assert "gpu:t4:3" in node_fields(ground, "t401")["Gres"]
    ground.wait_until(lambda: ground.node_states()["t401"] == "idle", 20, "t401 to be idle")


def test_an_apply_killed_after_the_reconfigure_is_finished_by_the_next(
    ground: ReferenceSite, apply: Apply
) -> None:
    """Daemons run with the new files: its drains are taken back, nothing else is done."""
    lose_device(ground, "t401")
    late = '[ "$1" = reconfigure ] && { /usr/bin/scontrol reconfigure; sleep 3; kill -9 $PPID; }'
    killed = apply("--yes", env=wrapped(ground, late))
    assert killed.returncode in (-9, 137)

    done = apply("--yes")

    assert done.returncode == 0, done.stderr
    assert "it is finished now" in done.stderr
    assert "gpu:t4:3" in node_fields(ground, "t401")["Gres"]
    ground.wait_until(lambda: ground.node_states()["t401"] == "idle", 20, "t401 to be idle")


def test_two_at_once(ground: ReferenceSite, apply: Apply) -> None:
    """The second is refused and says who runs; the first goes on."""
    job = ground.sbatch("-w", "t401", "--gres=gpu:t4:1", "--wrap=sleep 90", "-o", "/dev/null")
    ground.wait_job(job, ["RUNNING"])
    lose_device(ground, "t401")
    running = ground.spawn(["hpcmgr", "apply", "--yes", "--drain-first"], log="one.log")
    ground.wait_until(lambda: "waiting for jobs" in running.log, 60, "the first apply")

    second = apply("--yes")
    ground.run(["scancel", job])
    ground.wait_until(lambda: not running.alive, 60, "the first apply to end")

    assert second.returncode == 1
    assert "another apply is running (process" in second.stderr
    assert running.returncode == 0, running.log


def test_a_full_disk_leaves_everything_as_it_was(ground: ReferenceSite, apply: Apply) -> None:
    """No room for the new files: the old ones stay whole, nothing stays drained."""
    lose_device(ground, "t401")
    script = (
        "mkdir -p /mnt/tiny && mount -t tmpfs -o size=200k tmpfs /mnt/tiny && "
        f"cp -a {CONF}/. /mnt/tiny/ && mount --bind /mnt/tiny {CONF}"
    )
    ground.run(["sh", "-c", script], check=True)
    try:
        before = files(ground)
        filled = f"dd if=/dev/zero of={CONF}/filler bs=1k count=1000 2>/dev/null; true"
        ground.run(["sh", "-c", filled], check=True)
        done = apply("--yes")
        after = files(ground)
    finally:
        ground.run(["sh", "-c", f"umount {CONF}; umount /mnt/tiny"], check=True)

    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr
    assert after == before
    ground.wait_nodes_idle()


# --- the shim ---


def test_a_changed_module_of_the_shim_is_loaded_without_a_reconfigure(
    ground: ReferenceSite, apply: Apply
) -> None:
    """slurmctld reads its script again when the script's time changes, and then the module."""
    before = node_fields(ground, "t401")["SlurmdStartTime"]
    broken = "return {configure = function() end, behind = function(a, b) return a, b end}\n"
    ground.controller.write(f"{CONF}/hpcmgr/submit.lua", broken)

    done = apply("--yes")

    assert done.returncode == 0, done.stderr
    assert "in force: hpcmgr/submit.lua" in done.stderr
    assert node_fields(ground, "t401")["SlurmdStartTime"] == before
    said = ground.run(["sbatch", "--gres=compute:2", "--wrap=true"], user="alice").stderr
    assert "becomes" in said


def test_a_sites_own_script_is_never_overwritten(ground: ReferenceSite, apply: Apply) -> None:
    """The five lines to add are said instead."""
    own = "function slurm_job_submit() return slurm.SUCCESS end\n"
    own += "function slurm_job_modify() return slurm.SUCCESS end\n"
    ground.controller.write(f"{CONF}/job_submit.lua", own)

    done = apply("--yes")

    assert done.returncode == 0, done.stderr
    assert file(ground, "job_submit.lua") == own
    assert "is the site's own and stays as it is" in done.stderr
    assert 'local hpcmgr = require("hpcmgr.submit")' in done.stderr


def test_files_that_nobody_has_read_are_brought_into_force_or_refused(
    ground: ReferenceSite, apply: Apply
) -> None:
    """Somebody wrote them and did not reconfigure: free nodes take them, a busy one refuses."""
    lose_device(ground, "t401")
    job = run_on(ground, "t401", "gpu:t4:2", "busy")
    ground.run(["sh", "-c", "sleep 3; hpcmgr render --out /etc/slurm"], check=True)

    refused = apply("--yes")
    assert refused.returncode == 1
    assert "t401 has jobs on its devices and does not run with the files" in refused.stderr
    assert ground.job_state(job) == "RUNNING"

    ground.run(["scancel", job])
    ground.wait_nodes_idle()
    done = apply("--yes")
    assert done.returncode == 0, done.stderr
    assert "gpu:t4:3" in node_fields(ground, "t401")["Gres"]


SCAN = """\
schema: hpcmgr.fabric/1
switches:
  leaf1: {network: ethernet, links: core, hosts: {ens1: 'mix01,t401'}}
  leaf2: {network: ethernet, links: core, hosts: {ens1: 't402'}}
  core: {network: ethernet, links: 'leaf[1-2]'}
"""


def test_blocks_come_under_a_running_job_and_an_unchanged_topology_is_never_applied_again(
    ground: ReferenceSite, apply: Apply
) -> None:
    """The job keeps its nodes and devices; the second apply bothers no daemon."""
    job = run_on(ground, "t401", "gpu:t4:2", "steady")
    before = allocation(ground, job)[0]
    ground.controller.write("/shared/fabric.yaml", SCAN)
    ground.write_site(fabric={}, topology={"scan": "/shared/fabric.yaml", "plugins": ["block"]})
    change = f"sed -i s,topology/tree,topology/block, {CONF}/slurm.conf"
    ground.run(["sh", "-c", change], check=True)

    first = apply("--yes")
    assert first.returncode == 0, first.stderr
    shown = ground.run(["scontrol", "show", "topology"], check=True).stdout
    assert "BlockName=leaf1 BlockIndex=0 Nodes=mix01,t401" in shown
    assert ground.job_state(job) == "RUNNING"
    assert allocation(ground, job)[0] == before
    started = node_fields(ground, "t401")["SlurmdStartTime"]
    log = ground.log("slurmctld").count("started on cluster")

    again = apply("--yes")
    assert again.returncode == 0, again.stderr
    assert "nothing to change: the files are in force" in again.stderr
    assert node_fields(ground, "t401")["SlurmdStartTime"] == started
    assert ground.log("slurmctld").count("started on cluster") == log
