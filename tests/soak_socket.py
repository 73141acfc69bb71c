"""Lines without number at the socket of a service: ``python -m tests.soak_socket --seed 1``.

A real ``hpcmgr serve`` with a small cluster behind it gets good lines, damaged ones and noise. Each
must be answered by one good line; the service lives on, logs no traceback, and no answer gives
units without a device. A line depends on the seed and its number alone: ``--case N`` shows it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from bench.service_latency import wait_for, write_cluster

WORDS = (
    "gres/compute:8", "gres/compute", "gres/compute:t1:3", "gres/vram:80G", "gpu:t2:2", "gpu",
    "compute:-8", "compute:99999999999999999999", "compute=8", "gres/compute:unbound:8", "main",
    "gres/vram:each:40G", "gpu:(null):1", "n[00001-00009]", "n[1-", "a&b|c", "", "é", "\x00",
    "x" * 3000,
)  # fmt: skip
TEXTS = (
    "tres_per_node", "tres_per_task", "tres_per_job", "tres_per_socket", "partition", "features",
    "exc_nodes", "req_nodes", "cpus_per_tres", "mem_per_tres", "array_inx", "account", "qos",
    "comment", "admin_comment", "reservation",
)  # fmt: skip
NUMBERS = (
    "min_nodes", "max_nodes", "num_tasks", "cpus_per_task", "bitflags", "shared", "time_limit",
    "min_mem_per_node", "ntasks_per_node", "sockets_per_node", "pn_min_cpus",
)  # fmt: skip
CLIENTS = 8
_GOOD: list[object] = [0, 1, 2, 8, 64, 65534, 4294967294]
_BAD: list[object] = [-1, 1 << 40, 1e300, 2.5, None, True]


def line(seed: int, number: int) -> bytes:
    """The line of that case; at most 70,000 bytes."""
    dice = random.Random(f"{seed}/{number}")
    text = json.dumps(_request(dice)).encode()
    match dice.randrange(10):
        case 0:
            return dice.randbytes(dice.randrange(200)).replace(b"\n", b" ")
        case 1:
            return text[: dice.randrange(len(text))]
        case 2:
            place = dice.randrange(len(text))
            return text[:place] + dice.randbytes(3).replace(b"\n", b" ") + text[place:]
        case 3 if not dice.randrange(50):
            return text + b" " * 70_000
    return text


def _request(dice: random.Random) -> object:
    job: dict[str, object] = {
        name: ",".join(dice.sample(WORDS, dice.randrange(1, 3)))
        for name in dice.sample(TEXTS, dice.randrange(4))
    }
    job |= {
        name: dice.choice(_GOOD if dice.randrange(9) else _BAD)
        for name in dice.sample(NUMBERS, dice.randrange(3))
    }
    if dice.randrange(3):
        job["tres_per_node"] = dice.choice(WORDS)
    request: dict[str, object] = {"v": 1, "op": "submit", "uid": dice.choice([0, 1000]), "job": job}
    if not dice.randrange(8):
        request[dice.choice(["v", "op", "uid", "job", "new"])] = dice.choice(
            [None, -1, [], {}, "2"]
        )
    return request


def fault(answer: bytes) -> str:
    """What is wrong with an answer, "" if nothing is."""
    if not answer.endswith(b"\n") or answer.count(b"\n") != 1:
        return "is not one line"
    try:
        told = json.loads(answer)
    except ValueError:
        return "is no JSON"
    if not isinstance(told, dict) or told.get("v") != 1:
        return "is not of version 1"
    fields = told.get("set")
    if isinstance(fields, dict):
        words = ",".join(str(value) for name, value in fields.items() if name != "admin_comment")
        if "compute" in words and "gpu:" not in words:
            return "gives units without a device"
    return ""


def ask(path: Path, text: bytes) -> bytes:
    """One line to the service; what comes back, until the service closes."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(path))
        pieces = []
        # An overlong line is answered before it is read to its end.
        with contextlib.suppress(BrokenPipeError):
            connection.sendall(text + b"\n")
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                pieces.append(piece)
        return b"".join(pieces)


class Soak:
    """Clients at work; ``faults`` are told with their case."""

    def __init__(self, path: Path, seed: int, lines: int) -> None:
        self.path, self.seed, self.lines = path, seed, lines
        self.faults: list[str] = []
        self.kinds: Counter[str] = Counter()

    def run(self) -> None:
        """All lines, over several clients."""
        clients = [threading.Thread(target=self._client, args=(i,)) for i in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()

    def _client(self, first: int) -> None:
        for number in range(first, self.lines, CLIENTS):
            text = line(self.seed, number)
            try:
                answer = ask(self.path, text)
            except OSError as error:
                self.faults.append(f"case {number}: {error}")
                return
            wrong = fault(answer) if text or answer else ""
            if wrong:
                self.faults.append(f"case {number}: the answer {wrong}: {answer[:200]!r}")
            self.kinds[_kind(answer)] += 1


def _kind(answer: bytes) -> str:
    try:
        told = json.loads(answer)
    except ValueError:
        return "none"
    return next((k for k in ("set", "error_code", "error", "hold", "pass") if k in told), "other")


def soak(seed: int, lines: int) -> tuple[list[str], Counter[str], float, str]:
    """Faults, answers by kind, seconds, and the service's log."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_cluster(folder, 50, 5)
        log = (folder / "log").open("w+")
        process = subprocess.Popen(
            [sys.executable, "-m", "hpcmgr", "--config", str(folder / "site.yaml"), "serve"],
            env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}, stderr=log,
        )  # fmt: skip
        try:
            wait_for(folder / "submit.sock")
            work, started = Soak(folder / "submit.sock", seed, lines), time.monotonic()
            work.run()
            if process.poll() is not None:
                work.faults.append(f"the service ended with {process.returncode}")
        finally:
            process.terminate()
            process.wait(20)
        log.seek(0)
        said = log.read()
    work.faults += ["the service's log has a traceback"] * ("Traceback" in said)
    return work.faults, work.kinds, time.monotonic() - started, said


def main() -> None:
    """Run and tell; exit code 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--case", type=int, help="show this line only")
    options = parser.parse_args()
    if options.case is not None:
        print(line(options.seed, options.case))
        return
    faults, kinds, seconds, said = soak(options.seed, options.lines)
    for text in faults[:20]:
        print(text)
    if "Traceback" in said:
        print(said[said.index("Traceback") :][:4000])
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(
        f"seed {options.seed}: {options.lines} lines, {seconds:.0f} s, {len(faults)} faults: {told}"
    )
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
