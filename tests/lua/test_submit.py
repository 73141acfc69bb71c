"""The decision flow: who is asked about, what an answer does, what happens when there is none."""

from __future__ import annotations

import json
import pwd
from collections.abc import Callable
from typing import Any

import pytest

from tests.lua.shim_host import (
    ERROR,
    INVALID_GRES,
    NO_VAL16,
    REQUESTS,
    SUCCESS,
    JobDesc,
    Slurmctld,
    update_of,
)

BOUND = 'hpcmgr:{"v":1,"state":"bound"}'
REWRITE: dict[str, Any] = {
    "v": 1,
    "trace": "t-1",
    "set": {"gres": "gpu:a100:1,compute:8,vram:80", "num_tasks": 1, "admin_comment": BOUND},
    "enforce_binding": True,
    "message": ["compute:8 becomes 1 x A100-80G"],
}


def record_of(job: JobDesc) -> dict[str, Any]:
    comment = str(job["admin_comment"])
    assert comment.startswith("hpcmgr:")
    record: dict[str, Any] = json.loads(comment.removeprefix("hpcmgr:"))
    return record


def assert_held(job: JobDesc, count: int) -> None:
    assert job["tres_per_node"] == f"gres/compute:unbound:{count}"
    assert job["priority"] == 0
    assert record_of(job)["state"] == "unbound"


class TestWhoIsAskedAbout:
    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"tres_per_node": "gres/fs:1,gres/license:2"},
            {"tres_per_node": "gres/computeX:8"},
            {"tres_per_node": "gres/my_compute:8,gres/compute-x:1,gres/vram.old"},
            {"tres_per_node": "gres/fpga:compute:1"},
            {"tres_per_task": "cpu=4,license/compute=1"},
            {"comment": "compute:8", "features": "gpu"},
        ],
    )
    def test_a_request_without_our_names_never_touches_the_socket(
        self, fields: dict[str, str]
    ) -> None:
        """A name counts as a whole word at the name's place only."""
        host, job = Slurmctld(), JobDesc(**fields)

        assert host.submit(job) == SUCCESS
        assert (host.service.connects, job.written, host.logs) == (0, [], [])

    @pytest.mark.parametrize(
        "text",
        [
            "compute:8",
            "gres/compute:8",
            "gres:compute:8",
            "gres/compute=8",
            "compute",
            "gres/compute:train",
            "gres:compute:train:8",
            "fs:1, compute:8",
            "GRES/Compute:8",
            "gres/gres/compute:8",
            "vram:80G",
            "gres/fs:1,gres/vram=1.5T",
            "compute*8",
        ],
    )
    @pytest.mark.parametrize(
        "field", ["tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task"]
    )
    def test_neutral_units_are_found_in_every_spelling(self, text: str, field: str) -> None:
        """Prefix, separator, case and a missing count make no difference, nor does the field."""
        host, job = Slurmctld(away="reject"), JobDesc(**{field: text})

        assert host.submit(job) == INVALID_GRES
        assert host.service.connects == 1

    @pytest.mark.parametrize("field", ["cpus_per_tres", "mem_per_tres"])
    def test_units_in_cpus_or_memory_per_tres_are_neutral_too(self, field: str) -> None:
        """A request can name units where Slurm itself would only accept a gpu."""
        host = Slurmctld(away="reject")

        assert host.submit(JobDesc(**{field: "gres/compute:8"})) == INVALID_GRES

    def test_gpus_that_slurm_makes_of_ntasks_per_gpu_are_asked_about(self) -> None:
        """--ntasks-per-gpu alone is a request for GPUs without the name gpu in it."""
        host, job = Slurmctld(), JobDesc(ntasks_per_tres=2, num_tasks=4)
        host.service.answers({"v": 1, "pass": True})

        assert host.submit(job) == SUCCESS
        assert host.service.connects == 1

    def test_the_request_holds_the_set_fields_and_no_others(self) -> None:
        """NO_VAL of each width, nil and empty strings are left out; numbers are whole."""
        host = Slurmctld()
        host.service.answers({"v": 1, "hold": True})
        job = JobDesc(
            tres_per_node="gres/compute:8", partition="", bitflags=503316480, num_tasks=2,
            cpus_per_task=NO_VAL16, min_cpus=NO_VAL16, min_mem_per_node=2**40, het_job_offset=1,
        )  # fmt: skip
        host.submit(job)

        assert host.service.requests[0].endswith(b"}\n")
        assert host.service.last_request == {
            "v": 1,
            "op": "submit",
            "uid": 2001,
            "job": {
                "batch": True, "bitflags": 503316480, "het_job_offset": 1, "min_cpus": NO_VAL16,
                "min_mem_per_node": 2**40, "num_tasks": 2, "tres_per_node": "gres/compute:8",
                "user_id": 2001, "user_name": "ann",
            },
        }  # fmt: skip

    def test_quotes_control_characters_and_broken_utf8_reach_the_service_as_json(self) -> None:
        """A user's comment cannot make the line unreadable."""
        host = Slurmctld()
        host.service.answers({"v": 1, "hold": True})
        job = JobDesc(
            tres_per_node="compute:8", comment='a"b\\c\n\x01 \xc3\xa9 \xff\xc0\xaf\xed\xa0\x80'
        )
        host.submit(job)

        assert host.service.last_request["job"]["comment"] == 'a"b\\c\n\x01 é ??????'

    def test_a_request_over_64_kib_is_refused_without_a_call(self) -> None:
        """The service would only refuse to read it, and the breaker would hold others' jobs."""
        host, job = Slurmctld(), JobDesc(tres_per_node="compute:8", comment="x" * 70_000)

        assert host.submit(job) == INVALID_GRES
        assert (host.service.connects, job.written) == (0, [])


