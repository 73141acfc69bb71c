"""What users may change in jobs: everything but what the service manages."""

from __future__ import annotations

import pytest

from tests.lua.shim_host import ERROR, SUCCESS, Slurmctld, update_of

BOUND = {"admin_comment": 'hpcmgr:{"v":1,"state":"bound","trace":"t-1"}'}
UNBOUND = {"admin_comment": 'hpcmgr:{"v":1,"state":"unbound","trace":"s-1","request":{}}'}
INFINITE = 4294967295

MANAGED: dict[str, str | int] = {
    "tres_per_node": "gres/gpu:2", "tres_per_job": "gres/gpu:2", "tres_per_socket": "",
    "tres_per_task": "gres/gpu:1", "cpus_per_tres": "gres/gpu:4", "mem_per_tres": "gres/gpu:1",
    "features": "x", "num_tasks": 2, "cpus_per_task": 2, "pn_min_cpus": 2, "min_cpus": 2,
    "min_mem_per_node": 100, "min_mem_per_cpu": 100, "sockets_per_node": 1, "ntasks_per_tres": 1,
}  # fmt: skip
FREE: dict[str, str | int] = {
    "time_limit": 5, "name": "x", "comment": "hi", "partition": "main", "nice": 2147483658,
    "priority": 0, "min_nodes": 2, "bitflags": 503316480, "het_job_offset": 0,
}  # fmt: skip


@pytest.mark.parametrize("field", MANAGED)
def test_a_managed_field_of_a_managed_job_is_the_services(field: str) -> None:
    """Its owner is told which field, and what to do."""
    host, update = Slurmctld(), update_of(**{field: MANAGED[field]})

    assert host.modify(update, BOUND) == ERROR
    assert field in host.lines("user")[0]
    others = ERROR if "gpu" in str(MANAGED[field]) else SUCCESS
    assert host.modify(update, {}) == others
    assert host.modify(update, {"admin_comment": "a note of ours"}) == others


def test_excluded_nodes_are_its_owners_where_none_was_added() -> None:
    """In a list that hpcmgr added to stand nodes that cannot serve the job."""
    avoids = {"admin_comment": 'hpcmgr:{"v":1,"state":"bound","binding":{"avoids":true}}'}
    quoted = {"admin_comment": BOUND["admin_comment"] + r'{"comment":"\"avoids\":true"}'}
    host = Slurmctld()

    assert host.modify(update_of(exc_nodes="n1"), avoids) == ERROR
    assert "exc_nodes is managed" in host.lines("user")[0]
    for record in (BOUND, quoted, {}):
        assert host.modify(update_of(exc_nodes="n1"), record) == SUCCESS


@pytest.mark.parametrize("field", FREE)
@pytest.mark.parametrize("record", [BOUND, UNBOUND, {}], ids=["bound", "unbound", "not ours"])
def test_everything_else_is_its_owners(field: str, record: dict[str, str]) -> None:
    """Time limit, name, nice, partition; and a hold, but of a job that is held."""
    if record is UNBOUND and field == "priority":
        return
    assert Slurmctld().modify(update_of(**{field: FREE[field]}), record) == SUCCESS


@pytest.mark.parametrize("text", ["gres/compute:4", "compute:unbound:1", "gres/gpu:1,gres/vram=8"])
@pytest.mark.parametrize("field", ["tres_per_node", "tres_per_job", "cpus_per_tres"])
def test_units_cannot_be_given_to_any_job_by_update(text: str, field: str) -> None:
    """They would run without a device: no update is rewritten."""
    host = Slurmctld()

    assert host.modify(update_of(**{field: text}), {}) == ERROR
    assert "submit" in host.lines("user")[0]


def test_devices_cannot_be_given_to_any_job_by_update() -> None:
    """They would hold no units: quotas and bills would miss them."""
    host = Slurmctld()

    assert host.modify(update_of(tres_per_node="gres/gpu:8"), {}) == ERROR
    assert "without their units" in host.lines("user")[0]
    assert host.modify(update_of(tres_per_node="gres/tmpfs:8"), {}) == SUCCESS


@pytest.mark.parametrize("priority", [1, INFINITE])
def test_an_unbound_job_is_not_released_by_its_owner(priority: int) -> None:
    """A release is an update of the priority."""
    assert Slurmctld().modify(update_of(priority=priority), UNBOUND) == ERROR
    assert Slurmctld().modify(update_of(priority=priority), BOUND) == SUCCESS


@pytest.mark.parametrize("state", ["unbound", "refused"])
def test_the_owners_hold_of_a_held_job_is_refused(state: str) -> None:
    """It would leave no trace, and the binding would undo it; an operator's hold does leave one."""
    record = {"admin_comment": UNBOUND["admin_comment"].replace("unbound", state), "user_id": 2001}
    host = Slurmctld()

    assert host.modify(update_of(priority=0), record, uid=2001) == ERROR
    assert "held already" in host.lines("user")[0]
    assert host.modify(update_of(priority=0), record, uid=2002) == SUCCESS


def test_a_refused_job_is_not_released_by_its_owner() -> None:
    """It could never run; he is told where to read why."""
    host = Slurmctld()
    record = {"admin_comment": UNBOUND["admin_comment"].replace("unbound", "refused")}

    assert host.modify(update_of(priority=INFINITE), record) == ERROR
    assert "cancel it" in host.lines("user")[0]


def test_a_users_text_in_the_record_does_not_make_a_job_unbound() -> None:
    """JSON escapes the quotes it would need."""
    record = {"admin_comment": BOUND["admin_comment"] + r'{"comment":"\"state\":\"unbound\""}'}

    assert Slurmctld().modify(update_of(priority=INFINITE), record) == SUCCESS


@pytest.mark.parametrize("uid", [0, 64030, 990])
def test_administrators_and_slurms_user_change_everything_untouched(uid: int) -> None:
    """The service binds and moves jobs by such updates."""
    host = Slurmctld(admin_uids=[0, 990], slurm_user="64030")
    update = update_of(tres_per_node="compute:8", priority=INFINITE)
    update.failing_read = "tres_per_node"

    assert host.modify(update, UNBOUND, uid=uid) == SUCCESS
    assert (update.written, host.logs) == ([], [])


def test_modify_never_calls_the_service() -> None:
    """slurmctld holds its write locks, and the service may be waiting for this very update."""
    host = Slurmctld()
    host.service.answers({"v": 1, "pass": True})
    host.modify(update_of(tres_per_node="compute:8"), UNBOUND)

    assert host.service.connects == 0


def test_a_fault_refuses_a_users_update() -> None:
    """On every release alike."""
    update = update_of(tres_per_node="gpu:1")
    update.failing_read = "tres_per_node"

    assert Slurmctld().modify(update, BOUND) == ERROR
