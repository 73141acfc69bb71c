"""The queue from JSON: what names a record, what it holds, what of it is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hpcmgr.errors import CommandError
from hpcmgr.slurm.command import Output
from hpcmgr.slurm.ended import parse_ended
from hpcmgr.slurm.partition import parse_gpu_defaults, parse_partitions
from hpcmgr.slurm.queue import QueuedJob, parse_queue, read_job, read_queue


def number(value: int | None, *, infinite: bool = False) -> dict[str, object]:
    return {"set": value is not None, "infinite": infinite, "number": value or 0}


def parse(**fields: Any) -> QueuedJob:
    job = {"job_id": 7, "job_state": ["PENDING"], **fields}
    [found] = parse_queue(json.dumps({"jobs": [job]}))
    return found


@pytest.mark.parametrize(
    ("fields", "spec", "tasks"),
    [
        ({}, "7", 1),
        ({"array_job_id": number(7), "array_task_string": "0-5,9%2"}, "7_[0-5,9]", 7),
        ({"array_job_id": number(3), "array_task_id": number(4)}, "3_4", 1),
        ({"het_job_id": number(6), "het_job_offset": number(1)}, "6+1", 1),
        ({"array_job_id": number(0), "het_job_id": number(0)}, "7", 1),
    ],
)
def test_what_an_update_must_name(fields: dict[str, Any], spec: str, tasks: int) -> None:
    """All of the record and nothing else; an array's throttle is no part of it."""
    job = parse(**fields)

    assert (job.spec, job.tasks) == (spec, tasks)


def test_a_waiting_job() -> None:
    """Minutes become seconds; unset numbers and empty texts are left out."""
    job = parse(
        time_limit=number(90), start_time=number(1_000), priority=number(12), user_id=2001,
        flags=["GRES_BINDING_ENFORCED"], partition="main", features="", cpus_per_task=number(4),
        memory_per_cpu=number(None), tres_per_node="gres/gpu:a100:1", memory_per_tres="gpu:50",
    )  # fmt: skip

    assert job.waits
    assert (job.limit, job.start, job.enforced) == (5400.0, 1000.0, True)
    assert job.asked == {"partition": "main", "cpus_per_task": 4, "mem_per_tres": "gpu:50",
                         "tres_per_node": "gres/gpu:a100:1"}  # fmt: skip
    assert parse(time_limit=number(None, infinite=True)).limit is None


def test_what_a_job_holds() -> None:
    """Node by node; counts only (compute) are no devices; what has ended holds nothing."""
    detail = ["gpu:a100:2(IDX:0-1),compute(CNT:16)", "gpu:a100:1(IDX:3),gpu:a100.1g:1(IDX:0)"]
    job = parse(job_state=["RUNNING"], nodes="g[01-02]", gres_detail=detail)

    assert job.held == {"g01": {"gpu:a100": 2}, "g02": {"gpu:a100": 1, "gpu:a100.1g": 1}}
    assert job.holds
    assert parse(job_state=["COMPLETED", "COMPLETING"]).holds
    assert not parse(job_state=["COMPLETED"]).holds
    assert parse(job_state=["COMPLETED"]).ran
    assert not parse(job_state=["CANCELLED"]).ran


def says(text: str, code: int = 0) -> Callable[..., Output]:
    def run(*argv: str, **_: object) -> Output:
        if code:
            raise CommandError(argv, code, text)
        return Output(0, text, "")

    return run


def test_from_process_to_process() -> None:
    """What one writes the other reads."""
    job = parse(job_state=["RUNNING"], nodes="g01", gres_detail=["npu:x:1(IDX:0)"], comment="a\nb")
    import dataclasses

    line = json.dumps(dataclasses.asdict(job))

    assert read_queue(says(line + "\n")) == [job]
    with pytest.raises(CommandError, match="unexpected answer"):
        read_queue(says("no json\n"))


def test_a_job_that_is_gone() -> None:
    assert read_job("7", says("slurm_load_jobs error: Invalid job id specified", 1)) == []
    with pytest.raises(CommandError):
        read_job("7", says("Unable to contact slurm controller", 1))
    with pytest.raises(CommandError, match="unexpected answer"):
        read_job("7", says('{"jobs": [{}]}'))


def test_ended_jobs() -> None:
    """Account, seconds, limit in seconds; no limit, or no number: left out."""
    text = "chem|60|10\nbio|60|UNLIMITED\n|5|1\nchem|60|0\nnonsense\n"

    assert list(parse_ended(text)) == [("chem", 60.0, 600.0), ("", 5.0, 60.0)]


def test_slurms_defaults_for_a_gpu() -> None:
    """Of the cluster and of a partition."""
    config = "JobCompType = none\nJobDefaults             = DefCpuPerGPU=2,DefMemPerGPU=50\n"
    line = "PartitionName=big AllowGroups=ALL JobDefaults=DefMemPerGPU=900 State=UP"
    [partition] = parse_partitions(line)

    assert parse_gpu_defaults(config) == (2, 50)
    assert parse_gpu_defaults("JobDefaults             = (null)") == (0, 0)
    assert partition.gpu_defaults == (0, 900)