class TestAnswers:
    def test_an_answer_is_applied_whole(self) -> None:
        """Fields, enforce bit and message; bits that were set stay set."""
        host = Slurmctld()
        host.service.answers(REWRITE)
        job = JobDesc(tres_per_node="gres/compute:8", bitflags=1 << 15)

        assert host.submit(job) == SUCCESS
        assert job["tres_per_node"] == "gres/gpu:a100:1,gres/compute:8,gres/vram:80"
        assert (job["num_tasks"], job["admin_comment"]) == (1, BOUND)
        assert job["bitflags"] == (1 << 15) + 16
        assert host.lines("user") == REWRITE["message"]
        assert host.service.open_sockets == 0

    def test_the_enforce_bit_is_not_added_twice(self) -> None:
        """Adding is not OR-ing."""
        host, job = Slurmctld(), JobDesc(tres_per_node="compute:8", bitflags=17)
        host.service.answers(REWRITE)
        host.submit(job)

        assert job["bitflags"] == 17

    def test_empty_strings_clear_and_ntasks_per_tres_is_cleared_by_its_no_val(self) -> None:
        """What a move away from gpu must leave behind is cleared without writing nil."""
        host = Slurmctld()
        host.service.answers(
            {"v": 1, "set": {"gres": "npu:x:1,compute:6", "cpus_per_tres": "",
                             "ntasks_per_tres": NO_VAL16}}
        )  # fmt: skip
        job = JobDesc(tres_per_node="compute:6", cpus_per_tres="gres/gpu:4", ntasks_per_tres=2)

        assert host.submit(job) == SUCCESS
        assert job["cpus_per_tres"] is None
        assert job["ntasks_per_tres"] == NO_VAL16

    def test_the_form_per_socket_is_accepted(self) -> None:
        """Devices may stand in another field than the one that asked for units."""
        host, job = Slurmctld(), JobDesc(tres_per_node="compute:6")
        host.service.answers(
            {"v": 1, "set": {"gres": "", "tres_per_socket": "gres/npu:x:1,gres/compute:6"}}
        )

        assert host.submit(job) == SUCCESS
        assert (job["tres_per_node"], job["tres_per_socket"]) == (
            None,
            "gres/npu:x:1,gres/compute:6",
        )

    def test_an_error_rejects_with_the_services_text_and_sets_nothing(self) -> None:
        """`error` wins over `set`."""
        host, job = Slurmctld(), JobDesc(tres_per_node="compute:foo:8")
        host.service.answers(REWRITE | {"error": "no class foo"})

        assert host.submit(job) == INVALID_GRES
        assert (job.written, host.lines("user")) == ([], ["no class foo"])

    def test_messages_are_eight_lines_at_most_without_control_characters(self) -> None:
        """No escape sequence of anybody's reaches a terminal."""
        host = Slurmctld()
        host.service.answers(REWRITE | {"message": ["a\x1b[2Jb\nc %s \x9b"] * 20})
        host.submit(JobDesc(tres_per_node="compute:8"))

        assert host.lines("user") == ["a [2Jb c %s  "] * 8

    def test_nulls_count_as_absent(self) -> None:
        """A service that writes out its empty keys is understood."""
        host = Slurmctld()
        host.service.answers(REWRITE | {"error": None, "hold": None, "pass": None})

        assert host.submit(JobDesc(tres_per_node="compute:8")) == SUCCESS

    def test_a_direct_request_passes_where_the_answer_says_so(self) -> None:
        """`pass` writes nothing."""
        host, job = Slurmctld(), JobDesc(tres_per_job="gres/gpu:2")
        host.service.answers({"v": 1, "pass": True})

        assert host.submit(job) == SUCCESS
        assert job.written == []

    @pytest.mark.parametrize(
        "change",
        [
            {"set": {"gres": "gpu:a100:1,compute:8", "user_id": 0}},
            {"set": {"gres": "gpu:a100:1,compute:8", "priority": 1}},
            {"set": {"gres": "gres/gpu:a100:1"}},
            {"set": {"gres": "gpu:a100:1", "num_tasks": -1}},
            {"set": {"gres": "gpu:a100:1", "num_tasks": 1.5}},
            {"set": {"gres": "gpu:a100:1", "num_tasks": 2**31}},
            {"set": {"gres": "gpu:a100:1", "num_tasks": "1"}},
            {"set": {"gres": "gpu:a100:1", "num_tasks": float("nan")}},
            {"set": {"gres": "gpu:a100:1", "cpus_per_task": 65534}},
            {"set": {"gres": "gpu:a100:1", "ntasks_per_tres": 65535}},
            {"set": {"gres": "gpu:a100:1", "features": "x" * 1025}},
            {"set": {"gres": "gpu:a100:1", "features": "a\nb"}},
            {"set": {"gres": "gpu:a100:1", "features": 7}},
            {"set": {"gres": "gpu:a100:1", "features": None}},
            {"set": {"gres": "gpu:a100:1", "admin_comment": "mine"}},
            {"set": {"gres": "compute:8"}},
            {"set": {"gres": "gpu:a100:0,compute:8"}},
            {"set": {"gres": "gpu:a100:1,compute:train:8"}},
            {"set": {"gres": ""}},
            {"set": {"num_tasks": 1}},
            {"set": {}},
            {"set": []},
            {"set": "gres"},
            {"set": None},
            {"pass": True},
            {"message": "text"},
            {"message": [1]},
            {"error": 5},
            {"error": ""},
            {"enforce_binding": "yes"},
            {"hold": True},
            {"error_code": "version"},
        ],
        ids=json.dumps,
    )
    def test_an_answer_that_is_not_right_in_all_its_parts_is_not_applied(
        self, change: dict[str, Any]
    ) -> None:
        """Nothing of it is written; the job is held."""
        host, job = Slurmctld(), JobDesc(tres_per_node="compute:8")
        host.service.answers(REWRITE | change)

        assert host.submit(job) == SUCCESS
        assert_held(job, 8)
        assert job["num_tasks"] is None

    def test_a_well_formed_answer_that_decides_nothing_leaves_the_breaker_closed(self) -> None:
        """It came in time: one user's odd request does not hold the others' jobs."""
        host = Slurmctld()
        host.service.answers({"v": 1, "hold": True})
        host.submit(JobDesc(tres_per_node="compute:8"))
        host.service.answers(REWRITE)
        job = JobDesc(tres_per_node="compute:8")
        host.submit(job)

        assert "gpu:a100" in str(job["tres_per_node"])
        assert host.lines("error") == []

    def test_components_of_a_hetjob_are_decided_each_for_itself(self) -> None:
        """The offset is passed on, nothing is remembered between calls."""
        host = Slurmctld()
        host.service.answers(REWRITE)
        jobs = [JobDesc(tres_per_node="compute:8", het_job_offset=i) for i in range(2)]

        assert [host.submit(job) for job in jobs] == [SUCCESS, SUCCESS]
        offsets = [json.loads(line)["job"]["het_job_offset"] for line in host.service.requests]
        assert offsets == [0, 1]


