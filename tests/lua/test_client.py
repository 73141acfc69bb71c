"""The call: one deadline, no leak, a breaker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lua.shim_host import SUCCESS, Behaviour, JobDesc, Slurmctld

REWRITE = {"v": 1, "set": {"gres": "gpu:a100:1,compute:8"}}


def ask(host: Slurmctld) -> bool:
    """Submit; whether the service's answer was applied."""
    job = JobDesc(tres_per_node="compute:8")
    assert host.submit(job) == SUCCESS
    return "gpu:a100" in str(job["tres_per_node"])


def silence(_: bytes) -> Iterator[tuple[float, bytes]]:
    yield 1000.0, b""


def trickle(_: bytes) -> Iterator[tuple[float, bytes]]:
    while True:
        yield 0.004, b" "


def flood(_: bytes) -> Iterator[tuple[float, bytes]]:
    while True:
        yield 0.0, b"x" * 10_000


def hang_up(_: bytes) -> Iterator[tuple[float, bytes]]:
    yield from ()


def half_a_line(_: bytes) -> Iterator[tuple[float, bytes]]:
    yield 0.0, b'{"v":1,"pass":tr'


@pytest.mark.parametrize("behaviour", [silence, trickle])
def test_no_behaviour_of_the_service_takes_longer_than_the_limit(
    behaviour: Behaviour,
) -> None:
    """The limit is one for connect, send and receive together."""
    host = Slurmctld(limit_ms=50)
    host.service.behaviour = behaviour
    start = host.service.clock

    assert not ask(host)
    assert host.service.clock - start == pytest.approx(0.05, abs=0.005)


@pytest.mark.parametrize("behaviour", [silence, trickle, flood, hang_up, half_a_line, None])
def test_every_failure_closes_its_socket_and_opens_the_breaker(
    behaviour: Behaviour | None,
) -> None:
    """Nothing is left behind, and it is told once."""
    host = Slurmctld()
    host.service.behaviour = behaviour

    assert [ask(host) for _ in range(3)] == [False] * 3
    assert (host.service.connects, host.service.open_sockets) == (1, 0)
    assert host.service.clock < 1000.06
    assert len(host.lines("error")) == 1


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_an_answer_in_pieces_is_put_together(size: int) -> None:
    """The end of the line ends the answer, not the end of the connection."""
    host = Slurmctld()
    line = b'{"v":1,"set":{"gres":"gpu:a100:1,compute:8"}}\n'

    def pieces(_: bytes) -> Iterator[tuple[float, bytes]]:
        for i in range(0, len(line), size):
            yield 0.0001, line[i : i + size]
        yield 1000.0, b""

    host.service.behaviour = pieces

    assert ask(host)


@pytest.mark.parametrize(("length", "applied"), [(65536, True), (65537, False)])
def test_an_answer_is_64_kib_at_most(length: int, applied: bool) -> None:
    """With its end of line."""
    host = Slurmctld()
    start = b'{"v":1,"set":{"gres":"gpu:a100:1,compute:8"},"x":"'
    host.service.answers(start + b"y" * (length - len(start) - 3) + b'"}\n')

    assert ask(host) is applied


@pytest.mark.parametrize("answer", [b"\n", b"{]\n", b"5\n", b"null\n", b'"x"\n', b"{}\n",
                                    b'{"v":2}\n', b'{"v":"1"}\n', b"\xff\x00\n"])  # fmt: skip
def test_what_is_no_answer_of_our_version_opens_the_breaker(answer: bytes) -> None:
    """Something else listens there."""
    host = Slurmctld()
    host.service.answers(answer)

    assert not ask(host)
    host.service.answers(REWRITE)
    assert not ask(host)
    assert host.service.connects == 1


def test_after_the_breakers_time_one_try_is_made_and_success_closes_it() -> None:
    """Opening and closing are one line each, whatever lies between."""
    host = Slurmctld(breaker_s=10)
    ask(host)
    host.service.clock += 9.9
    ask(host)
    assert host.service.connects == 1
    host.service.clock += 0.2
    assert not ask(host)
    assert not ask(host)
    assert host.service.connects == 2
    host.service.clock += 10.1
    host.service.answers(REWRITE)
    assert ask(host)
    assert ask(host)

    assert host.service.connects == 4
    (opened,) = (line for line in host.lines("error") if "no answer" in line)
    assert "/run/hpcmgr/submit.sock (connect: connection refused); next try in 10 s" in opened
    (closed,) = (line for line in host.lines("info") if "answers again" in line)
    assert "2 requests were not sent" in closed


def test_a_clock_set_back_neither_stretches_the_limit_nor_keeps_the_breaker_open() -> None:
    """Lua has the wall clock only."""
    host = Slurmctld()

    def set_back(_: bytes) -> Iterator[tuple[float, bytes]]:
        host.service.clock -= 5000
        yield 1000.0, b""

    host.service.behaviour = set_back
    assert not ask(host)
    assert host.service.clock < -3999 + 0.11
    host.service.clock -= 5000
    host.service.answers(REWRITE)
    assert ask(host)
