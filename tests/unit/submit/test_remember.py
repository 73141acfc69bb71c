"""What admin_comment keeps of a request is the request."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.submit.remember import is_pinned, recall, remember
from hpcmgr.submit.request import Ask, read_fields, read_request
from tests.builders import A100, ASCEND, cluster, node, policy, submit

RULES = policy(A100, ASCEND)
MIXED = cluster(node("n01", gres={"gpu:a100": 2, "npu:ascend910b3": 4}))
NAMES = frozenset({"gpu", "npu"})

fields = st.fixed_dictionaries(
    {"tres_per_node": st.sampled_from(["compute:8", "compute:gpu:4,vram:40", "compute:8,tmp:1",
                                       "gres/compute:npu:16,gres/vram:each:32"])},
    optional={
        "cpus_per_task": st.integers(1, 8), "num_tasks": st.integers(1, 2),
        "min_mem_per_cpu": st.integers(1, 100), "min_nodes": st.just(1), "max_nodes": st.just(1),
        "features": st.just("rdma"), "exc_nodes": st.just("n09"), "bitflags": st.just(1 << 14),
        "account": st.just("chem"), "partition": st.just("main"), "comment": st.just("mine"),
    },
)  # fmt: skip


@given(fields)
def test_it_can_be_recalled(job: dict[str, object]) -> None:
    """Same request, same numbers, same lists; the partition is that of today."""
    before = read_fields(job)
    ask = read_request(before, NAMES)
    assert isinstance(ask, Ask)
    comment = {"request": str(ask), **json.loads(json.dumps(remember(ask, before)))}

    after = recall(comment, {"partition": "other"})

    assert after is not None
    assert read_request(after, NAMES) == ask
    for name in ("cpus_per_task", "num_tasks", "min_mem_per_cpu", "min_nodes", "max_nodes"):
        assert after.number(name) == before.number(name)
    assert after.string("features") == before.string("features")
    assert after.string("exc_nodes") == before.string("exc_nodes")
    assert after.string("partition") == "other"


def test_a_comment_of_an_earlier_version_tells_too_little() -> None:
    assert recall({"request": "compute:8"}, {}) is None


def test_what_was_set_for_the_user_is_not_taken_for_his() -> None:
    """One task and two CPUs were set; recalled, he gave neither."""
    done = submit(MIXED, RULES, "compute:8").rewrite
    assert done is not None
    record = json.loads(str(done.set["admin_comment"]).removeprefix("hpcmgr:"))

    after = recall(record, {})

    assert after is not None
    assert done.set["num_tasks"] == 1
    assert after.number("num_tasks") is None
    assert after.number("cpus_per_task") is None


def test_a_pin_is_a_word() -> None:
    assert is_pinned("mine hpcmgr:pin")
    assert not is_pinned("hpcmgr:pinned")