class TestAway:
    def test_hold_writes_a_type_no_node_has_and_keeps_the_request(self) -> None:
        """What asked for devices is cleared, CPUs and licences stay, the record has it all."""
        host = Slurmctld()
        job = JobDesc(
            tres_per_node="gres/compute:train:4,gres/vram:40G",
            tres_per_task="cpu=2,license/x=1,gres/compute:2",
            tres_per_job="gres/gpu:1", cpus_per_tres="gres/gpu:4", mem_per_tres="gres/gpu:1024",
            ntasks_per_tres=2, num_tasks=2,
        )  # fmt: skip
        before = dict(job.values)

        assert host.submit(job) == SUCCESS
        assert_held(job, 4)
        assert job["tres_per_task"] == "cpu=2,license/x=1"
        assert [job[k] for k in ("tres_per_job", "cpus_per_tres", "mem_per_tres")] == [None] * 3
        assert job["ntasks_per_tres"] == NO_VAL16
        record = record_of(job)
        assert record["v"] == 1
        assert record["trace"].startswith("s-")
        del before["script"]
        assert record["request"] == {**before, "batch": True, "bitflags": 0, "user_id": 2001}
        assert any("do not submit it again" in line for line in host.lines("user"))

    def test_a_job_that_its_owner_held_says_so_in_its_record(self) -> None:
        """Else binding it would release it."""
        host, job = Slurmctld(), JobDesc(tres_per_node="compute:8", priority=0)
        host.submit(job)

        assert record_of(job)["request"]["priority"] == 0

    @pytest.mark.parametrize(
        ("text", "count"),
        [
            ("compute", 1),
            ("compute:train", 1),
            ("compute:train:16", 16),
            ("compute=8", 8),
            ("compute:1K", 1024),
            ("compute:2147483647", 2147483647),
            ("compute:2147483648", 1),
            ("compute:99999999999999999999", 1),
            ("vram:80G", 1),
            ("vram:each:1.5T", 1),
            ("fs:3,compute:5", 5),
        ],
    )
    def test_the_held_count_is_the_requests(self, text: str, count: int) -> None:
        """One where it has none of its own or none that Slurm could hold."""
        host, job = Slurmctld(), JobDesc(tres_per_node=text)

        assert host.submit(job) == SUCCESS
        assert_held(job, count)

    @pytest.mark.parametrize("field", ["tres_per_task", "tres_per_job"])
    def test_a_request_elsewhere_is_held_with_one_a_node(self, field: str) -> None:
        """The count is not one of a node there."""
        host, job = Slurmctld(), JobDesc(**{field: "gres/compute:2"})
        host.submit(job)

        assert_held(job, 1)
        assert job[field] is None

    @pytest.mark.parametrize(
        "text",
        [
            "compute:-8", "compute:2.5", "compute:0", "compute:train:x", "compute:", "compute:8x",
            "compute:a:b:3", "compute:train:0", "vram:-1", "vram:0", "compute:8,vram:each:-4G",
        ],
    )  # fmt: skip
    def test_a_plainly_invalid_count_is_refused(self, text: str) -> None:
        """Holding it would only put the refusal off."""
        host, job = Slurmctld(), JobDesc(tres_per_node=text)

        assert host.submit(job) == INVALID_GRES
        assert job.written == []
        assert "whole number" in host.lines("user")[0]

    def test_reject_refuses_with_a_clear_text(self) -> None:
        """By policy a job is refused instead of held."""
        host, job = Slurmctld(away="reject"), JobDesc(tres_per_node="compute:8")

        assert host.submit(job) == INVALID_GRES
        assert job.written == []
        assert "cannot answer now" in host.lines("user")[0]

    @pytest.mark.parametrize("away", ["hold", "reject"])
    def test_a_direct_request_passes_unchanged(self, away: str) -> None:
        """It holds real devices."""
        host, job = Slurmctld(away=away), JobDesc(tres_per_node="gres/gpu:a100:2")

        assert host.submit(job) == SUCCESS
        assert job.written == []

    @pytest.mark.parametrize("module", ["socket", "cjson"])
    def test_without_its_libraries_the_service_counts_as_away(self, module: str) -> None:
        """One line at load, and jobs are still held with their record."""
        host, job = Slurmctld(without=module), JobDesc(tres_per_node="compute:8")

        assert len(host.lines("error")) == 1
        assert host.submit(job) == SUCCESS
        assert_held(job, 8)
        assert host.service.connects == 0

    def test_every_held_job_has_a_trace_of_its_own(self) -> None:
        """Also within one tick of the clock."""
        host = Slurmctld()
        jobs = [JobDesc(tres_per_node="compute:8") for _ in range(50)]
        for job in jobs:
            host.submit(job)

        assert len({record_of(job)["trace"] for job in jobs}) == 50


