"""For test suites that use the light cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from lightcluster import needs
from lightcluster.errors import NeedsError


def require() -> None:
    """Skip the test, with the reason, where no cluster can run; in CI (CI=true) fail it."""
    try:
        needs.ensure()
    except NeedsError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must be able to run Slurm: {error}", pytrace=False)
        pytest.skip(str(error))


def quick(action: Callable[[], object], limit: float, tries: int = 5) -> bool:
    """Whether ``action`` can take less than ``limit`` seconds: others may use the machine too."""
    for _ in range(tries):
        started = time.monotonic()
        action()
        if time.monotonic() - started < limit:
            return True
    return False
