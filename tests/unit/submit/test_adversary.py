"""Direct requests whose spelling must not lose their units, seen without Slurm."""

from __future__ import annotations

import pytest

from tests.builders import A100, ASCEND, T4, cluster, node, policy, submit

STATE = cluster(
    node("mix01", gres={"gpu:a100": 1, "npu:ascend910b3": 2}),
    node("t401", gres={"gpu:t4": 4}),
    node("t402", gres={"gpu:t4": 4}),
)
RULES = policy(A100, T4, ASCEND)


@pytest.mark.parametrize(
    ("gres", "units"),
    [
        ("gres/npu:ascend910b3:2,gres/gpu:0", 16),
        ("gres/gpu:t4:4,gres/npu:0", 8),
        ("gres/gpu:a100:1,gres/gpu:t4:0", 8),
        ("gres/gpu:t4:1,gres/", 2),
        ("gres/,gres/gpu:t4:1", 2),
        ("gres/gpu:t4:1,gres/gpu:t4:1", 2),  # Slurm gives one device
    ],
)
def test_odd_spellings_book_their_units_or_are_refused(gres: str, units: int) -> None:
    """A count of zero, an empty entry or a doubled one change nothing in what is booked."""
    decision = submit(STATE, RULES, gres)

    if not decision.error:
        assert decision.rewrite is not None
        assert f"compute:{units}" in str(decision.rewrite.set.get("gres", "")).split(",")


def test_an_untyped_total_is_not_cleared_without_a_replacement() -> None:
    """--gpus=2 -N1 where gpu may be two types: refused, or by the site's word left as it is."""
    fields = {"tres_per_job": "gres/gpu:2", "min_nodes": 1, "max_nodes": 1}
    unbilled = submit(STATE, policy(A100, T4, direct_totals="unbilled"), fields).rewrite

    assert "name the type" in submit(STATE, RULES, fields).error
    assert unbilled is not None
    assert dict(unbilled.set) == {}
    assert unbilled.messages


def test_tasks_without_nodes_are_not_all_put_on_one_node() -> None:
    """-n40: Slurm takes two nodes of 32 CPUs, so the type is able."""
    fields = {"tres_per_node": "gres/compute:t4:2", "num_tasks": 40, "bitflags": 1 << 14}

    assert not submit(STATE, RULES, fields).error
