"""Candidates as rows."""

from __future__ import annotations

from hpcmgr.cli.candidates import candidate_rows, term_rows
from hpcmgr.service.journal import describe
from tests.builders import A100, ASCEND, T4, cluster, node, policy, submit

STATE = cluster(
    node("a1", gres={"gpu:a100": 1}, used={"gpu:a100": 1}),
    node("n1", gres={"npu:ascend910b3": 1}),
    node("t1", gres={"gpu:t4": 1}),
)
RECORD = describe(submit(STATE, policy(A100, ASCEND, T4), "compute:8"))


def test_every_candidate_tells_why_it_lost() -> None:
    """Weighed gaps, the heaviest first; the refused their reason."""
    chosen, lost, refused = candidate_rows(RECORD)

    assert chosen[:2] == ["ascend910b3", "1 x npu:ascend910b3"]
    assert chosen[-1] == "chosen"
    assert lost[0] == "a100-80g"
    assert lost[-1] == "free_now -4.00"
    assert refused[-1] == "would take 4 devices, at most 1 for this request"


def test_every_term_is_shown_with_its_weight_value_and_unit() -> None:
    """One row a term; without a workload there is no speed."""
    head, *rows = term_rows(RECORD)
    shown = {row[0]: row for row in rows}

    assert head == ["term", "weight", "ascend910b3", "a100-80g", "what it measures"]
    assert shown["free_now"] == ["free_now", "4", "1.00", "0.00", "1 if it could start at once"]
    assert "speed" not in shown


def test_a_record_of_an_older_journal_is_shown_too() -> None:
    """It had values alone."""
    older = {
        "candidates": [
            {"profile": "t4", "gres": "gpu:t4", "devices": 2, "units": 4, "vram_gib": 32,
             "nodes": 1, "score": 1.0, "terms": {"fit": 1.0}},
            {"profile": "a100-80g", "gres": "gpu:a100", "devices": 1, "units": 8, "vram_gib": 80,
             "nodes": 1, "score": 0.5, "terms": {"fit": 0.5}},
        ]
    }  # fmt: skip

    assert [row[-1] for row in candidate_rows(older)] == ["chosen", "fit -0.50"]
    assert term_rows(older) == []
