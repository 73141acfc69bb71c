"""Asking the service on its own socket for a cycle of late binding; root and SlurmUser may."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from hpcmgr.errors import ServiceError
from hpcmgr.service.sockets import control_path

_SECONDS = 300.0


def ask_cycle(path: Path) -> list[dict[str, Any]]:
    """One row for every waiting job, once the cycle is over; of the service that answers at
    ``path``.

    Raises:
        ServiceError: nobody answers there, this user may not ask, or the cycle failed.
    """
    path = control_path(path)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_SECONDS)
    try:
        with connection, connection.makefile("rb") as answers:
            connection.connect(str(path))
            connection.sendall(b'{"v":1,"op":"rebind"}\n')
            answer = json.loads(answers.readline())
    except PermissionError as error:
        raise ServiceError(
            f"{path}: only root and SlurmUser may ask for a cycle", "--dry-run is for everybody"
        ) from error
    except TimeoutError as error:
        raise ServiceError(f"the service gave no answer within {_SECONDS:g} s") from error
    except OSError as error:
        raise ServiceError(
            f"the service does not answer on {path}: {error.strerror or error}",
            "does 'hpcmgr serve' run on this host? --dry-run needs no service",
        ) from error
    except ValueError as error:
        raise ServiceError("the service's answer was not understood") from error
    if "jobs" not in answer:
        raise ServiceError(f"the cycle failed: {answer.get('error') or answer.get('detail')}")
    jobs: list[dict[str, Any]] = answer["jobs"]
    return jobs
