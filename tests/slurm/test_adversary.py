"""Requests and events that were found to end in the wrong place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lightcluster.site import ReferenceSite
from tests.slurm.probe import LOOK, allocation, parse, run_job

pytestmark = pytest.mark.slurm

SLEEP = "--wrap=sleep 60"
TYPES = {"gres/gpu:a100": 8, "gres/gpu:t4": 2, "gres/npu:ascend910b3": 8}


@pytest.fixture(name="away")
def _away(site: ReferenceSite) -> Iterator[ReferenceSite]:
    """The site without its service; the shim's breaker is closed again."""
    site.stop_service()
    site.close_breaker()
    yield site
    site.reset()


def come_back(site: ReferenceSite) -> None:
    site.start_service()
    site.close_breaker()


def submit(site: ReferenceSite, *options: str, script: str | None = None) -> str:
    """A job of alice; returns its id, a refusal raises."""
    wrap = [] if script else [SLEEP]
    done = site.run(
        ["sbatch", "--parsable", "-o", "/dev/null", *options, *wrap],
        user="alice", input=script, check=True,
    )  # fmt: skip
    return done.stdout.split(";")[0].strip()


def booked(site: ReferenceSite, job_id: str) -> tuple[int, int]:
    """Units of the devices that a running job has, and units that are booked for it."""
    site.wait_job(job_id, ["RUNNING"], 20)
    pairs = allocation(site, job_id)[1]["AllocTRES"].split(",")
    tres = dict(pair.split("=", 1) for pair in pairs)
    return sum(int(tres.get(k, 0)) * n for k, n in TYPES.items()), int(tres.get("gres/compute", 0))


# --- units --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ("--gres=npu:ascend910b3:8,gpu:0",),
        ("--gres=gpu:t4:4,npu:0",),
        ("--gres=gpu:a100:1,gpu:t4:0",),
        ("--gres=gpu:t4:1,",),
        ("--gres=,gpu:t4:1",),
        ("--gres=gpu:t4:1,gpu:t4:1",),
        ("--gpus=t4:2", "--gpus-per-node=t4:2", "-N1"),
        ("--gpus-per-node=t4:2", "--gpus-per-task=t4:1", "-n2", "-N1"),
        ("--gres=gpu:t4:1", "-x", ",".join(["mix01"] * 11_000)),
        ("--gres=gpu:1,npu:1",),
        ("--gres=gpu:1", "-w", "mix01"),
        ("-n2", "--ntasks-per-gpu=1"),
    ],
    ids=lambda options: " ".join(options)[:60],
)
def test_devices_never_run_without_their_units(
    site: ReferenceSite, options: tuple[str, ...]
) -> None:
    """Whatever the spelling: what is handed out is booked, or the job is refused."""
    done = site.run(["sbatch", "--parsable", *options, SLEEP], user="alice")
    if done.returncode == 0:
        devices, units = booked(site, done.stdout.strip())
        assert units == devices, done.stderr


# --- a rewrite must not make a request impossible -----------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ("-N1", "-n2", "--ntasks-per-gpu=1", "--gpus=t4:2"),
        ("-N1", "--ntasks-per-gpu=1", "--gpus-per-node=t4:2"),
        ("-N1", "-n2", "--ntasks-per-gpu=1", "--gres=gpu:t4:2"),
        ("-N1", "-n1", "--gres=gpu:t4:2", "--cpus-per-gpu=1"),
        ("-n3", "--gpus-per-task=t4:1", "--cpus-per-gpu=2"),
    ],
    ids=" ".join,
)
def test_units_added_to_a_direct_request_do_not_make_it_impossible(
    site: ReferenceSite, options: tuple[str, ...]
) -> None:
    """What stock Slurm runs, runs here too."""
    site.wait_job(submit(site, *options), ["RUNNING"], 15)


@pytest.mark.parametrize(
    "options",
    [("-n20", "--gres=compute:t4:2"), ("-n6", "--tres-per-task=gres/compute:t4:2")],
    ids=" ".join,
)
def test_tasks_without_a_number_of_nodes_may_spread(
    site: ReferenceSite, options: tuple[str, ...]
) -> None:
    """Without -N, Slurm takes as many nodes as the tasks need, as for --gres=gpu:t4:1."""
    if site.release == "24.11" and "-n6" in options:
        pytest.skip("Slurm 24.11 loses units per task; such a request is refused")
    site.wait_job(submit(site, *options), ["RUNNING"], 15)


def test_npus_per_task_without_nodes_are_refused_not_left_waiting(site: ReferenceSite) -> None:
    """Slurm lets such a job wait for ever, asked directly too: the user is told what to add."""
    done = site.run(["sbatch", "-n4", "--tres-per-task=gres/compute:npu:8", SLEEP], user="alice")

    assert done.returncode != 0
    assert "-N" in done.stderr or "--gres=compute:N" in done.stderr


