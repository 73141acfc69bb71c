"""The process that answers: a fork with sockets of its own, and the link to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcmgr.service import answerer
from hpcmgr.service.answerer import start
from hpcmgr.service.sockets import listen
from hpcmgr.service.wire import MAX_LINE
from hpcmgr.submit.expect import Expectation
from hpcmgr.submit.view import ClusterView, make_view
from tests.builders import A100, ASCEND, cluster, node, policy

RULES = policy(A100, ASCEND, classes={"default": {"prefer": ["gpu"]}})
CHECKOUT = Path(__file__).parents[3]


def view() -> ClusterView:
    """Two GPUs, eight NPUs; taken now."""
    state = cluster(node("a01", gres={"gpu:a100": 2}), node("n01", gres={"npu:ascend910b3": 8}))
    return make_view(replace(state, taken=time.monotonic()), RULES.library)


class Service:
    """An answering process, and what it has told so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.link = start(RULES, listen(path))
        self.granted: list[Any] = []
        self.decided: list[dict[str, Any]] = []
        self.listening = threading.Thread(target=self._listen)
        self.listening.start()

    def _listen(self) -> None:
        self.link.listen(
            {
                "granted": lambda when, devices: self.granted.append(devices),
                "decided": lambda uid, request, record: self.decided.append(record),
            }
        )

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        connection.connect(str(self.path))
        return connection

    def say(self, *pieces: bytes, end: bool = False) -> dict[str, Any]:
        with self.connect() as connection:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(0.01)
            if end:
                connection.shutdown(socket.SHUT_WR)
            answer: dict[str, Any] = json.loads(connection.makefile("rb").readline())
            return answer

    def submit(self, request: str) -> dict[str, Any]:
        return self.say(submission(request))

    def until(self, condition: Callable[[], object]) -> None:
        limit = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < limit
            time.sleep(0.005)

    def show(self, seen: ClusterView) -> None:
        """Send a view and wait until it is answered from."""
        self.link.swapped(seen)
        self.until(lambda: "hold" not in self.say(submission("")))

    def expect(self) -> None:
        """Send what a cycle found and wait until it counts."""
        self.link.expected(Expectation({"npu:ascend910b3": ((0.0, 8),)}))
        line = submission("gres/compute:ascend910b3:1", time_limit=60)
        self.until(
            lambda: (
                self.say(line)
                and self.decided
                and "finish" in self.decided[-1]["candidates"][0]["terms"]
            )
        )


def submission(request: str, **more: object) -> bytes:
    job = {"tres_per_node": request, **more} if request else {}
    return json.dumps({"v": 1, "op": "submit", "uid": 7, "job": job}).encode() + b"\n"


@pytest.fixture(name="service")
def _service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path / "s")
    yield service
    service.link.close()
    service.listening.join(10)


def test_without_a_view_it_says_hold_with_one_it_answers(service: Service) -> None:
    """And with a later one from that."""
    assert service.submit("gres/compute:8")["hold"] is True
    service.show(view())

    answer = service.submit("gres/compute:8")
    assert answer["set"]["gres"] == "gpu:a100:1,compute:8,vram:80"


def test_the_other_process_is_told(service: Service) -> None:
    """Of every decision with all its candidates, and of every device that was handed out."""
    service.show(view())
    service.submit("gres/compute:8")
    service.submit("gres/compute:nonsense:8")
    service.until(lambda: len(service.decided) == 2)

    bound, refused = service.decided
    assert bound["binding"]["gres"] == "gpu:a100"
    assert [c["gres"] for c in bound["candidates"]] == ["gpu:a100", "npu:ascend910b3"]
    assert "nonsense" in refused["error"]
    assert service.granted == [[("gpu:a100", 1)]]


def test_devices_handed_out_by_either_process_count(service: Service) -> None:
    """The binder's and the mover's as well as its own."""
    service.show(view())
    service.link.granted(time.monotonic(), [("gpu:a100", 1)])
    service.expect()  # comes behind what was granted
    service.decided.clear()
    for _ in range(2):
        service.submit("gres/compute:8")
    service.until(lambda: len(service.decided) == 2)

    terms = [
        {c["gres"]: c["terms"]["free_now"] for c in record["candidates"]}["gpu:a100"]
        for record in service.decided
    ]
    assert terms == [1.0, 0.0]


