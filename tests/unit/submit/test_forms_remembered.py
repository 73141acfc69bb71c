"""What is worked out for one request serves the next of its form, and changes no decision."""

from __future__ import annotations

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from hpcmgr.admit import Decision, decide
from hpcmgr.submit.expect import Expectation
from hpcmgr.submit.request import JobFields, read_fields
from hpcmgr.submit.view import make_view
from tests.builders import A100, ASCEND, cluster, node, policy

RULES = policy(
    A100,
    ASCEND,
    classes={"infer": {"prefer": ["npu"]}, "near": {"topology": "same_socket"}},
)
STATE = cluster(
    node("a01", gres={"gpu:a100": 4}, used={"gpu:a100": 1}),
    node("a02", gres={"gpu:a100": 4}, cpus_used=30),
    node("n01", gres={"npu:ascend910b3": 8}),
)
EXPECTED = Expectation(
    {"gpu:a100": ((0.0, 3), (900.0, 5)), "npu:ascend910b3": ((60.0, 8),)}, {"gpu:a100": 3}
)
JOBS = st.fixed_dictionaries(
    {"tres_per_node": st.sampled_from(
        ["compute:8", "compute:16", "compute:infer:32", "compute:near:16", "vram:100",
         "compute:nothing:1", "gpu:a100:1"])},
    optional={
        "min_nodes": st.integers(1, 3),
        "cpus_per_task": st.sampled_from([1, 8, 40]),
        "time_limit": st.sampled_from([10, 600]),
        "shared": st.just(0),
        "exc_nodes": st.sampled_from(["a01", "n01"]),
        "comment": st.sampled_from(["x", "hpcmgr:pin"]),
        "array_inx": st.just("0-3"),
        "partition": st.sampled_from(["main", "other"]),
    },
)  # fmt: skip
GRANTED = st.fixed_dictionaries(
    {}, optional={"gpu:a100": st.integers(1, 8), "npu:ascend910b3": st.integers(1, 8)}
)


def plain(decision: Decision) -> dict[str, object]:
    return dataclasses.asdict(decision)


@settings(max_examples=60)
@given(st.lists(st.tuples(JOBS, GRANTED, st.booleans()), min_size=1, max_size=8))
def test_the_same_decision_as_from_a_fresh_view(
    asked: list[tuple[dict[str, object], dict[str, int], bool]],
) -> None:
    """Whatever was asked and handed out before, with late binding's picture or without."""
    kept = make_view(STATE, RULES.library)
    for job, granted, expecting in asked:
        expected = EXPECTED if expecting else None
        kept = dataclasses.replace(kept, expected=expected)
        fresh = dataclasses.replace(make_view(STATE, RULES.library), expected=expected)
        fields = read_fields(job)

        one = decide(fields, RULES, kept, granted, "t-1")
        two = decide(fields, RULES, fresh, granted, "t-1")
        assert plain(one) == plain(two)


def test_a_decision_that_was_given_out_stays_as_it_is() -> None:
    """The journal writes it later than the next one is made."""
    view = make_view(STATE, RULES.library)
    fields = read_fields({"tres_per_node": "compute:8"})
    first = decide(fields, RULES, view, {}, "t-1")
    before = plain(first)
    decide(fields, RULES, view, {"gpu:a100": 8}, "t-2")

    assert plain(first) == before


def test_words_for_people_make_no_other_form() -> None:
    """Thousands of jobs with comments of their own are one form; another node count is not."""
    form = JobFields({"tres_per_node": "compute:8"}).form

    assert JobFields({"tres_per_node": "compute:8", "comment": "a", "user_id": 3}).form == form
    assert JobFields({"tres_per_node": "compute:8", "min_nodes": 2}).form != form


def test_no_number_of_forms_fills_the_memory() -> None:
    """Old ones are forgotten."""
    view = make_view(STATE, RULES.library)
    for units in range(1, 1000):
        decide(read_fields({"tres_per_node": f"compute:{units}"}), RULES, view, {}, "t")

    assert len(view.memo) <= 256