def test_a_reservation_bounds_the_choice(site: ReferenceSite) -> None:
    """compute:2 in a reservation of mix01 is what mix01 has, not a T4."""
    site.run(["scontrol", "create", "reservation", "ReservationName=r", "users=alice",
              "nodes=mix01", "start=now", "duration=30"], check=True)  # fmt: skip
    try:
        site.wait_job(submit(site, "--reservation=r", "--gres=compute:2"), ["RUNNING"], 20)
    finally:
        site.run(["scancel", "-u", "alice"])
        site.wait_until(lambda: site.run(["squeue", "-h"]).stdout == "", 20, "the job to be gone")
        site.run(["scontrol", "delete", "reservation=r"], check=True)


def test_a_range_of_nodes_does_not_take_whole_sockets(site: ReferenceSite) -> None:
    """-N2-4: two CPUs a node, as it is for -N2."""
    job = run_job(site, "-N2-4", "--gres=compute:t4:2")

    assert job.fields["NumCPUs"] == "4"


def test_a_node_list_does_not_take_whole_sockets(site: ReferenceSite) -> None:
    """-w t401,t402 without -N: two CPUs a node."""
    job = run_job(site, "-w", "t401,t402", "--gres=compute:t4:2")

    assert job.fields["NumCPUs"] == "4"


# --- devices in steps ---------------------------------------------------------------------------


@pytest.mark.parametrize("selector", ["", "npu:", "t4:"])
def test_steps_of_a_request_per_task_have_their_devices(site: ReferenceSite, selector: str) -> None:
    """Each task of srun in the job opens one device; where Slurm loses them it is refused."""
    units = 2 if selector == "t4:" else 8
    request = ["-N1", "-n2", f"--tres-per-task=gres/compute:{selector}{units}"]
    if site.release == "24.11":
        done = site.run(["sbatch", *request, SLEEP], user="alice")
        assert done.returncode != 0
        assert "loses units per task" in done.stderr
        return
    job = run_job(
        site, *request,
        body=f"cat > /shared/out/look.$$ <<'END'\n{LOOK}\nlook task$SLURM_PROCID\nEND\n"
        "srun sh /shared/out/look.$$",
    )  # fmt: skip

    for task in ("task0", "task1"):
        assert task in job.steps, "the step did not start"
        assert len(job.steps[task].open) == 1, job.steps[task]


@pytest.mark.parametrize("command", [["srun"], ["salloc"]])
def test_a_request_per_task_outside_sbatch_is_refused(
    site: ReferenceSite, command: list[str]
) -> None:
    """A direct srun would give every task all devices of the step."""
    request = ["-N1", "-n2", "--tres-per-task=gres/compute:t4:2", "true"]
    done = site.run([*command, *request], user="alice")

    assert done.returncode != 0
    assert "--gres=compute:N" in done.stderr


@pytest.mark.parametrize(
    "options", [("--gpus-per-task=t4:1",), ("--gres=compute:t4:8", "--gpu-bind=single:1")],
    ids=" ".join,
)  # fmt: skip
def test_every_task_bound_to_its_gpu_is_told_of_it(
    site: ReferenceSite, options: tuple[str, ...]
) -> None:
    """HPCMGR_DEVICES of each of four tasks is the one device that it can open."""
    done = site.run(
        ["srun", "-w", "t401", "-n4", *options, "sh", "-c", f"{LOOK}\nlook task$SLURM_PROCID"],
        user="alice", check=True,
    )  # fmt: skip

    seen_by = parse(done.stdout)
    assert sorted(seen_by) == ["task0", "task1", "task2", "task3"]
    for task, seen in seen_by.items():
        assert seen.env.get("HPCMGR_DEVICES", "").split(",") == seen.open, (task, seen)
        assert seen.env.get("HPCMGR_RUNTIME") == "cuda", task


def test_a_users_odd_environment_does_not_break_the_task_prolog(site: ReferenceSite) -> None:
    """PATH without tools, and variables that are called like the script's own."""
    for env in ("PATH=/nonexistent", "ALL,count_ASCEND_RT_VISIBLE_DEVICES=x y"):
        done = site.run(
            ["srun", "--gres=compute:npu:8", f"--export={env}", "/bin/sh", "-c",
             "echo got $ASCEND_RT_VISIBLE_DEVICES"], user="alice",
        )  # fmt: skip
        assert done.returncode == 0, (env, done.stderr)
        assert done.stdout.strip() not in {"got", ""}, env


# --- the service was away -----------------------------------------------------------------------


def test_several_nodes_bound_late_start(away: ReferenceSite) -> None:
    """-N2 without CPUs, bound when the service is back, runs on two idle nodes."""
    job_id = submit(away, "-N2", "--gres=compute:t4:2")
    come_back(away)

    away.wait_job(job_id, ["RUNNING"], 25)


