"""Lines between shim and service: whatever comes in, an answer goes out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcmgr.admit import Decision, Policy
from hpcmgr.errors import WireError
from hpcmgr.service.answers import Answers
from hpcmgr.service.held import is_unbound, parse_held
from hpcmgr.service.snapshot import Snapshot
from hpcmgr.service.wire import MAX_LINE, VersionError, answer_of, decode, encode, error_answer
from hpcmgr.submit.request import JobFields
from hpcmgr.submit.view import ClusterView, make_view
from tests.builders import A100, ASCEND, cluster, node, policy

RULES = policy(A100, ASCEND)
STATE = cluster(node("a01", gres={"gpu:a100": 2}))

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=12,
)


def answers(rules: Policy, view: ClusterView | None) -> Answers:
    snapshot = Snapshot(30.0, 1e12)
    if view is not None:
        snapshot.swap(view)
    return Answers(rules, snapshot, lambda uid, decision: None)


@pytest.fixture(name="server", scope="module")
def _server() -> Answers:
    return answers(RULES, make_view(STATE, RULES.library))


def line(**fields: object) -> bytes:
    return json.dumps({"v": 1, "op": "submit", "uid": 1, "job": {}, **fields}).encode()


def test_a_good_line_is_read() -> None:
    """Numbers may come as floats, as Lua writes them."""
    found = decode(line(uid=2001.0, job={"tres_per_node": "gres/compute:8", "min_nodes": 2.0}))

    assert found.uid == 2001
    assert found.fields.nodes == 2


def test_fields_of_a_newer_shim_are_left_out() -> None:
    """An unknown field is no error: nodes, shim and service are upgraded one after another."""
    assert decode(line(job={"new_field": [1]})).fields == JobFields({})


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'"x"',
        b"{",
        b"{}",
        b"[" * 100_000,
        line(v="1"),
        line(v=True),
        line(op="destroy"),
        line(uid="root"),
        line(uid=1e400),
        line(job=[]),
        line(job={"min_nodes": "2"}),
        line(job={"min_nodes": 1.5}),
        line(job={"tres_per_node": 5}),
        line(job={"batch": 1}),
        b" " * (MAX_LINE + 1),
    ],
)
def test_a_wrong_line_is_told_so(bad: bytes) -> None:
    """Each gets bad-request; none gets a decision."""
    with pytest.raises(WireError) as caught:
        decode(bad)

    assert error_answer(caught.value)["error_code"] == "bad-request"


@pytest.mark.parametrize("version", [0, 2, 99])
def test_another_version_is_named(version: int) -> None:
    """The shim then takes the service as away."""
    with pytest.raises(VersionError) as caught:
        decode(line(v=version))

    assert error_answer(caught.value)["error_code"] == "version"


@settings(max_examples=400)
@given(st.binary(max_size=300) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_line_is_without_an_answer(server: Answers, noise: bytes) -> None:
    """Fuzz: any bytes, any JSON."""
    answer = json.loads(encode(server.answer(noise)))

    assert answer["v"] == 1
    assert "error_code" in answer or "pass" in answer


@settings(max_examples=400)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "tres_per_node",
                "tres_per_task",
                "tres_per_job",
                "partition",
                "features",
                "exc_nodes",
                "min_nodes",
                "num_tasks",
                "cpus_per_task",
                "bitflags",
                "shared",
                "min_mem_per_node",
                "ntasks_per_node",
                "threads_per_core",
            ]
        ),
        st.integers(0, 1 << 33)
        | st.sampled_from(
            ["compute:8", "gres/compute:cuda:99,gres/vram:each:9", "gpu:2", "compute"]
        )
        | st.text(max_size=15),
        max_size=6,
    )
)
def test_no_job_makes_the_service_fail(server: Answers, job: dict[str, object]) -> None:
    """A decision, a refusal in words, or a wrong line; never "the service failed"."""
    answer = server.answer(line(job=job))

    assert answer.get("reason") != "the service failed"
    assert {"error_code", "error", "hold", "pass", "set"} & set(answer)


def test_without_a_recent_picture_the_service_says_hold() -> None:
    """No snapshot, no decision: the shim holds the job."""
    answer = answers(RULES, None).answer(line(job={"tres_per_node": "gres/compute:8"}))

    assert answer["hold"] is True


def test_forms_that_were_asked_for_are_worked_out_ahead() -> None:
    """Once a view, and those that are refused not at all; nothing is handed out or noted by it."""
    noted: list[Decision] = []
    snapshot = Snapshot(30.0, 1e12)
    snapshot.swap(make_view(STATE, RULES.library))
    asked = Answers(RULES, snapshot, lambda uid, decision: noted.append(decision))
    for request in ("compute:8", "compute:8", "compute:16", "compute:nothing:8", "gpu:a100:1"):
        asked.answer(line(job={"tres_per_node": f"gres/{request}"}))
    before = len(noted)
    fresh = make_view(STATE, RULES.library)
    snapshot.swap(fresh)
    granted = snapshot.current()

    assert [asked.prepare() for _ in range(4)] == [True, True, False, False]
    assert len(fresh.memo) == 2
    assert len(noted) == before
    assert snapshot.current() == granted


def test_a_decision_of_nothing_is_a_pass() -> None:
    """A job that is none of ours is left alone."""
    assert answer_of(Decision("t-1")) == {"trace": "t-1", "pass": True}


@given(JSON)
def test_no_admin_comment_makes_the_binder_fail(value: object) -> None:
    """Only SlurmUser writes it, but a half-written one must not stop the service."""
    parse_held("hpcmgr:" + json.dumps(value))
    parse_held(json.dumps(value))


@given(st.text(max_size=40))
def test_unbound_is_a_type_and_not_a_word_somewhere(text: str) -> None:
    """A job name or another GRES that holds the word is not ours."""
    assert is_unbound("gres/compute:unbound:8")
    assert not is_unbound("gres/unbound:8")
    is_unbound(text)
