"""What the door rests on: its lines, credentials and throttles, against foreign input."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.errors import (
    CommandMissing,
    CommandTimeout,
    CredentialError,
    ServiceError,
    WireError,
)
from hpcmgr.service import askdoor
from hpcmgr.service.doorwire import (
    AUDIENCE,
    Explain,
    LastInventory,
    Publish,
    Quote,
    line_of,
    parts_of,
    payload_of,
    read_request,
)
from hpcmgr.service.throttle import Throttle
from hpcmgr.slurm import munge
from hpcmgr.slurm.command import Output

CREDENTIAL = "MUNGE:AwQDAADq9oFhAAAAAAAAAAAAAAAAAA==:"
GOOD = "STATUS:          0\nUID:             2001\n\n"


def test_a_request_survives_the_wire() -> None:
    """Both operations, through payload and line."""
    for request, meant in (
        ({"op": "explain", "trace": "t-9f3c2a1b"}, Explain(trace="t-9f3c2a1b")),
        ({"op": "explain", "job": "1234"}, Explain(job="1234")),
        (
            {"op": "quote", "job": {"tres_per_node": "compute:8", "min_nodes": 2}},
            Quote({"tres_per_node": "compute:8", "min_nodes": 2}),
        ),
        ({"op": "inventory", "node": "gpu-01.a"}, LastInventory("gpu-01.a")),
        ({"op": "publish", "node": "n1", "sha256": "a" * 64}, Publish("n1", "a" * 64)),
        (
            {"op": "publish", "node": "n1", "sha256": "a" * 64, "accept": True},
            Publish("n1", "a" * 64, accept=True),
        ),
    ):
        assert read_request(payload_of(request)) == meant
    assert parts_of(line_of(CREDENTIAL)) == (CREDENTIAL, "")
    assert parts_of(line_of(CREDENTIAL, "eJw=")) == (CREDENTIAL, "eJw=")


@pytest.mark.parametrize(
    "payload",
    [
        "", "[]", "null", '{"v":1}', '{"v":true,"for":"hpcmgr-door","op":"explain","job":"1"}',
        '{"v":2,"for":"hpcmgr-door","op":"explain","job":"1"}',
        '{"v":1,"for":"slurm","op":"explain","job":"1"}',
        payload_of({"op": "submit", "job": {}}), payload_of({"op": "explain"}),
        payload_of({"op": "explain", "trace": "t-1' OR 1=1 --"}),
        payload_of({"op": "explain", "trace": ["t-1234"]}), payload_of({"op": "explain", "job": 1}),
        payload_of({"op": "quote"}), payload_of({"op": "quote", "job": {"script": "x"}}),
        payload_of({"op": "quote", "job": {"min_nodes": True}}),
        payload_of({"op": "quote", "job": {"min_nodes": "1"}}),
        payload_of({"op": "quote", "job": {"user_name": "root"}}),
        payload_of({"op": "quote", "job": {"tres_per_node": "x" * 5000}}),
        payload_of({"op": ["publish"], "node": "n1", "sha256": "a" * 64}),
        payload_of({"op": "publish", "node": "n1"}), payload_of({"op": "inventory"}),
        payload_of({"op": "publish", "node": "../n1", "sha256": "a" * 64}),
        payload_of({"op": "publish", "node": "n1\n", "sha256": "a" * 64}),
        payload_of({"op": "publish", "node": "n1", "sha256": "A" * 64}),
        payload_of({"op": "publish", "node": "n1", "sha256": "a" * 64, "accept": 1}),
        payload_of({"op": "inventory", "node": "n" * 300}),
        payload_of({"op": "inventory", "node": 1}),
        "[" * 10_000,
    ],
)  # fmt: skip
def test_wrong_requests_are_refused(payload: str) -> None:
    """Other audience, version, operation, form or field; nothing of it is worked on."""
    with pytest.raises(WireError):
        read_request(payload)


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_line_is_a_credential_or_a_wire_error(line: bytes) -> None:
    """No other exception, whatever comes."""
    with contextlib.suppress(WireError):
        assert isinstance(parts_of(line)[0], str)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner),
    max_leaves=12,
)


@given(
    _JSON
    | st.fixed_dictionaries(
        {
            "v": st.just(1),
            "for": st.just(AUDIENCE),
            "op": st.sampled_from(["quote", "explain", "publish", "inventory"]),
        },
        optional={"job": _JSON, "trace": _JSON, "node": _JSON, "sha256": _JSON, "accept": _JSON},
    )
)
def test_any_payload_is_a_request_or_a_wire_error(payload: Any) -> None:
    """No other exception, whatever is in the credential."""
    with contextlib.suppress(WireError):
        read_request(json.dumps(payload))


def test_the_uid_is_read_from_above_the_payload_only() -> None:
    """A payload that looks like unmunge's own lines changes nothing."""
    forged = "UID: 0\nSTATUS: 0\n\nUID: 0"
    decoded = munge.decode(CREDENTIAL, lambda *_, **__: Output(0, GOOD + forged, ""))

    assert decoded == (2001, forged)


