"""What a class could have: what admission would give, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpcmgr.capacity import Scope
from hpcmgr.profile.runtimes import Served
from hpcmgr.settings import Site
from hpcmgr.slurm.accounts import Accounts, Association
from hpcmgr.slurm.partition import Partition
from hpcmgr.submit.facts import DeviceFacts
from tests.builders import cluster, known, node
from tests.unit.capacity.test_demand import JOBS, STATE, job, told

OLD = {"gpu:a100": DeviceFacts(served=frozenset({Served(None, "11.8")}))}
NEW = {"gpu:a100": DeviceFacts(served=frozenset({Served(None, "12.4")}))}
A100S = cluster(
    node("g1", gres={"gpu:a100": 4, "gpu:t4": 4}, features=frozenset({"rdma"})),
    node("g2", gres={"gpu:a100": 2}, state="DOWN", usable=False),
    node("n1", gres={"npu:ascend910b3": 8}, used={"npu:ascend910b3": 3}),
)


def classes(classes: dict[str, Any], *, by: Any = "class", **more: Any) -> dict[str, Any]:
    """Rows by name."""
    site = Site.model_validate({"classes": classes, **more.pop("settings", {})})
    jobs = more.pop("jobs", ())
    rows = told(*jobs, by=by, site=site, **{"state": A100S, **more})["classes"]
    return {row["name"]: row for row in rows}


def counts(row: dict[str, Any]) -> dict[str, int]:
    return {word: row["devices"][word] for word in ("total", "out", "free", "usable")}


def test_jobs_count_in_the_class_by_which_they_were_bound() -> None:
    """Job 2 asked for devices itself."""
    jobs = [replace(each, job_class="train" if each.number in {1, 3} else "") for each in JOBS]
    rows = classes({"train": {}}, jobs=jobs, state=STATE)

    assert (rows["train"]["held"]["devices"], rows["train"]["waiting"]["devices"]) == (2, 5)
    assert rows["-"]["held"]["devices"] == 2
    assert "devices" not in rows["-"]


def test_nodes_that_are_out_count_as_out_and_nothing_is_counted_twice() -> None:
    """Of the default class; the largest request is in units."""
    row = classes({})["default"]

    assert counts(row) == {"total": 18, "out": 2, "free": 13, "usable": 13}
    assert row["types"] == ["gpu:a100", "gpu:t4", "npu:ascend910b3"]
    assert row["largest"] == {
        "request": "compute:40", "becomes": "5 x npu:ascend910b3", "gres": "npu:ascend910b3",
        "devices": 5, "units": 40, "nodes": "n1",
    }  # fmt: skip


def test_a_driver_that_is_too_old_serves_no_class_that_needs_a_newer_one() -> None:
    """Slurm has the node's devices all the same; a driver that nobody knows counts."""
    needs = {"new": {"kinds": ["gpu"], "needs": {"cuda": ">=12.4"}}}
    old = classes(needs, known=known(g1=OLD, g2=NEW))["new"]
    unknown = classes(needs)["new"]

    # The drivers of T4 are not known: they count.
    assert counts(old) == {"total": 6, "out": 2, "free": 4, "usable": 4}
    assert old["largest"]["request"] == "compute:new:2"
    assert counts(unknown)["total"] == 10
    assert unknown["largest"]["request"] == "compute:new:32"


@pytest.mark.parametrize(
    ("rules", "total", "request_"),
    [
        ({"features": ["rdma"]}, 8, "compute:c:32"),
        ({"kinds": ["npu"], "devices_min": 6}, 8, None),  # five are free
        ({"profiles": ["a100-80g"], "devices_min": 3}, 4, "compute:c:32"),  # not g2, it has two
        ({"profiles": ["a100-80g"], "devices_max": 2}, 6, "compute:c:16"),
        ({"profiles": ["t4"]}, 4, "compute:c:2"),  # no four T4 for eight units
        ({"units_per_device_min": 8}, 14, "compute:c:40"),
        ({"memory_per_device_gib": 80}, 6, "compute:c:32"),
        ({"profiles": ["a100-80g"], "cpus_per_device": 10}, 6, "compute:c:24"),
        ({"profiles": ["a100-80g"], "cpus_per_device": 40}, 0, None),
    ],
)  # fmt: skip
def test_every_rule_of_a_class_counts(
    rules: dict[str, Any], total: int, request_: str | None
) -> None:
    """As at a submission: the request that is offered is the largest one that would be granted."""
    row = classes({"c": rules})["c"]

    assert row["devices"]["total"] == total
    assert (row["largest"] or {"request": None})["request"] == request_