def test_a_job_bound_late_has_the_cpus_of_its_devices(away: ReferenceSite) -> None:
    """Two for a T4, whether the service was there at submission or not."""
    job_id = submit(away, "--gres=compute:t4:2")
    come_back(away)
    away.wait_job(job_id, ["RUNNING"], 25)

    assert allocation(away, job_id)[1]["NumCPUs"] == "2"


def test_a_users_own_hold_of_an_unbound_job_is_refused(away: ReferenceSite) -> None:
    """Slurm would keep no trace of it, and the late binding would undo it: he is told so."""
    job_id = submit(away, "--gres=compute:t4:2")
    done = away.run(["scontrol", "hold", job_id], user="alice")

    assert done.returncode != 0
    assert "held already" in done.stderr


def test_an_administrators_hold_that_was_put_on_meanwhile_stays(away: ReferenceSite) -> None:
    """``scontrol hold`` by the administrator outlives the late binding."""
    job_id = submit(away, "--gres=compute:t4:2")
    away.run(["scontrol", "hold", job_id], check=True)
    come_back(away)
    away.wait_until(
        lambda: "unbound" not in allocation(away, job_id)[1].get("TresPerNode", "unbound"),
        20, "the binding",
    )  # fmt: skip

    with pytest.raises(Exception, match="to be RUNNING"):
        away.wait_job(job_id, ["RUNNING"], 6)


HETJOB = (
    "#!/bin/sh\n#SBATCH -n1 {first}\n#SBATCH hetjob\n#SBATCH -n1 --gres=compute:t4:2\nsleep 60\n"
)


def test_each_component_bound_late_gets_what_it_asked(away: ReferenceSite) -> None:
    """The second component of a heterogeneous job asked for a T4, the first for an NPU."""
    job_id = submit(away, script=HETJOB.format(first="--gres=compute:npu:8"))
    come_back(away)
    away.wait_job(job_id, ["RUNNING"], 25)
    shown = away.run(["squeue", "-h", "-o", "%i %b", f"--jobs={job_id}"]).stdout

    assert dict(line.split() for line in shown.splitlines())[f"{job_id}+1"].startswith(
        "gres/gpu:t4:1"
    )


def test_a_component_beside_one_without_devices_is_bound_late(away: ReferenceSite) -> None:
    """Only the second component asks for units."""
    job_id = submit(away, script=HETJOB.format(first=""))
    come_back(away)

    away.wait_job(job_id, ["RUNNING"], 25)


def test_tasks_split_from_their_array_are_bound_late_each(away: ReferenceSite) -> None:
    """An administrator held one task of three: all are bound, two run."""
    job_id = submit(away, "--array=0-2%2", "--gres=compute:t4:2")
    away.run(["scontrol", "hold", f"{job_id}_1"], check=True)
    come_back(away)
    away.wait_job(f"{job_id}_0", ["RUNNING"], 25)
    away.wait_job(f"{job_id}_2", ["RUNNING"], 25)

    away.wait_until(
        lambda: "unbound" not in allocation(away, f"{job_id}_1")[1]["TresPerNode"], 20, "task 1"
    )
    assert allocation(away, f"{job_id}_1")[1]["Reason"] == "JobHeldAdmin"


@pytest.mark.parametrize("request_", ["compute:800", "compute:foo:3", "compute:unbound:3"])
def test_a_user_sees_why_his_job_can_never_be_bound(away: ReferenceSite, request_: str) -> None:
    """In the job itself and by explain, written once; he may cancel it."""
    job_id = submit(away, f"--gres={request_}")
    come_back(away)

    def comment() -> str:
        shown = away.run(["scontrol", "show", "job", job_id], user="alice").stdout
        return next(line for line in shown.splitlines() if "AdminComment=" in line)

    away.wait_until(lambda: '"state":"refused","error":"' in comment(), 20, "the refusal")
    told = away.run(["hpcmgr", "explain", job_id], user="alice")

    assert "refused" in told.stdout
    assert "\nwhy " in told.stdout
    refused = away.run(["scontrol", "release", job_id], user="alice")
    assert "cancel it" in refused.stderr
    assert away.run(["scancel", job_id], user="alice").returncode == 0


def test_a_journal_made_anew_is_still_private(site: ReferenceSite) -> None:
    """Deleted under the service, it comes back readable by its owner alone."""
    journal = "/var/lib/hpcmgr/service/journal.sqlite"
    site.run(["rm", "-f", journal], check=True)
    submit(site, "--gres=compute:t4:2")
    site.wait_until(lambda: site.run(["test", "-e", journal]).returncode == 0, 10, "the journal")

    assert site.run(["stat", "-c", "%a", journal]).stdout.strip() == "600"