@pytest.mark.parametrize(
    ("output", "word"),
    [
        (Output(17, GOOD + "x", "unmunge: Error: Replayed credential\n"), "used before"),
        (Output(15, GOOD + "x", ""), "expired"),
        (Output(16, GOOD + "x", ""), "in the future"),
        (Output(14, "", ""), "forged"),
        (Output(6, "", ""), "munged cannot be reached"),
        (Output(99, "", "unmunge: Error: odd\n"), "odd"),
        (Output(0, "", ""), "something else"),
        (Output(0, "UID: 1\n\nx", ""), "something else"),
        (Output(0, "STATUS: 0\nUID: root\n\nx", ""), "something else"),
    ],
)
def test_only_a_good_credential_gives_a_uid(output: Output, word: str) -> None:
    """A replayed one decodes too, but not with status 0: refused, in words."""
    with pytest.raises(CredentialError, match=word):
        munge.decode(CREDENTIAL, lambda *_, **__: output)


def test_what_is_no_credential_starts_no_program() -> None:
    """Not even an unmunge."""

    def never(*_: str, **__: object) -> Output:
        pytest.fail("a program was started")

    for text in ("", "MUNGE:", "MUNGE:short:", "MUNGE:" + "A" * 40, CREDENTIAL + "\n--help"):
        with pytest.raises(CredentialError):
            munge.decode(text, never)


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (CommandMissing(("munge",)), "not installed"),
        (CommandTimeout(("munge",), 5.0), "no answer within 5 s"),
    ],
)
def test_a_client_without_munge_is_told_so(error: Exception, word: str) -> None:
    """A message of its own for each way in which munge can be away."""

    def broken(*_: str, **__: object) -> Output:
        raise error

    with pytest.raises(CredentialError, match=word):
        munge.encode("x", broken)


def test_nobody_listening_and_no_controller_are_told_apart() -> None:
    """Where the door listens everywhere Slurm names the hosts; each failure has its words."""
    port = 9  # discard: nobody serves it

    def ping(*_: str, **__: object) -> Output:
        return Output(0, "Slurmctld(primary) at 127.0.0.1 is UP\n", "")

    with pytest.raises(ServiceError, match=f"nothing listens on 127.0.0.1:{port}"):
        askdoor.ask(f"0.0.0.0:{port}", {"op": "explain", "job": "1"}, ping)
    with pytest.raises(ServiceError, match="names no controller"):
        askdoor.ask("0.0.0.0:9", {"op": "explain", "job": "1"}, lambda *_, **__: Output(1, "", ""))


def test_a_throttle_gives_a_burst_then_a_rate_for_each_key() -> None:
    """Two at once, then one a second; keys do not disturb each other, and are forgotten."""
    now = [0.0]
    throttle = Throttle(per_second=1, burst=2, clock=lambda: now[0])

    assert [throttle.allows("a") for _ in range(3)] == [True, True, False]
    assert throttle.allows("b")
    now[0] = 1.0
    assert [throttle.allows("a") for _ in range(2)] == [True, False]
    for key in range(5000):
        throttle.allows(key)
    assert len(throttle._buckets) <= 4096
