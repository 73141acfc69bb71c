"""The replay's cluster in time, and hpcmgr's own code on it."""

from __future__ import annotations

import pytest

from bench.replay.__main__ import GAVEL_UNITS
from bench.replay.jobs import Job, arriving, overstated
from bench.replay.neutral import Neutral, classes
from bench.replay.policies import Policy, fastest, untyped
from bench.replay.report import figures, table
from bench.replay.simulate import Done, simulate
from hpcmgr.profile import load_library
from hpcmgr.profile.performance import load
from hpcmgr.settings import Site

HOUR = 3600.0
SECONDS = {"v100": HOUR, "p100": 2 * HOUR, "k80": 8 * HOUR}
NODES = [("v100", 4), ("p100", 4), ("k80", 4)]


def job(number: int, devices: int = 4, submit: float = 0.0, **seconds: float) -> Job:
    times = seconds or SECONDS
    return Job(f"{number:02}", submit, devices, "resnet-18-b128", times, max(times.values()))


def ended(done: list[Done]) -> dict[str, tuple[str, float]]:
    return {d.job.name: (d.kind, d.ended / HOUR) for d in done}


def neutral(jobs: list[Job], interval: float) -> Neutral:
    library, speeds = load_library(overrides=GAVEL_UNITS), load()
    profile_of = {p.gres.type: p.name for p in library.profiles if p.gres.type in SECONDS}
    wanted = classes(jobs, profile_of, speeds)
    site = Site.model_validate({"accounting": False, "classes": wanted})
    return Neutral(site, library, speeds, interval)


def test_one_type_is_a_queue_and_any_type_is_whatever_is_free() -> None:
    """Three jobs of a whole node each."""
    jobs = [job(i) for i in range(3)]

    assert ended(simulate(jobs, NODES, fastest())) == {
        "00": ("v100", 1.0), "01": ("v100", 2.0), "02": ("v100", 3.0)
    }  # fmt: skip
    assert ended(simulate(jobs, NODES, untyped(["v100", "p100", "k80"]))) == {
        "00": ("v100", 1.0), "01": ("p100", 2.0), "02": ("k80", 8.0)
    }  # fmt: skip


def test_a_short_job_is_backfilled_and_delays_nobody() -> None:
    """It ends by its limit before the wide one could start; a long one would not."""
    nodes = [("v100", 4)]
    jobs = [
        job(0, 2, v100=2 * HOUR), job(1, 4, 1.0, v100=HOUR),
        job(2, 2, 2.0, v100=HOUR), job(3, 2, 3.0, v100=3 * HOUR),
    ]  # fmt: skip
    found = {d.job.name: d.started for d in simulate(jobs, nodes, fastest())}

    assert found["01"] == 2 * HOUR
    assert found["02"] == 2.0
    assert found["03"] == 3 * HOUR


@pytest.mark.parametrize("interval", [0.0, 60.0])
def test_hpcmgr_would_rather_wait_an_hour_than_run_eight(interval: float) -> None:
    """Its own admission and cycle, from Slurm's records: the third job waits for a V100."""
    jobs = [job(i) for i in range(3)]
    found = ended(simulate(jobs, NODES, neutral(jobs, interval)))

    assert found["02"][0] != "k80"
    assert max(end for _, end in found.values()) <= 3.0


def test_a_job_that_waits_moves_to_what_is_free_now() -> None:
    """Its limit said that the V100 is free in eight hours; the P100 is free after two."""
    jobs = [job(0), job(1), job(2, 4, 1.0, v100=HOUR, p100=1.2 * HOUR, k80=8 * HOUR)]
    nodes = NODES[:2]
    late = simulate(jobs, nodes, neutral(jobs, 60.0))

    assert max(end for _, end in ended(late).values()) < 3.3


def test_what_never_fits_is_told() -> None:
    """Instead of a replay without end."""
    with pytest.raises(RuntimeError, match="1 jobs can never start"):
        simulate([job(0, 8)], NODES, fastest())


def test_a_table_has_its_ratios() -> None:
    """Average completion over that of (b) and of (c)."""
    jobs = overstated(arriving([job(0, 1)], 6, 30.0, 1), 3.0, 1)
    ways: dict[str, Policy] = {"(b) any": untyped(["v100", "p100"]), "(c) typed": fastest()}
    rows = {name: figures(simulate(jobs, NODES, way), 12) for name, way in ways.items()}
    text = table("six jobs", rows)

    assert text.splitlines()[2].split()[-2] == "1.00"
    assert all(j.limit >= max(j.seconds.values()) for j in jobs)
