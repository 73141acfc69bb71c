"""Which nodes can serve: drivers, health, and what the job must ask so that it gets no other."""

from __future__ import annotations

import pytest

from hpcmgr.profile.runtimes import Served
from hpcmgr.submit.facts import DeviceFacts
from hpcmgr.submit.places import join_features
from hpcmgr.submit.view import make_view
from tests.builders import A100, ASCEND, cluster, known, node, policy, submit

OLD = DeviceFacts(served=frozenset([Served(None, "11.8")]))
NEW = DeviceFacts(served=frozenset([Served(None, "12.4")]))
RULES = policy(A100, ASCEND, classes={"train": {"needs": {"cuda": ">=12.4"}}})
TWO = cluster(node("a1", gres={"gpu:a100": 2}), node("a2", gres={"gpu:a100": 2}))


def test_a_type_whose_drivers_cannot_serve_is_no_candidate() -> None:
    """With the reason; a type of another runtime is not asked about it."""
    state = cluster(node("a1", gres={"gpu:a100": 2}), node("n1", gres={"npu:ascend910b3": 2}))
    decision = submit(state, RULES, "compute:train:8", known=known(a1={"gpu:a100": OLD}))

    assert [c.name for c in decision.ranked] == ["ascend910b3"]
    [refused] = [c for c in decision.refused if c.name == "a100-80g"]
    assert refused.refused == "its driver serves cuda up to 11.8, >=12.4 needed"


def test_nodes_whose_driver_cannot_serve_are_left_out_of_the_job() -> None:
    """Slurm places by type: without the list the job could start on the old driver."""
    facts = known(a1={"gpu:a100": OLD}, a2={"gpu:a100": NEW})
    job = {"tres_per_node": "compute:train:8", "exc_nodes": "x1"}
    done = submit(TWO, RULES, job, known=facts).rewrite

    assert done is not None
    assert done.set["exc_nodes"] == "x1,a1"
    assert '"avoids":true' in str(done.set["admin_comment"])
    assert any("1 nodes are left out" in line for line in done.messages)
    other = submit(TWO, RULES, {**job, "tres_per_node": "compute:8"}, known=facts).rewrite
    assert other is not None
    assert "exc_nodes" not in other.set
    assert '"avoids"' not in str(other.set["admin_comment"])


def test_a_driver_that_nobody_knows_is_told_and_not_refused() -> None:
    """No inventory, or no rule for the driver."""
    done = submit(TWO, RULES, "compute:train:8", known=known(a2={"gpu:a100": NEW})).rewrite

    assert done is not None
    assert "exc_nodes" not in done.set
    assert any("serves cuda >=12.4 is not known on 1 of" in line for line in done.messages)


def test_a_pool_counts_without_failed_devices() -> None:
    """Two of two are asked, one has failed: the job may wait for the repair, and is told."""
    facts = known(a1={"gpu:a100": DeviceFacts(failed=1)})
    one = cluster(node("a1", gres={"gpu:a100": 2}))
    both = submit(TWO, RULES, "compute:a100:16", known=facts)
    alone = submit(one, RULES, "compute:a100:16", known=facts).rewrite

    assert both.ranked[0].node_count == 1
    assert not both.ranked[0].waits
    assert alone is not None
    assert any("a1 is idle (1 of 2 gpu:a100 failed)" in line for line in alone.messages)
    assert submit(one, RULES, "compute:a100:8", known=facts).ranked[0].terms["free_now"] == 1.0


def test_a_failed_device_is_not_free() -> None:
    """One of two is used, the other has failed: nothing can start now."""
    state = cluster(node("a1", gres={"gpu:a100": 2}, used={"gpu:a100": 1}))
    facts = known(a1={"gpu:a100": DeviceFacts(failed=1)})

    terms = submit(state, RULES, "compute:8", known=facts).ranked[0].terms

    assert terms["free_now"] == 0.0
    assert terms["fragmentation"] == 1.0  # one device is all that the node has


def test_features_of_the_class_are_asked_of_slurm() -> None:
    """Some A100 nodes have rdma, some not: without the constraint the job could get any."""
    rules = policy(A100, classes={"fast": {"features": ["rdma"]}})
    state = cluster(
        node("a1", gres={"gpu:a100": 1}, features=frozenset({"rdma"})),
        node("a2", gres={"gpu:a100": 1}),
    )
    done = submit(state, rules, "compute:fast:8").rewrite
    mine = submit(state, rules, {"tres_per_node": "compute:fast:8", "features": "[a*2&b*1]"})

    assert done is not None
    assert done.set["features"] == "rdma"
    assert mine.rewrite is not None
    assert "features" not in mine.rewrite.set
    assert any("cannot be joined" in line for line in mine.rewrite.messages)


@pytest.mark.parametrize(
    ("asked", "wanted", "joined"),
    [
        ("", [], ""),
        ("", ["rdma", "nvlink"], "rdma&nvlink"),
        ("fat", ["rdma"], "fat&rdma"),
        ("fat,rdma", ["rdma"], "fat&rdma"),
        ("a|b", ["rdma"], "(a|b)&rdma"),
        ("(a|b)&rdma", ["rdma"], "(a|b)&rdma"),
        ("(a|b)&c", ["rdma"], "(a|b)&c&rdma"),
        ("(a|b)|c", ["rdma"], None),
        ("a|b", [], "a|b"),
        ("[a|b]", ["rdma"], None),
        ("a*2", ["rdma"], None),
        ("[a|b]", [], "[a|b]"),
    ],
)
def test_constraints_are_joined_where_slurm_can(
    asked: str, wanted: list[str], joined: str | None
) -> None:
    """The user's stays as it is; alternatives are put in brackets."""
    assert join_features(asked, wanted) == joined


def test_a_list_of_more_nodes_than_there_are_is_left_to_slurm() -> None:
    """Spelt out it would take a fifth of a second, and slurmctld waits."""
    job = {"tres_per_node": "compute:8", "exc_nodes": "a1,n[00001-65000]"}
    assert "a1" in make_view(TWO, RULES.library).named_nodes("a1,n[1-3]")
    assert not make_view(TWO, RULES.library).named_nodes(job["exc_nodes"])
    assert submit(TWO, RULES, job).rewrite is not None
