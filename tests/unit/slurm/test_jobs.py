"""Jobs as squeue prints them: fixed widths, and JSON for what only that tells."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.slurm.jobs import _FIELDS, JOBS, parse_devices, parse_jobs
from hpcmgr.slurm.preemption import Qos, parse_config, parse_qos
from hpcmgr.slurm.record import seconds


def line(**cells: str) -> str:
    values = {
        "JobID": "7", "JobArrayID": "7", "UserName": "alice", "Account": "science",
        "Partition": "main", "QOS": "normal", "State": "RUNNING", "Reason": "None",
        "PriorityLong": "10000", "NumNodes": "1", "NumTasks": "1", "tres-per-node": "N/A",
        "tres-per-job": "N/A", "tres-per-task": "N/A", "tres-per-socket": "N/A", **cells,
    }  # fmt: skip
    return "".join(values.get(name, "")[:width].ljust(width) for name, width in _FIELDS.items())


def gres(**cells: str) -> dict[str, int]:
    [job] = parse_jobs(line(**{key.replace("_", "-"): text for key, text in cells.items()}))
    return dict(job.gres)


def test_a_running_and_a_waiting_job() -> None:
    """Times and nodes of the one, tasks and reason of the other."""
    text = "\n".join(
        [
            line(NodeList="g[1-2]", NumNodes="2", EndTime="2026-03-02T10:11:12"),
            line(JobID="9", JobArrayID="9_[0-5%2]", State="PENDING", Reason="Priority",
                 NodeList="", StartTime="N/A"),
            line(JobID="8", JobArrayID="8_3", State="PENDING", Reason="JobHeldUser",
                 PriorityLong="0", NodeList="(null)"),
        ]
    )  # fmt: skip
    first, second, third = parse_jobs(text)

    assert (first.number, first.nodes, first.node_count, first.end) == (
        7, "g[1-2]", 2, "2026-03-02T10:11:12",
    )  # fmt: skip
    assert (first.waits, first.queued) == (False, False)
    assert (second.tasks, second.start, second.queued) == (6, "", True)
    assert (third.tasks, third.waits, third.queued, third.nodes) == (1, True, False, "")


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ({"tres_alloc": "cpu=4,mem=1G,gres/compute=16,gres/npu=2,gres/npu:ascend910b3=2"},
         {"compute": 16, "npu:ascend910b3": 2}),
        ({"tres_alloc": "cpu=4,gres/gpu=3,gres/gpu:a100_1g.10gb=3"}, {"gpu:a100_1g.10gb": 3}),
        # AccountingStorageTRES knows no types, or no GRES at all
        ({"tres_alloc": "cpu=4,gres/gpu=4", "tres_per_node": "gres/gpu:t4:2", "NumNodes": "2"},
         {"gpu:t4": 4}),
        ({"tres_alloc": "cpu=4", "tres_per_node": "gres/gpu:t4:2,gres/compute:4"},
         {"gpu:t4": 2, "compute": 4}),
        ({"tres_alloc": "gres/npu=2", "tres_per_node": "gres/npu:2"}, {"npu": 2}),
        ({"tres_alloc": "N/A", "tres_per_job": "gres/gpu:t4:6"}, {"gpu:t4": 6}),
        ({"tres_per_task": "gres/gpu:t4:1", "NumTasks": "3"}, {"gpu:t4": 3}),
        ({"tres_per_node": "gres/compute:unbound:8"}, {"compute:unbound": 8}),
        ({"tres_alloc": "gres/tmpdisk=2K"}, {"tmpdisk": 2048}),
        ({"tres_alloc": "N/A"}, {}),
    ],
)  # fmt: skip
def test_devices_come_from_slurms_count_or_else_from_what_was_asked(
    cells: dict[str, str], found: dict[str, int]
) -> None:
    """Types where they are told."""
    assert gres(**cells) == found


def test_a_node_list_that_was_cut_loses_only_its_broken_end() -> None:
    """The field is wide, and still finite."""
    names = ",".join(f"g[{i}0-{i}5]" for i in range(1, 600))
    [job] = parse_jobs(line(NodeList=names))

    assert job.nodes.endswith("]")
    assert names.startswith(job.nodes)
    assert len(job.nodes) > 3900


def test_no_field_is_free_text() -> None:
    """A job's name, comment or directory could forge what follows it."""
    theirs = {"Name", "Comment", "WorkDir", "Command", "Extra", "WCKey", "StdOut"}
    assert not theirs & set(_FIELDS)
    assert list(_FIELDS)[-1] == "admin_comment"
    assert set(_FIELDS) == {field.split(":")[0] for field in JOBS[-1].split(",")}


