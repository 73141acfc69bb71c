"""A hundredth of the soak of the socket (tests/soak_socket.py), in every run."""

from __future__ import annotations

import pytest

from tests.soak_socket import fault, line, soak


def test_ten_thousand_lines_are_answered_without_a_fault() -> None:
    """Every line gets one answer, the service lives, no traceback, no units without a device."""
    faults, kinds, _, said = soak(seed=2, lines=10_000)

    assert not faults, "\n".join(faults) + said[-2000:]
    assert kinds["set"] > 100
    assert kinds["error_code"] > 100


def test_a_case_is_repeatable() -> None:
    """By seed and number alone."""
    assert line(1, 7) == line(1, 7) != line(2, 7)


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (b'{"v":1,"pass":true}\n', ""),
        (b"", "is not one line"),
        (b"x\n", "is no JSON"),
        (b'{"v":2}\n', "is not of version 1"),
        (b'{"v":1,"set":{"gres":"gpu:a:1,compute:8"}}\n', ""),
        (b'{"v":1,"set":{"gres":"compute:8"}}\n', "gives units without a device"),
    ],
)
def test_what_is_a_fault(answer: bytes, wrong: str) -> None:
    """The check itself can fail."""
    assert fault(answer) == wrong