def test_a_template_counts_nodes_that_hold_all_of_it() -> None:
    """Its requests are in sets; 32 CPUs hold eight devices of four."""
    both = {"groups": [{"profiles": ["a100-80g"]}, {"profiles": ["t4"], "devices": 2}]}
    row = classes({"both": both})["both"]

    assert counts(row) == {"total": 8, "out": 0, "free": 8, "usable": 8}
    assert row["largest"] == {
        "request": "compute:both:2", "becomes": "2 x gpu:a100 + 4 x gpu:t4",
        "gres": "gpu:a100+gpu:t4", "devices": 6, "units": 24, "nodes": "g1",
    }  # fmt: skip
    tight = classes({"both": {**both, "cpus_per_device": 6}})["both"]
    assert tight["largest"]["request"] == "compute:both:1"


@pytest.mark.parametrize(("fallback", "request_"), [("refuse", "compute:c:16"),
                                                  ("spread", "compute:c:32")])  # fmt: skip
def test_a_topology_that_is_not_to_be_had_bounds_the_request(fallback: str, request_: str) -> None:
    """Two A100 on each socket of g1."""
    rules = {"profiles": ["a100-80g"], "topology": "same_socket", "fallback": fallback}
    facts = known(g1={"gpu:a100": DeviceFacts(sockets=(2, 2))})
    row = classes({"c": rules}, known=facts)["c"]

    assert counts(row)["total"] == 6
    assert row["largest"]["request"] == request_


def test_devices_that_failed_are_out() -> None:
    """Two of four, and all of a node: they do not vanish."""
    facts = known(g1={"gpu:a100": DeviceFacts(failed=2)}, g2={"gpu:a100": DeviceFacts(failed=2)})
    row = classes({"c": {"profiles": ["a100-80g"]}}, known=facts)["c"]

    assert counts(row) == {"total": 6, "out": 4, "free": 2, "usable": 2}
    assert row["largest"]["request"] == "compute:c:16"


ACCOUNTS = Accounts(
    frozenset({"limits"}),
    {
        ("root", "", ""): Association("root"),
        ("phys", "", ""): Association("phys", parent="root"),
        ("chem", "", ""): Association("chem", parent="root", per_job={"gres/compute": 8}),
        ("phys", "alice", ""): Association("phys", "alice"),
        ("chem", "bob", ""): Association("chem", "bob", per_job={"gres/compute": 8}),
    },
)


def test_a_user_sees_what_his_accounts_let_him_have() -> None:
    """g1 is physics' own; a job of chem may have eight units."""
    state = replace(A100S, accounts=ACCOUNTS)
    site = {
        "departments": {"physics": {"accounts": ["phys"]}},
        "nodes": [{"nodes": "g1", "department": "physics"}],
    }
    facts = known()
    owned = replace(facts, owned=Site.model_validate(site).owned)

    def of(user: str, account: str) -> dict[str, Any]:
        scope = Scope(user, (account,))
        return classes({}, settings=site, state=state, known=owned, scope=scope)["default"]

    assert of("alice", "phys")["devices"]["total"] == 18
    assert of("alice", "phys")["largest"]["request"] == "compute:40"
    assert of("bob", "chem")["devices"]["total"] == 10
    assert of("bob", "chem")["largest"]["request"] == "compute:8"


def test_a_partition_that_is_closed_takes_devices_out_and_not_away() -> None:
    """It is open again some day."""
    state = replace(A100S, partitions=(Partition("main", up=False, state="DRAIN"),))

    assert counts(classes({}, state=state)["default"]) == {
        "total": 18, "out": 15, "free": 0, "usable": 0,
    }  # fmt: skip


def test_a_class_that_nobody_serves_has_nothing() -> None:
    """No row is left out."""
    row = classes({"c": {"features": ["nowhere"]}}, jobs=(job(1, gres={"gpu:a100": 1}),))["c"]

    assert counts(row) == {"total": 0, "out": 0, "free": 0, "usable": 0}
    assert (row["types"], row["largest"]) == ([], None)