@given(st.text(max_size=300))
def test_noise_is_no_job(text: str) -> None:
    """Never an exception."""
    for job in parse_jobs(text):
        assert job.number >= 0


@pytest.mark.parametrize(
    ("comment", "found"),
    [
        ('hpcmgr:{"v":1,"state":"bound","trace":"t-1","class":"train","binding":{}}', "train"),
        ('hpcmgr:{"v":1,"state":"unbound","given":{"features":"\\"class\\":\\"x\\""}}', ""),
        ('hpcmgr:{"v":1,"given":{"class":"x"}}', ""),
        ('{"class":"train"}', ""),
        ("a site's own", ""),
        ("(null)", ""),
    ],
)
def test_the_class_is_what_hpcmgr_wrote_itself(comment: str, found: str) -> None:
    """Nothing that a user wrote, which stands further back."""
    [job] = parse_jobs(line(admin_comment=comment))

    assert job.job_class == found


def test_a_comment_of_several_lines_makes_no_second_job() -> None:
    """A site's plugin may copy a user's words there."""
    forged = "x\n" + line(JobID="99", JobArrayID="99", UserName="root")[:500]
    found = list(parse_jobs(line(admin_comment=forged)))

    assert [job.number for job in found] == [7]


def record(**fields: object) -> dict[str, object]:
    return {
        "job_id": 12,
        "gres_detail": ["gpu:a100:2(IDX:0,3),compute(CNT:16)", "gpu:(null):1(IDX:2)"],
        "job_resources": {"nodes": {"allocation": [{"name": "g1"}, {"name": "g2"}]}},
        **fields,
    }


def test_json_tells_the_single_devices() -> None:
    """By node, in Slurm's numbers."""
    found = parse_devices(json.dumps({"jobs": [record()]}))

    assert found == {12: {"g1": (("gpu:a100", (0, 3)),), "g2": (("gpu", (2,)),)}}


@pytest.mark.parametrize(
    "fields",
    [
        {"gres_detail": [], "job_resources": None},
        {"gres_detail": None},
        {"job_resources": {"nodes": None}},
        {"job_resources": {}},
    ],
)
def test_jobs_without_them_have_none(fields: dict[str, object]) -> None:
    """Older Slurm, jobs without devices."""
    assert parse_devices(json.dumps({"jobs": [record(**fields)]})) == {12: {}}


CONFIG = """Configuration data as of 2026-03-01T10:00:00
ClusterName             = reference
PreemptMode             = REQUEUE
PreemptType             = preempt/qos
PreemptExemptTime       = 00:01:30
PrivateData             = jobs,usage
SlurmUser               = slurm(64030)

Slurmctld(primary) at ctl is UP
"""


def test_settings_of_preemption() -> None:
    """Of the cluster and of each QOS, as slurmctld and sacctmgr print them."""
    config = parse_config(CONFIG)

    assert (config.cluster, config.preempt_by, config.preempt_mode) == (
        "reference", "qos", "REQUEUE",
    )  # fmt: skip
    assert (config.exempt_s, config.private, config.slurm_user) == (
        90, {"jobs", "usage"}, "slurm",
    )  # fmt: skip
    assert parse_config("PreemptType             = (null)\n").preempt_by == ""
    assert parse_qos("normal||cluster|\nhigh|normal,low|requeue|00:01:00\n") == {
        "normal": Qos(frozenset(), "CLUSTER", None),
        "high": Qos(frozenset({"normal", "low"}), "REQUEUE", 60),
    }


def test_times_of_slurm() -> None:
    """With and without days; what is none is none."""
    assert [seconds(t) for t in ("1-00:00:01", "02:00:00", "03:04", "", "UNLIMITED")] == [
        86401, 7200, 184, None, None,
    ]  # fmt: skip
