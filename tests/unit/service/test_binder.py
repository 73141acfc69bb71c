"""Binding of held jobs: which records, how often, and for how long at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hpcmgr.service import binder, held
from hpcmgr.service.binder import Binder, with_cpus
from hpcmgr.service.held import read_admin_comment
from hpcmgr.service.journal import Journal
from hpcmgr.service.snapshot import Snapshot
from hpcmgr.slurm.command import Output
from hpcmgr.slurm.state import PendingJob
from hpcmgr.submit.view import make_view
from tests.builders import A100, ASCEND, cluster, node, policy

RULES = policy(A100, ASCEND)


def number(value: int | None) -> dict[str, object]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def record(job_id: int, request: str = "compute:8", **more: Any) -> dict[str, Any]:
    told = {"v": 1, "state": "unbound", "trace": f"s-{job_id}",
            "request": {"tres_per_node": f"gres/{request}", "user_id": 2001}}  # fmt: skip
    return {
        "job_id": job_id, "tres_per_node": "gres/compute:unbound:8", "tasks": number(1),
        "admin_comment": "hpcmgr:" + json.dumps(told, separators=(",", ":")),
        "state_reason": "JobHeldUser", **more,
    }  # fmt: skip


class Slurm:
    """scontrol, from a table of records by the id that is asked for; each call takes ``cost`` s."""

    def __init__(self, jobs: dict[str, list[dict[str, Any]]], cost: float = 0.0) -> None:
        self.jobs, self.cost, self.now = jobs, cost, 0.0
        self.calls: list[Sequence[str]] = []

    def run(self, *argv: str, **_: object) -> Output:
        self.calls.append(argv)
        self.now += self.cost
        if argv[1] == "show":
            return Output(0, json.dumps({"jobs": self.jobs[argv[3]]}), "")
        if argv[1] == "update" and argv[3].startswith("AdminComment="):
            for records in self.jobs.values():
                for job in records:
                    if f"JobId={job['job_id']}" == argv[2]:
                        job["admin_comment"] = argv[3].removeprefix("AdminComment=")
        return Output(0, "", "")

    def asked(self, verb: str) -> list[str]:
        return [argv[3 if verb == "show" else 2] for argv in self.calls if argv[1] == verb]


@pytest.fixture(name="bind")
def _bind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Makes a binder of jobs, and swaps the view that it sees."""

    def make(slurm: Slurm, ids: list[str]) -> tuple[Binder, Any]:
        monkeypatch.setattr(held, "run", slurm.run)
        monkeypatch.setattr("hpcmgr.slurm.update.run", slurm.run)
        snapshot = Snapshot(1.0, 1e9, clock=lambda: slurm.now)
        done = Binder(RULES, snapshot, Journal(tmp_path / "j"), clock=lambda: slurm.now)

        def see(devices: int = 2) -> None:
            waiting = tuple(PendingJob(i, "main", 0, 1, "gres/compute:unbound:8", False)
                            for i in ids)  # fmt: skip
            nodes = node("n01", gres={"npu:ascend910b3": devices})
            snapshot.swap(make_view(cluster(nodes, pending=waiting), RULES.library))

        see()
        return done, see

    return make


def test_a_refused_job_costs_one_look_a_minute(bind: Any) -> None:
    """Told once; looked at again after a minute, or at once when the cluster's types change."""
    slurm = Slurm({"7": [record(7, "compute:800")]})
    works, see = bind(slurm, ["7"])

    for _ in range(20):
        works.bind_held()
        slurm.now += 2.0
    assert slurm.asked("show") == ["7"]
    assert slurm.asked("update") == ["JobId=7"]
    slurm.now += 60.0
    works.bind_held()
    assert slurm.asked("show") == ["7", "7"]
    see(devices=3)
    works.bind_held()
    assert slurm.asked("show") == ["7", "7", "7"]
    assert slurm.asked("release") == []


def test_a_refusal_is_not_written_again_by_a_new_service(bind: Any) -> None:
    """What the job says already is not said again."""
    slurm = Slurm({"7": [record(7, "compute:foo:3")]})
    bind(slurm, ["7"])[0].bind_held()
    bind(slurm, ["7"])[0].bind_held()

    assert slurm.asked("update") == ["JobId=7"]
    assert slurm.jobs["7"][0]["admin_comment"].startswith('hpcmgr:{"v":1,"state":"refused"')


def test_a_refused_job_is_bound_when_it_can_be(bind: Any) -> None:
    """A node with enough devices came."""
    slurm = Slurm({"7": [record(7, "compute:npu:24")]})
    works, see = bind(slurm, ["7"])
    works.bind_held()
    see(devices=8)

    assert works.bind_held() == 1
    assert slurm.asked("release") == ["7"]


def test_a_backlog_is_worked_off_a_second_at_a_time(bind: Any) -> None:
    """The picture of the cluster does not age with it, and nobody is forgotten."""
    ids = [str(i) for i in range(1, 101)]
    slurm = Slurm({i: [record(int(i), "compute:800")] for i in ids}, cost=0.02)
    works, _ = bind(slurm, ids)

    works.bind_held()
    assert slurm.now < binder._CYCLE_SECONDS + 0.1
    for _ in range(4):
        works.bind_held()
    assert sorted(slurm.asked("show")) == sorted(ids)


def test_each_record_is_updated_and_released_under_its_own_id(bind: Any) -> None:
    """Components, and tasks that were split from their array, whose throttle is in no id; not one
    that an administrator held."""
    het = [
        record(12, "compute:8", het_job_id=number(12), het_job_offset=number(i)) for i in range(2)
    ]
    rest: dict[str, Any] = {
        "array_job_id": number(20),
        "array_task_id": number(None),
        "array_task_string": "0,2%1",
    }
    task: dict[str, Any] = {
        "array_job_id": number(20),
        "array_task_id": number(1),
        "state_reason": "JobHeldAdmin",
    }
    slurm = Slurm({"12": het, "20": [record(20, **rest), record(21, **task)]})
    works, _ = bind(slurm, ["12+0", "12+1", "20_[0,2]", "20_1"])

    assert works.bind_held() == 4
    assert slurm.asked("show") == ["12", "20"]
    assert [i.removeprefix("JobId=") for i in slurm.asked("update")] == [
        "12+0", "12+1", "20_[0,2]", "20_1",
    ]  # fmt: skip
    assert slurm.asked("release") == ["12+0", "12+1", "20_[0,2]"]


def test_explain_reads_the_component_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """scontrol answers with all of them."""
    jobs = [
        {"job_id": 12 + i, "het_job_id": number(12), "het_job_offset": number(i),
         "admin_comment": f"of {i}"} for i in range(2)
    ]  # fmt: skip
    monkeypatch.setattr(held, "run", Slurm({"12+1": jobs, "12": jobs}).run)

    assert read_admin_comment("12+1") == "of 1"
    assert read_admin_comment("12") == "of 0"


def test_cpus_are_told_by_node_and_in_all() -> None:
    """What the rewrite sets itself stays."""
    assert with_cpus({"cpus_per_task": 2}, 3) == {
        "cpus_per_task": 2, "pn_min_cpus": 2, "min_cpus": 6,
    }  # fmt: skip
    assert with_cpus({"cpus_per_task": 2, "min_cpus": 4}, 3)["min_cpus"] == 4
    assert with_cpus({"gres": "x"}, 3) == {"gres": "x"}