def test_what_late_binding_expects_counts(service: Service) -> None:
    """The term finish stands in the record once a cycle has been told."""
    service.show(view())
    service.expect()


def test_a_line_in_pieces_is_a_line(service: Service) -> None:
    """A slow writer is waited for, and delays nobody."""
    service.show(view())
    line = submission("gres/compute:8")
    with service.connect() as slow:
        slow.sendall(line[:20])
        assert "set" in service.submit("gres/compute:8")
        slow.sendall(line[20:])
        assert "set" in json.loads(slow.makefile("rb").readline())
    assert "set" in service.say(*(line[i : i + 30] for i in range(0, len(line), 30)))


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"x" * (MAX_LINE + 2), "bad-request"),
        (b"{}\n", "bad-request"),
        (b'{"v":2}\n', "version"),
        (b"\xff\xfe\n", "bad-request"),
    ],
)
def test_what_is_no_line_is_told_so(service: Service, line: bytes, code: str) -> None:
    """And the next one is answered."""
    service.show(view())
    assert service.say(line)["error_code"] == code
    assert service.say(submission("")[:-1], end=True)["pass"] is True
    with service.connect() as nobody:
        nobody.shutdown(socket.SHUT_WR)
        assert nobody.recv(1) == b""
    assert "set" in service.submit("gres/compute:8")


def test_callers_who_leave_do_no_harm(service: Service) -> None:
    """With their line half said, or without waiting for the answer."""
    service.show(view())
    for said in (b"", b'{"v"', submission("gres/compute:8")):
        for _ in range(20):
            with service.connect() as connection:
                connection.sendall(said)
    assert "set" in service.submit("gres/compute:8")


def test_a_silent_caller_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or thousands of them would use up its files."""
    monkeypatch.setattr(answerer, "_CLIENT_SECONDS", 0.2)
    service = Service(tmp_path / "s")
    try:
        with service.connect() as silent:
            silent.sendall(b'{"v"')
            assert silent.recv(1) == b""
    finally:
        service.link.close()
        service.listening.join(10)


def test_many_callers_at_once(service: Service) -> None:
    """All are answered."""
    service.show(view())
    callers = [service.connect() for _ in range(200)]
    for each in callers:
        each.sendall(submission("gres/compute:8"))
    answers = [json.loads(each.makefile("rb").readline()) for each in callers]
    for each in callers:
        each.close()

    assert all("set" in answer for answer in answers)
    service.until(lambda: len(service.decided) == 200)
    assert len({record["trace"] for record in service.decided}) == 200


def test_it_ends_with_the_link(service: Service) -> None:
    """Nothing is left, and what tells it something after that does no harm."""
    pid = service.link._pid
    os.kill(pid, signal.SIGTERM)  # a service manager's; the other process decides
    os.kill(pid, signal.SIGINT)
    assert service.submit("gres/compute:8")["hold"] is True
    service.link.close()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ConnectionRefusedError):
        service.connect()
    service.link.granted(0.0, [])


def test_its_death_is_noticed(service: Service) -> None:
    """Whoever listens to it hears that it is gone."""
    os.kill(service.link._pid, signal.SIGKILL)
    service.listening.join(10)

    assert not service.listening.is_alive()


CALLER = """
import sys, time
from pathlib import Path
from hpcmgr.service.answerer import start
from hpcmgr.service.sockets import listen
from tests.builders import A100, policy
link = start(policy(A100), listen(Path(sys.argv[1])))
print(link._pid, flush=True)
time.sleep(60)
"""


def test_it_does_not_outlive_the_other_process(tmp_path: Path) -> None:
    """Even one that was killed: the next service must find the socket free."""
    path = tmp_path / "s"
    argv = [sys.executable, "-c", CALLER, str(path)]
    with subprocess.Popen(argv, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        pid = int(caller.stdout.readline())
        caller.kill()
    limit = time.monotonic() + 10
    while Path(f"/proc/{pid}/fd").exists() and any(Path(f"/proc/{pid}/fd").iterdir()):
        assert time.monotonic() < limit
        time.sleep(0.01)

    listen(path).close()