class TestFaults:
    def test_a_fault_before_the_first_write_holds_the_job(self) -> None:
        """Lua's error goes no further than the shim."""
        host, job = Slurmctld(), JobDesc(tres_per_node="compute:8")
        host.service.answers(REWRITE)
        host.lua.execute('package.loaded["hpcmgr.fields"].writes_of = nil')

        assert host.submit(job) == SUCCESS
        assert_held(job, 8)

    @pytest.mark.parametrize("field", ["num_tasks", "admin_comment", "gres"])
    @pytest.mark.parametrize("text", ["compute:8", "gpu:1"])
    def test_a_fault_among_the_writes_rejects_the_job(self, field: str, text: str) -> None:
        """A half-written job goes nowhere, whatever it asked for."""
        host, job = Slurmctld(), JobDesc(tres_per_node=text)
        host.service.answers(REWRITE)
        job.failing_write = field

        assert host.submit(job) == INVALID_GRES

    def test_a_fault_while_holding_rejects_the_job(self) -> None:
        """The last resort."""
        host, job = Slurmctld(), JobDesc(tres_per_node="compute:8")
        job.failing_write = "priority"

        assert host.submit(job) == INVALID_GRES

    @pytest.mark.parametrize("field", ["tres_per_node", "account", "script"])
    def test_a_field_that_cannot_be_read_rejects_the_job(self, field: str) -> None:
        """What was asked for is not known, or cannot be kept."""
        host, job = Slurmctld(), JobDesc(tres_per_node="compute:8")
        job.failing_read = field

        assert host.submit(job) == INVALID_GRES
        assert job.written == []


