"""The service's sockets on its own host: their owner alone may use them."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from hpcmgr.errors import ServiceError


def control_path(path: Path) -> Path:
    """Where the service that answers at ``path`` takes an administrator's commands."""
    return path.with_name(path.name + ".control")


def listen(path: Path) -> socket.socket:
    """A listening socket that only its owner may use.

    Raises:
        ServiceError: another service answers there, or the place cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ServiceError(f"{path.parent}: {error.strerror}", "set service.socket") from error
    if path.exists():
        probe = socket.socket(socket.AF_UNIX)
        with contextlib.closing(probe), contextlib.suppress(OSError):
            probe.settimeout(1)
            probe.connect(str(path))
            raise ServiceError(
                f"another service answers on {path}", "stop it first, or set service.socket"
            )
        path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError as error:
        raise ServiceError(f"{path}: {error.strerror}", "set service.socket") from error
    finally:
        os.umask(before)
    listener.listen(512)
    return listener
