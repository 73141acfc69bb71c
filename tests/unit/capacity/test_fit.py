"""What a request would get now, and when at the earliest."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from hpcmgr.cli.capacity_fit import fit
from hpcmgr.cli.sbatchline import read_line
from hpcmgr.errors import CommandMissing
from hpcmgr.settings import JobClass, Site
from hpcmgr.slurm.command import Output
from hpcmgr.slurm.jobs import Job
from hpcmgr.slurm.preemption import Controller
from hpcmgr.slurm.state import ClusterState
from hpcmgr.slurm.testonly import Answer, ask
from hpcmgr.slurm.upcoming import Upcoming, next_on
from tests.builders import cluster, node
from tests.unit.capacity.test_demand import BY_QOS, NOW, job, picture

FREE = cluster(
    node("g1", gres={"gpu:a100": 4, "compute": 32}, used={"gpu:a100": 4, "compute": 32},
         cpus_used=4),
    node("g2", gres={"gpu:a100": 4, "compute": 32}, used={"gpu:a100": 2, "compute": 16},
         cpus_used=2),
    node("g3", gres={"gpu:a100": 4, "compute": 32}, state="DOWN", usable=False),
)  # fmt: skip


def clock(minutes: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(NOW + 60 * minutes))


JOBS = (
    job(1, gres={"gpu:a100": 1, "compute": 8}, cpus=2, end=clock(10), nodes="g1"),
    job(2, gres={"gpu:a100": 3, "compute": 24}, cpus=2, end=clock(30), nodes="g1"),
    job(3, gres={"gpu:a100": 2, "compute": 16}, cpus=2, end=clock(20), nodes="g2"),
)


def told(
    text: str,
    *jobs: Job,
    state: ClusterState = FREE,
    answer: Answer | None = None,
    reservation: Upcoming | None = None,
    controller: Controller | None = None,
    **site: Any,
) -> dict[str, Any]:
    found = picture(
        *(jobs or JOBS), state=state, taken=NOW, site=Site(**site), controller=controller
    )
    given = answer or Answer(failed="no sbatch here")
    return fit(found, read_line([text], {}), lambda _: given, lambda _: reservation)


def test_a_class_that_names_a_workload_is_compared_by_the_performance_table() -> None:
    """As the service does it."""
    classes = {"speedy": {"workload": "resnet-50-b64", "profiles": ["a100-80g"]}}

    assert told("compute:speedy:8", classes=classes)["becomes"]


@pytest.mark.parametrize(
    ("request_", "minutes", "on"),
    [
        ("compute:16", 0, "g2"),
        ("compute:24", 20, "g2"),
        ("compute:8 -N2", 10, "g[1-2]"),
        ("compute:32 -N2", 30, "g[1-2]"),
        ("compute:8 --exclusive", 20, "g2"),
        ("compute:16 -w g1", 30, "g1"),
    ],
)
def test_the_earliest_start_is_that_of_the_jobs_that_must_end(
    request_: str, minutes: int, on: str
) -> None:
    """Node by node; a node that is down is waited for by nobody."""
    found = told(request_)

    assert found["start"] == clock(minutes)
    assert found["on"] == on
    assert found["fits_now"] is (minutes == 0)
    assert "3 running jobs" in found["basis"]
    assert found["slurm"]["failed"] == "no sbatch here"
    assert found["estimate"]


def test_devices_without_cpus_beside_them_are_waited_for() -> None:
    """A job without devices holds the CPUs; the class asks for 8 a device."""
    state = cluster(node("g1", gres={"gpu:a100": 4}, cpus_used=30))
    holder = job(9, gres={}, cpus=30, end=clock(15), nodes="g1")
    found = told("compute:8", holder, state=state, classes={"default": JobClass(cpus_per_device=8)})

    assert found["start"] == clock(15)
    assert not found["fits_now"]


def test_without_a_known_end_no_start_is_made_up() -> None:
    """A job without time limit; a job that is hidden."""
    endless = job(1, gres={"gpu:a100": 4}, cpus=2, nodes="g1")
    found = told("compute:32 -w g1", endless)

    assert found["start"] is None
    assert found["error"] is None
    assert found["basis"].startswith("the time limits of 0 running jobs")


def test_a_job_past_its_limit_ends_soon_not_in_the_past() -> None:
    """Slurm gives it a minute or so."""
    overdue = job(1, gres={"gpu:a100": 4, "compute": 32}, cpus=2, end=clock(-60), nodes="g1")
    assert told("compute:32 -w g1", overdue)["start"] == clock(1)


def test_slurms_own_answer_comes_first() -> None:
    """It counts limits and reservations that nobody else knows."""
    found = told("compute:16", answer=Answer(clock(45), "g1", "main"))

    assert (found["start"], found["on"], found["start_now"]) == (clock(45), "g1", False)
    assert found["fits_now"]  # the devices are free all the same
    assert found["basis"].startswith("Slurm itself")
    assert "Slurm does not say why" in found["why"]
    now = told("compute:16", answer=Answer(clock(0), "g2"))
    assert (now["start_now"], now["why"]) == (True, None)


AHEAD = job(8, "PENDING", gres={"gpu:a100": 4}, reason="Priority", tasks=3)
OTHER = job(9, "PENDING", gres={"npu": 4}, reason="Priority")


def test_free_devices_and_a_late_start_are_explained() -> None:
    """By the jobs ahead, or by a reservation that comes too soon."""
    late = Answer(clock(9999), "g2", "main")
    ahead = told("compute:16", *JOBS, AHEAD, answer=late)
    maint = Upcoming("m1", "g2", clock(60), "")
    reserved = told("compute:16 -t 90", *JOBS, OTHER, answer=late, reservation=maint)
    short = told("compute:16 -t 30", *JOBS, OTHER, answer=late, reservation=maint)

    assert (ahead["start"], ahead["ahead"]) == (clock(9999), 3)
    assert "3 jobs that wait for such devices may come first" in ahead["why"]
    assert "added up for the 3 jobs" in ahead["basis"]
    assert "reservation m1 takes g2" in reserved["why"]
    assert "a shorter --time" in reserved["why"]
    assert (reserved["start_now"], reserved["start"]) == (False, clock(9999))
    assert (short["start_now"], short["why"]) == (True, None)
    alone = told("compute:16", reservation=replace(maint, end=clock(120)))
    assert (alone["start_now"], alone["start"]) == (False, clock(120))


def test_jobs_that_wait_for_other_devices_do_not_delay_it() -> None:
    """Slurm adds up their limits all the same: its answer says nothing then."""
    found = told("compute:16", *JOBS, OTHER, answer=Answer(clock(9999), "g2", "main"))

    assert (found["start_now"], found["on"], found["why"]) == (True, "g2", None)
    assert "no waiting job asks for these devices" in found["basis"]
    assert found["slurm"]["start"] == clock(9999)


def test_a_start_by_preemption_is_explained() -> None:
    """The devices are in use, and it would start at once."""
    found = told("compute:32", answer=Answer(clock(0), "g1"), controller=BY_QOS)

    assert (found["fits_now"], found["start_now"]) == (False, True)
    assert found["why"] == "Slurm would stop other jobs for it"


def test_reservations_to_come_are_read_with_their_times() -> None:
    """The next of these nodes; one that has begun is none."""
    text = (
        "ReservationName=b StartTime=2026-03-02T10:00:00 EndTime=2026-03-03T10:00:00 "
        "Nodes=g[1-2] State=INACTIVE\n"
        "ReservationName=a StartTime=2026-03-01T10:00:00 EndTime=2026-03-03T10:00:00 "
        "Nodes=g1 State=INACTIVE\n"
        "ReservationName=c StartTime=2026-02-01T10:00:00 Nodes=g1 State=ACTIVE\n"
    )

    def said(*_: str) -> Output:
        return Output(0, text, "")

    first, second = next_on(["g1"], said), next_on(["g2"], said)
    assert first == Upcoming("a", "g1", "2026-03-01T10:00:00", "2026-03-03T10:00:00")
    assert second
    assert second.name == "b"
    assert next_on(["g3"], said) is None


def test_what_can_never_be_is_refused_and_slurm_not_asked() -> None:
    """With the reason of each type."""
    found = told("compute:800")

    assert "no device fits" in found["error"]
    assert found["slurm"]["failed"] == "not asked"
    assert found["types"] == []


def test_all_types_that_could_serve_are_told() -> None:
    """Each with its own moment."""
    state = cluster(
        *FREE.nodes, node("n1", gres={"npu:ascend910b3": 8}, used={"npu:ascend910b3": 7})
    )
    types = {each["gres"][0]["gres"]: each for each in told("compute:8", state=state)["types"]}

    assert set(types) == {"gpu:a100", "npu:ascend910b3"}
    assert types["npu:ascend910b3"]["now"]
    assert types["gpu:a100"]["nodes_now"] == "g2"


@pytest.mark.parametrize("odd", ["", " a"])  # 26.05.5 prints a stray "a"
def test_sbatch_tells_the_start(odd: str) -> None:
    """On stderr, among the plugin's words."""
    said = (
        "sbatch: compute:8 becomes 1 x gpu:a100\n"
        f"sbatch: Job 7 to start at 2026-03-01T12:17:05{odd} using 8 processors on nodes "
        "mix01,npu[01-02] in partition main\n"
    )
    found = ask(["--gres=compute:8"], lambda *argv, **more: Output(0, "", said))

    assert found == Answer("2026-03-01T12:17:05", "mix01,npu[01-02]", "main")


def test_where_sbatch_cannot_tell_its_last_word_stands() -> None:
    """Or that it is not there."""
    said = "sbatch: error: something\nallocation failure: Requested node configuration\n"

    def missing(*argv: str, **more: object) -> Output:
        raise CommandMissing(argv)

    assert ask([], lambda *argv, **more: Output(1, "", said)).failed.startswith("allocation")
    assert "not installed" in ask([], missing).failed