NAMING = [*REQUESTS, "cpus_per_tres", "mem_per_tres", "ntasks_per_tres"]


class TestWhatIsRead:
    def test_a_request_without_our_names_costs_one_read_of_each_field_that_could_hold_one(
        self,
    ) -> None:
        """Every submission of the site pays for them."""
        host, job = Slurmctld(), JobDesc(comment="compute:8")
        host.submit(job)

        assert sorted(job.reads) == sorted(NAMING)

    def test_a_direct_request_is_not_read_while_no_call_is_made(self) -> None:
        """It passes as it is, so nobody needs to know more."""
        host = Slurmctld()
        host.submit(JobDesc(tres_per_node="gres/gpu:1"))
        job = JobDesc(tres_per_node="gres/gpu:1")

        assert host.submit(job) == SUCCESS
        assert sorted(job.reads) == sorted(NAMING)

    def test_a_users_name_is_asked_for_once(self) -> None:
        """slurmctld asks the system each time; two users are two names."""
        host = Slurmctld()
        host.service.answers(REWRITE)
        jobs = [
            JobDesc(tres_per_node="compute:8", user_id=uid, user_name=name)
            for uid, name in ((2001, "ann"), (2002, "ben"), (2001, "eve"))
        ]
        for job in jobs:
            assert host.submit(job) == SUCCESS
        told = [json.loads(line)["job"]["user_name"] for line in host.service.requests]

        assert told == ["ann", "ben", "ann"]
        assert ["user_name" in job.reads for job in jobs] == [True, True, False]

    def test_a_user_without_a_name_is_told_without_and_asked_for_again(self) -> None:
        """The system may know it later."""
        host = Slurmctld()
        host.service.answers(REWRITE)
        for name in ("", "ann"):
            host.submit(JobDesc(tres_per_node="compute:8", user_name=name))

        told = [json.loads(line)["job"].get("user_name") for line in host.service.requests]
        assert told == [None, "ann"]


