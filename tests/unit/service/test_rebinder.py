"""The cycle against a Slurm in memory: moves, what it leaves alone, refusals, journal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpcmgr.errors import CommandError, UsageProblem
from hpcmgr.service import mover, pins, rebinder
from hpcmgr.service.journal import Journal, read
from hpcmgr.service.rebinder import Cycle, Rebinder
from hpcmgr.service.snapshot import Snapshot
from hpcmgr.slurm.command import Output
from hpcmgr.slurm.queue import QueuedJob, parse_queue
from hpcmgr.submit.request import read_fields
from hpcmgr.submit.view import make_view
from tests.builders import A100, ASCEND, cluster, node, policy
from tests.builders import submit as decide_on

NOW = 1_000_000.0
NPU = "npu:ascend910b3"
KEYS = {"TresPerNode": "tres_per_node", "TresPerSocket": "tres_per_socket",
        "AdminComment": "admin_comment", "Comment": "comment"}  # fmt: skip
NUMBERS = {"CPUsPerTask": "cpus_per_task", "MinMemoryNode": "memory_per_node",
           "ReqSockets": "sockets_per_node"}  # fmt: skip


def number(value: int | None) -> dict[str, object]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def held_gpu(hours: float = 8) -> dict[str, Any]:
    """A job of somebody that holds both GPUs."""
    return {
        "job_id": 1, "job_state": ["RUNNING"], "account": "chem", "nodes": "g01",
        "gres_detail": ["gpu:a100:2(IDX:0-1)"], "time_limit": number(int(hours * 60)),
        "start_time": number(int(NOW)), "node_count": number(1), "priority": number(9),
    }  # fmt: skip


def waiting(job_id: int, **more: Any) -> dict[str, Any]:
    """A job of alice, bound to a GPU by hpcmgr."""
    state = cluster(node("g01", gres={"gpu:a100": 2}))
    done = decide_on(state, policy(A100), {"tres_per_node": "compute:8"}).rewrite
    assert done is not None
    comment = str(done.set["admin_comment"]).replace('"t-1"', f'"t-{job_id:04}"')
    return {
        "job_id": job_id, "job_state": ["PENDING"], "state_reason": "Resources", "user_id": 2001,
        "account": "chem", "partition": "main", "priority": number(100), "node_count": number(1),
        "time_limit": number(600), "submit_time": number(job_id), "start_time": number(None),
        "tres_per_node": "gres/gpu:a100:1,gres/compute:8,gres/vram:80",
        "admin_comment": comment, "comment": "", "tasks": number(1), "cpus_per_task": number(1),
        "memory_per_node": number(None), **more,
    }  # fmt: skip


class Slurm:
    """scontrol show and update over records; ``refuse`` and ``between`` happen at an update."""

    def __init__(self, *jobs: dict[str, Any]) -> None:
        self.jobs = {job["job_id"]: job for job in jobs}
        self.updates: list[tuple[str, ...]] = []
        self.refuse: Callable[[dict[str, Any], dict[str, str]], None] | None = None
        self.between: Callable[[], object] | None = None

    def queue(self) -> list[QueuedJob]:
        found = list(parse_queue(json.dumps({"jobs": list(self.jobs.values())})))
        if self.between:
            self.between()
        return found

    def read_job(self, job_id: str) -> list[QueuedJob]:
        base = int(job_id.partition("_")[0])
        jobs = [j for j in self.jobs.values() if base in (j["job_id"], j.get("array"))]
        return list(parse_queue(json.dumps({"jobs": jobs})))

    def run(self, *argv: str, **_: object) -> Output:
        assert argv[:2] == ("scontrol", "update")
        self.updates.append(argv[2:])
        job = self.jobs[int(argv[2].removeprefix("JobId=").partition("_")[0])]
        words = dict(word.split("=", 1) for word in argv[3:])
        if self.refuse and "TresPerNode" in words:
            self.refuse(job, words)
            raise CommandError(argv, 1, "Invalid generic resource (gres) specification")
        self.apply(job, words)
        return Output(0, "", "")

    def apply(self, job: dict[str, Any], words: dict[str, str]) -> None:
        job |= {KEYS[k]: v for k, v in words.items() if k in KEYS}
        job |= {NUMBERS[k]: number(int(v)) for k, v in words.items() if k in NUMBERS}


Make = Callable[..., Rebinder]


@pytest.fixture(name="make")
def _make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Make:
    """A rebinder of a cluster with two GPUs that are held and four idle NPUs."""

    def make(slurm: Slurm, release: str = "24.11.5", **rules: object) -> Rebinder:
        for module in (mover, pins):
            monkeypatch.setattr(module, "read_job", slurm.read_job)
        monkeypatch.setattr(rebinder, "read_queue", slurm.queue)
        monkeypatch.setattr("hpcmgr.slurm.update.run", slurm.run)
        monkeypatch.setattr(pins, "run", slurm.run)
        site = policy(A100, ASCEND, rebind=rules)
        nodes = [node("g01", gres={"gpu:a100": 2}, used={"gpu:a100": 2}),
                 node("n01", gres={NPU: 4})]  # fmt: skip
        snapshot = Snapshot(30.0, 1e9, clock=lambda: 0.0)
        snapshot.swap(make_view(cluster(*nodes, release=release), site.library))
        return Rebinder(site, snapshot, Journal(tmp_path / "j"), clock=lambda: NOW)

    return make


def rows(cycle: Cycle) -> dict[str, dict[str, Any]]:
    return {str(row["job"]): row for row in cycle.rows()}


def journal(of: Rebinder, path: Path, trace: str) -> list[dict[str, Any]]:
    of._journal.close()
    return list(read(path / "j", trace=trace))


def test_it_moves_all_that_changes_in_one_update(make: Make, tmp_path: Path) -> None:
    """Devices, units, memory and record; the journal's row has the owner's uid."""
    slurm = Slurm(held_gpu(), waiting(7))
    works = make(slurm)

    cycle = works.run()

    assert cycle.moved == ["7"]
    [update] = slurm.updates
    assert update[0] == "JobId=7"
    assert f"TresPerNode=gres/{NPU}:1,gres/compute:8,gres/vram:64" in update
    record = json.loads(slurm.jobs[7]["admin_comment"].removeprefix("hpcmgr:"))
    assert (record["moves"], record["from"], record["moved"]) == (1, "gpu:a100", NOW)
    assert record["binding"]["gres"] == NPU
    [row] = journal(works, tmp_path, "t-0007")
    assert (row["kind"], row["uid"], row["job_id"]) == ("move", 2001, "7")
    assert "moved from gpu:a100 to 1 x npu:ascend910b3" in row["messages"][0]


def test_nothing_is_moved_twice(make: Make) -> None:
    """The next cycle finds it where it can start."""
    slurm = Slurm(held_gpu(), waiting(7))
    works = make(slurm, settle=0)
    works.run()

    cycle = works.run()

    assert cycle.moved == []
    assert len(slurm.updates) == 1
    assert rows(cycle)["7"]["why"] == "it can start where it is"


def test_it_only_looks_where_it_may_not_move(make: Make) -> None:
    slurm = Slurm(held_gpu(), waiting(7))

    cycle = make(slurm).run(moving=False)

    assert slurm.updates == []
    assert rows(cycle)["7"]["to"] == NPU


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"comment": "hpcmgr:pin"}, "it is pinned"),
        ({"het_job_id": number(7), "het_job_offset": number(0)}, "heterogeneous"),
        ({"resv_name": "maint"}, "reservation"),
        ({"memory_per_tres": "gpu:50"}, "DefMemPerGPU"),
        ({"tres_per_node": "gres/gpu:a100:2,gres/compute:16"}, "changed by hand"),
        ({"admin_comment": ""}, "by name"),
        ({"state_reason": "Dependency"}, "something else: Dependency"),
        ({"priority": number(0), "state_reason": "JobHeldUser"}, "something else"),
    ],
)
def test_what_it_leaves_alone(make: Make, change: dict[str, Any], why: str) -> None:
    slurm = Slurm(held_gpu(), waiting(7, **change))

    cycle = make(slurm).run()

    assert cycle.moved == []
    assert why in next(row["why"] for row in rows(cycle).values())
    assert not any("TresPerNode" in word for update in slurm.updates for word in update)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"job_state": ["RUNNING"]}, "it has started or ended"),
        ({"priority": number(0)}, "it is held"),
        ({"comment": "hpcmgr:pin"}, "it was changed meanwhile"),
        ({"partition": "other"}, "it was changed meanwhile"),
        ({"admin_comment": "hpcmgr:{}"}, "it was changed meanwhile"),
    ],
)
def test_what_changed_meanwhile_is_left_alone(make: Make, change: dict[str, Any], why: str) -> None:
    slurm = Slurm(held_gpu(), waiting(7))
    slurm.between = lambda: slurm.jobs[7].update(change)

    cycle = make(slurm).run()

    assert cycle.failed == {"7": why}
    assert slurm.updates == []


def test_what_a_refused_update_changed_is_put_back(make: Make) -> None:
    """Slurm took the record and the memory, then refused the devices."""
    slurm = Slurm(held_gpu(), waiting(7, memory_per_node=number(100)))
    before = json.loads(json.dumps(slurm.jobs[7]))

    def half(job: dict[str, Any], words: dict[str, str]) -> None:
        slurm.apply(job, {"AdminComment": words["AdminComment"], "MinMemoryNode": "5"})

    slurm.refuse = half
    works = make(slurm)
    cycle = works.run()

    assert "Invalid generic resource" in cycle.failed["7"]
    assert slurm.jobs[7] == before
    again = works.run()
    assert again.failed["7"] == "Slurm refused the move a moment ago"


def test_nodes_that_its_user_excludes_meanwhile_stay_excluded(make: Make) -> None:
    """By scontrol update: the move keeps them, and so does the next one; none goes to them."""
    slurm = Slurm(held_gpu(), waiting(7, excluded_nodes="x9"), waiting(8, excluded_nodes="n01"))

    cycle = make(slurm).run()

    assert cycle.moved == ["7"]
    [update] = slurm.updates
    assert not any("ExcNodeList" in word for word in update)
    record = json.loads(slurm.jobs[7]["admin_comment"].removeprefix("hpcmgr:"))
    assert record["given"]["exc_nodes"] == "x9"


def test_nodes_that_were_excluded_for_the_old_type_are_not_for_the_new_one(make: Make) -> None:
    """Its user cannot change the list then (lua/hpcmgr/modify.lua)."""
    job = waiting(7, excluded_nodes="x9,g07")
    record = json.loads(job["admin_comment"].removeprefix("hpcmgr:"))
    record["given"]["exc_nodes"] = "x9"
    record["binding"]["avoids"] = True
    slurm = Slurm(held_gpu(), {**job, "admin_comment": "hpcmgr:" + json.dumps(record)})

    make(slurm).run()

    [update] = slurm.updates
    assert "ExcNodeList=x9" in update
    assert '"avoids"' not in slurm.jobs[7]["admin_comment"]


def test_a_task_that_started_in_between_keeps_its_record(make: Make) -> None:
    """Of an array: the waiting tasks moved, the started one has its GPU and says so."""
    array = {"array_job_id": number(7), "array": 7}
    first = waiting(8, array_task_id=number(0), **array)
    rest = waiting(7, array_task_id=number(None), array_task_string="0-3", **array)
    rest["admin_comment"] = first["admin_comment"]
    old = first["admin_comment"]
    slurm = Slurm(held_gpu(), rest)

    def started(job: dict[str, Any], words: dict[str, str]) -> None:
        slurm.apply(job, words)
        slurm.jobs[8] = {**first, "job_state": ["RUNNING"], "admin_comment": words["AdminComment"]}

    slurm.refuse = started
    updates = slurm.updates
    cycle = make(slurm).run()

    assert cycle.moved == ["7"]
    assert updates[0][0] == "JobId=7_[0-3]"
    assert updates[-1] == ("JobId=7_0", f"AdminComment={old}")


def test_the_form_goes_with_the_type(make: Make) -> None:
    """26.05, enforce-binding: NPUs are asked per socket, and back again per node."""
    flags = {"flags": ["GRES_BINDING_ENFORCED"]}
    slurm = Slurm(held_gpu(), waiting(7, **flags))
    works = make(slurm, release="26.05.5", settle=0)
    works.run()
    [there] = slurm.updates

    assert "TresPerNode=" in there
    assert f"TresPerSocket=gres/{NPU}:1,gres/compute:8,gres/vram:64" in there
    assert "ReqSockets=1" in there

    slurm.jobs.pop(1)
    nodes = [node("g01", gres={"gpu:a100": 2}), node("n01", gres={NPU: 4}, usable=False)]
    works._snapshot.swap(make_view(cluster(*nodes, release="26.05.5"), works._policy.library))
    works.run()
    back = slurm.updates[-1]

    assert "TresPerSocket=" in back
    assert "ReqSockets=0" in back
    assert "TresPerNode=gres/gpu:a100:1,gres/compute:8,gres/vram:80" in back


def test_the_moves_of_a_minute(make: Make) -> None:
    slurm = Slurm(held_gpu(), *(waiting(n) for n in (7, 8, 9)))

    cycle = make(slurm, moves_per_minute=2).run()

    assert cycle.moved == ["7", "8"]
    assert rows(cycle)["9"]["why"] == "the moves of this minute are used up"


def test_an_estimate_is_judged_when_the_job_has_started(make: Make, tmp_path: Path) -> None:
    """Expected in 8 h (pinned), started after 2 h: six hours earlier than expected."""
    slurm = Slurm(held_gpu(), waiting(7, comment="hpcmgr:pin"))
    works = make(slurm)
    works.run()
    slurm.jobs[7] |= {"job_state": ["RUNNING"], "start_time": number(int(NOW + 7200))}
    works.run()

    [row] = journal(works, tmp_path, "t-0007")
    assert (row["kind"], row["uid"]) == ("start", 2001)
    assert row["estimate"]["first"]["error_s"] == -6 * 3600
    assert row["messages"] == ["started 360 min earlier than expected"]


def test_the_state_follows_the_pin(make: Make) -> None:
    """Told in admin_comment once."""
    slurm = Slurm(held_gpu(), waiting(7, comment="mine hpcmgr:pin"))
    works = make(slurm)
    works.run()
    works.run()

    assert '"state":"pinned"' in slurm.jobs[7]["admin_comment"]
    assert len(slurm.updates) == 1


class TestPins:
    def test_set_and_taken_away(self, make: Make) -> None:
        slurm = Slurm(waiting(7, comment="my words"))
        make(slurm)

        assert pins.set_pin("7", pinned=True) == "job 7 stays where it is"
        assert slurm.jobs[7]["comment"] == "my words hpcmgr:pin"
        assert "already" in pins.set_pin("7", pinned=True)
        assert pins.set_pin("7", pinned=False) == "job 7 may move again"
        assert slurm.jobs[7]["comment"] == "my words"

    def test_not_where_it_means_nothing(self, make: Make) -> None:
        slurm = Slurm(waiting(7, admin_comment=""), waiting(8, comment="x" * 1020))
        make(slurm)

        with pytest.raises(UsageProblem, match="by name"):
            pins.set_pin("7", pinned=True)
        with pytest.raises(UsageProblem, match="no room"):
            pins.set_pin("8", pinned=True)


def test_a_request_is_recalled_as_it_was_asked() -> None:
    """Selectors survive: what was asked for GPUs alone has no other option."""
    state = cluster(node("g01", gres={"gpu:a100": 2}), node("n01", gres={NPU: 4}))
    done = decide_on(state, policy(A100, ASCEND), {"tres_per_node": "compute:gpu:8"}).rewrite
    assert done is not None
    record = json.loads(str(done.set["admin_comment"]).removeprefix("hpcmgr:"))

    assert record["request"] == "compute:gpu:8"
    assert read_fields(record["given"]).values == record["given"]
