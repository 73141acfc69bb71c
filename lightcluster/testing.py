"""For test suites that use the light cluster."""

from __future__ import annotations

import os

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