class TestConfigure:
    def test_bad_values_are_logged_and_their_defaults_hold(self) -> None:
        """A typing error in the configuration stops no submission."""
        host = Slurmctld(
            socket="relative", limit_ms=-1, breaker_s="x", away="maybe", accelerators={},
            neutral=["Compute"], admin_uids=[-1], slurm_user=[], speed=9,
        )  # fmt: skip
        job = JobDesc(tres_per_node="compute:8")

        assert len([line for line in host.lines("error") if "default" in line]) == 8
        assert "hpcmgr: unknown setting speed" in host.lines("error")
        assert host.submit(job) == SUCCESS
        assert_held(job, 8)

    def test_slurms_user_is_looked_up_by_name(self) -> None:
        """Once, at load; a name that is not there is told."""
        daemon = pwd.getpwnam("daemon")
        host = Slurmctld(slurm_user="daemon")

        assert host.lines("error") == []
        assert host.modify(update_of(tres_per_node="vram:1"), {}, uid=daemon.pw_uid) == SUCCESS
        assert "give its uid" in Slurmctld(slurm_user="nobody here").lines("error")[0]

    def test_a_users_uid_may_be_given_by_number(self) -> None:
        """For a SlurmUser who is not in /etc/passwd."""
        host = Slurmctld(slurm_user=64030)

        assert host.lines("error") == []
        assert host.modify(update_of(tres_per_node="compute:8"), {}, uid=64030) == SUCCESS

    def test_other_gres_names_can_be_ours(self) -> None:
        """Both lists are the site's."""
        host = Slurmctld(neutral=["unit", "mem"], accelerators=["dcu"])
        host.service.answers({"v": 1, "set": {"gres": "dcu:z100:1,unit:4"}})
        job = JobDesc(tres_per_node="unit:4")

        assert host.submit(job) == SUCCESS
        assert job["tres_per_node"] == "gres/dcu:z100:1,gres/unit:4"
        assert host.submit(JobDesc(tres_per_node="compute:8")) == SUCCESS
        assert host.service.connects == 1


class TestBesideASitesOwn:
    @staticmethod
    def behind(host: Slurmctld, submit: str, modify: str = "nil") -> Callable[..., int]:
        make = host.lua.eval("function(h, s, m) return h.behind(s, m) end")
        functions = make(host.hpcmgr, host.lua.eval(submit), host.lua.eval(modify))
        host.lua.globals().slurm_job_submit, host.lua.globals().slurm_job_modify = functions
        submit_function: Callable[..., int] = functions[0]
        return submit_function

    def test_hpcmgr_sees_what_the_sites_function_made_of_the_request(self) -> None:
        """It runs last on submit."""
        host = Slurmctld(away="reject")
        submit = self.behind(host, "function(job) job.tres_per_node = 'compute:8' return 0 end")

        assert submit(host.lua.table_from({}), None, 2001) == INVALID_GRES

    def test_a_refusal_of_the_sites_function_stands(self) -> None:
        """No call is made for it."""
        host = Slurmctld()
        submit = self.behind(host, "function() return 7 end")

        assert submit(host.lua.table_from({"tres_per_node": "compute:8"}), None, 2001) == 7
        assert host.service.connects == 0

    def test_a_fault_of_the_sites_function_refuses_on_every_release(self) -> None:
        """Slurm up to 25.11 would accept the job with what was written until then."""
        host = Slurmctld()
        submit = self.behind(host, "function() error('x') end")

        assert submit(host.lua.table_from({}), None, 2001) == INVALID_GRES

    def test_on_modify_hpcmgr_judges_the_users_edit_alone(self) -> None:
        """What the site's function adds is the site's right."""
        host = Slurmctld()
        self.behind(host, "nil", "function(job) job.tres_per_node = 'compute:1' return 0 end")
        modify = host.lua.globals().slurm_job_modify

        assert modify(host.lua.table_from({}), host.lua.table_from({}), None, 2001) == SUCCESS
        refused = host.lua.table_from({"tres_per_node": "compute:1"})
        assert modify(refused, host.lua.table_from({}), None, 2001) == ERROR
