"""Asking the service at its door: an ordinary user from a login node, root of a compute node."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable
from typing import Any

from hpcmgr.errors import ServiceError
from hpcmgr.service.doorwire import line_of, payload_of
from hpcmgr.settings import split_address
from hpcmgr.slurm import munge
from hpcmgr.slurm.command import Output, run

Runner = Callable[..., Output]


class Busy(ServiceError):
    """The service is there but had no time: worth another try."""


_CONNECT_SECONDS, _ANSWER_SECONDS = 3.0, 10.0
_LONGEST = 8 << 20
_EVERYWHERE = frozenset({"0.0.0.0", "::", "*"})  # noqa: S104 - what an address may say


def ask(
    door: str, request: dict[str, object], runner: Runner = run, body: str = ""
) -> dict[str, Any]:
    """Send one request and return the answer.

    ``door`` is ``service.door``; where that listens everywhere, Slurm is asked for its controllers.

    Raises:
        ServiceError: nobody answers there, or the answer is a refusal; says which. Busy: it may be
            better in a moment.
        CredentialError: this user cannot prove here who he is.
    """
    host, port = split_address(door)
    hosts = _controllers(runner) if host in _EVERYWHERE else [host]
    with _connect(hosts, port) as connection:
        # Made last: a credential lives for a short time and is good for one request.
        connection.sendall(line_of(munge.encode(payload_of(request), runner), body))
        try:
            line = _receive(connection)
        except TimeoutError as error:
            raise Busy(
                f"the service's door gave no answer within {_ANSWER_SECONDS:g} s",
                "it may be busy: try again in a moment",
            ) from error
        except OSError as error:
            raise ServiceError(f"the service's door hung up: {error.strerror or error}") from error
    return _read_answer(line)


def _controllers(runner: Runner) -> list[str]:
    said = runner("scontrol", "ping", check=False, timeout=_ANSWER_SECONDS).stdout
    hosts = re.findall(r" at (\S+) is ", said)
    if not hosts:
        raise ServiceError(
            "'scontrol ping' names no controller, so the service's door is not known",
            "name its host in site.yaml: service.door",
        )
    return hosts


def _connect(hosts: list[str], port: int) -> socket.socket:
    """The first of the hosts that answers; with several controllers one runs the service."""
    problems = []
    for host in hosts:
        try:
            return socket.create_connection((host, port), timeout=_CONNECT_SECONDS)
        except TimeoutError:
            problems.append(f"{host}:{port} gave no answer within {_CONNECT_SECONDS:g} s")
        except ConnectionRefusedError:
            problems.append(f"nothing listens on {host}:{port}")
        except OSError as error:
            problems.append(f"{host}:{port}: {error.strerror or error}")
    raise ServiceError(
        f"the service's door cannot be reached: {'; '.join(problems)}",
        "does 'hpcmgr serve' run there, with this service.door in its site.yaml?",
    )


def _receive(connection: socket.socket) -> bytes:
    limit = time.monotonic() + _ANSWER_SECONDS
    parts, size = [], 0
    while size < _LONGEST:
        connection.settimeout(max(0.01, limit - time.monotonic()))
        part = connection.recv(1 << 16)
        if not part:
            break
        parts.append(part)
        size += len(part)
        if part.endswith(b"\n"):
            break
        if time.monotonic() > limit:
            raise TimeoutError
    return b"".join(parts)


def _read_answer(line: bytes) -> dict[str, Any]:
    if not line:
        raise Busy(
            "the service's door hung up without a word", "it may be full: try again in a moment"
        )
    try:
        answer = json.loads(line)
    except ValueError as error:
        raise ServiceError("the service's door answered something that is no JSON") from error
    if not isinstance(answer, dict):
        raise ServiceError("the service's door answered something else than expected")
    if "error_code" in answer:
        kind = Busy if answer["error_code"] == "busy" else ServiceError
        raise kind(
            f"the service refused: {answer.get('detail') or answer['error_code']}",
            str(answer.get("hint") or ""),
        )
    return answer
