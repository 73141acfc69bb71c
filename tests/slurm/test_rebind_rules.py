"""The rules of late binding on a real cluster, and what happens while a cycle is under way."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from lightcluster.site import ReferenceSite
from tests.slurm.late import (
    NPU,
    RULES,
    busy_site,
    cycle,
    race,
    running_site,
    show,
    switch,
    waiting,
)

pytestmark = pytest.mark.slurm
__all__ = ["busy_site", "running_site"]


def tres(fields: dict[str, str]) -> dict[str, str]:
    """What the job asks, as Slurm counts it."""
    return dict(item.split("=", 1) for item in fields["ReqTRES"].split(","))


def planned(site: ReferenceSite, jobs: list[str]) -> None:
    """Backfill has a start time for them."""
    for job in jobs:
        site.wait_until(lambda job=job: show(site, job)["StartTime"] != "Unknown", 20, "its plan")


def holder(site: ReferenceSite) -> str:
    """The job that holds the GPU."""
    return site.run(["squeue", "-h", "-n", "gpu", "-o", "%A"]).stdout.strip()


def between(site: ReferenceSite, happens: Callable[[], object]) -> dict[str, str]:
    """Decide, let it happen, then move."""
    site.run(["sh", "-c", "rm -rf /tmp/race; install -d -m 1777 /tmp/race"], check=True)
    command = "touch /tmp/race/decided; until [ -e /tmp/race/done ]; do sleep 0.1; done"
    with ThreadPoolExecutor() as pool:
        said = pool.submit(race, site, command)
        decided = ["test", "-e", "/tmp/race/decided"]
        site.wait_until(lambda: site.run(decided).returncode == 0 or said.done(), 30, "the verdict")
        try:
            happens()
        finally:
            site.run(["touch", "/tmp/race/done"])
        return said.result()


def test_slurms_order_decides_and_no_device_is_promised_twice(site: ReferenceSite) -> None:
    """17 jobs, 16 NPUs: the last one comes first by its priority, the last of the others waits."""
    jobs = waiting(site, jobs=17)
    first = jobs[-1]
    site.run(["scontrol", "update", f"JobId={first}", "Priority=4294967000"], check=True)

    done = cycle(site)

    now = [job for job in jobs if str(done[job]["why"]).startswith("starts now")]
    assert sorted(now) == sorted([*jobs[:15], first])
    assert {done[job]["to"] for job in now} == {NPU}
    for job in now:
        site.wait_job(job, ["RUNNING"], 30)
    assert site.job_state(jobs[15]) == "PENDING"


REASONS = {
    "it has moved 0 times": {"max_moves": 0},
    "it would not end markedly earlier elsewhere": {"gain_seconds": 86400},
    "it is about to start": {"near_start": 86400},
    "the moves of this minute are used up": {"moves_per_minute": 1},
}


def test_the_sites_rules_hold(site: ReferenceSite) -> None:
    """Count, gain, nearness, moves a minute: the second job stays and says why."""
    jobs = waiting(site, jobs=2)
    planned(site, jobs)
    try:
        for why, rule in REASONS.items():
            site.write_site(rebind={**RULES["rebind"], **rule})
            assert cycle(site, "--dry-run")[jobs[1]]["why"] == why
    finally:
        site.write_site()
    assert cycle(site, "--dry-run")[jobs[1]]["to"] == NPU


def test_a_faster_device_is_worth_a_wait(site: ReferenceSite) -> None:
    """The GPU comes in 30 minutes. As fast as an NPU, the job moves; four times as fast, it waits:
    it would end there sooner."""
    site.run(["scontrol", "update", f"JobId={holder(site)}", "TimeLimit=30"], check=True)
    [job] = waiting(site)
    assert cycle(site, "--dry-run")[job]["to"] == NPU

    override = RULES["profiles"]["override"]
    faster = {**override, "a100-80g": {**override["a100-80g"], "units": 64}}
    try:
        site.write_site(profiles={"override": faster})
        said = cycle(site, "--dry-run")[job]
    finally:
        site.write_site()
    assert said["to"] is None
    assert said["why"] == "it would not end markedly earlier elsewhere"


def test_reservations_are_left_alone(site: ReferenceSite) -> None:
    """A job in one stays; another is not moved to nodes that are kept for somebody."""
    make = ["scontrol", "create", "reservation", "StartTime=now", "Duration=60"]
    site.run([*make, "ReservationName=own", "Users=alice", "Nodes=mix01", "Flags=IGNORE_JOBS"],
             check=True)  # fmt: skip
    try:
        [inside] = waiting(site, "--reservation=own")
        assert cycle(site)[inside]["why"] == "it belongs to a reservation"
        site.run(["scancel", inside], check=True)
    finally:
        site.run(["scontrol", "delete", "ReservationName=own"], check=True)

    switch(site, "DRAIN")
    [outside] = waiting(site)
    site.run([*make, "ReservationName=bobs", "Users=bob", "Nodes=npu01,npu02"], check=True)
    try:
        site.wait_picture()
        assert cycle(site, "--dry-run")[outside]["to"] is None
        assert cycle(site)[outside]["to"] is None
    finally:
        site.run(["scontrol", "delete", "ReservationName=bobs"], check=True)


def test_everything_that_changes_with_the_device_changes_together(site: ReferenceSite) -> None:
    """Devices, units, memory, CPUs and billing; what its user asked stays."""
    [job] = waiting(site)
    first = show(site, job)
    assert cycle(site)[job]["to"] == NPU
    then = show(site, job)
    before, after = tres(first), tres(then)

    assert (first["CPUs/Task"], before["mem"], before["gres/vram"]) == ("4", "96M", "80")
    assert (then["CPUs/Task"], after["mem"], after["gres/vram"]) == ("2", "64M", "64")
    assert (before["gres/compute"], after["gres/compute"]) == ("9", "8")
    assert before["gres/gpu:a100"] == after[f"gres/{NPU}"] == "1"
    assert not [name for name in after if name.startswith("gres/gpu")]
    for asked in (before, after):
        assert asked["billing"] == asked["gres/compute"]
    site.wait_job(job, ["RUNNING"], 20)
    allocated = show(site, job)["AllocTRES"]
    assert f"billing={after['billing']}" in allocated
    assert f"gres/{NPU}=1" in allocated
    assert "cpu=2,mem=64M" in allocated


@pytest.mark.parametrize("state", ["DRAIN", "FAIL"])
def test_devices_that_fail_free_their_jobs_without_gain(site: ReferenceSite, state: str) -> None:
    """The GPU would be free in ten minutes: nothing would be gained, were it in service."""
    site.run(["scontrol", "update", f"JobId={holder(site)}", "TimeLimit=10"], check=True)
    [job] = waiting(site)
    assert cycle(site, "--dry-run")[job]["to"] is None
    try:
        site.run(["scontrol", "update", "NodeName=mix01", f"State={state}", "Reason=xid"],
                 check=True)  # fmt: skip
        site.wait_until(lambda: cycle(site).get(job, {}).get("to") == NPU, 20, "it to move")
    finally:
        site.run(["scontrol", "update", "NodeName=mix01", "State=RESUME"], check=True)
    site.wait_job(job, ["RUNNING"], 20)


def test_an_estimate_is_judged_once_the_job_has_started(site: ReferenceSite) -> None:
    """In `explain` for its user, in `doctor` for all."""
    jobs = waiting(site, jobs=5)
    cycle(site)
    for job in jobs:
        site.wait_job(job, ["RUNNING"], 20)
    cycle(site)

    told = site.run(["hpcmgr", "explain", jobs[0]], user="alice", check=True).stdout
    assert "started on time" in told
    said = " ".join(site.run(["hpcmgr", "doctor"]).stdout.split())
    assert "jobs started, half of them within" in said


def test_slurmctld_restarts_within_a_cycle(site: ReferenceSite) -> None:
    """What was decided before it is moved once: right after, or in the next cycle."""
    [job] = waiting(site)

    def restart() -> None:
        site.stop_daemon("slurmctld")
        site.start_daemon("slurmctld")
        site.wait_until(lambda: site.run(["scontrol", "ping"]).returncode == 0, 30, "slurmctld")

    said = between(site, restart)[job]
    if said:  # Slurm tells the number of nodes otherwise after a restart
        assert said == "it was changed meanwhile"
        site.wait_until(lambda: cycle(site)[job]["to"] == NPU, 30, "the next cycle")
    assert '"moves":1' in show(site, job)["AdminComment"]
    site.wait_job(job, ["RUNNING"], 30)


def test_what_a_user_changes_within_a_cycle_is_kept(site: ReferenceSite) -> None:
    """Nodes that he leaves out stop the move; a new time limit goes along."""
    jobs = waiting(site, jobs=2)

    def update(job: str, what: str) -> None:
        site.run(["scontrol", "update", f"JobId={job}", what], user="alice", check=True)

    def changes() -> None:
        update(jobs[0], "ExcNodeList=npu01")
        update(jobs[1], "TimeLimit=30")

    said = between(site, changes)

    assert said[jobs[0]] == "it was changed meanwhile"
    assert "gpu:a100" in show(site, jobs[0])["TresPerNode"]
    assert show(site, jobs[0])["ExcNodeList"] == "npu01"
    assert show(site, jobs[1])["TimeLimit"] == "00:30:00"
    assert cycle(site)[jobs[0]]["to"] == NPU
    site.wait_job(jobs[0], ["RUNNING"], 20)
    assert show(site, jobs[0])["NodeList"] == "npu02"


def test_requeued_within_a_cycle(site: ReferenceSite) -> None:
    """A job that runs again later is not moved on what was decided for another."""
    [job] = waiting(site)

    def requeue() -> None:
        site.run(["scancel", "-n", "gpu"], check=True)
        site.wait_job(job, ["RUNNING"], 20)
        site.run(["scontrol", "requeue", job], check=True)
        site.wait_job(job, ["PENDING"], 30)

    between(site, requeue)

    record = json.loads(show(site, job)["AdminComment"].removeprefix("hpcmgr:"))
    fields = show(site, job)
    assert record["binding"]["gres"] in f"{fields.get('TresPerNode')} {fields.get('TresPerSocket')}"
    assert record["moves"] <= 1


def test_two_cycles_at_once(site: ReferenceSite) -> None:
    """Two who decided on the same queue: every job is moved once."""
    jobs = waiting(site, jobs=4)
    with ThreadPoolExecutor() as pool:
        both = [pool.submit(race, site, "sleep 1") for _ in range(2)]
        said = [each.result() for each in both]

    for job in jobs:
        assert "" in {each.get(job) for each in said}
        assert '"moves":1' in show(site, job)["AdminComment"]
        site.wait_job(job, ["RUNNING"], 30)
