"""One reference site a release for the whole session, set back before every test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lightcluster.site import ReferenceSite
from lightcluster.testing import require

RELEASES = os.environ.get("HPCMGR_SLURM", "24.11,26.05").split(",")
MACHINES = {"mix01": "mixed", "npu01": "npu8", "t401": "t4x4", "t402": "t4x4"}


@pytest.fixture(scope="session", params=RELEASES)
def running_site(request: pytest.FixtureRequest) -> Iterator[ReferenceSite]:
    """The site; skipped with the reason where it cannot run, except in CI, where it must."""
    require()
    site = ReferenceSite(request.param, MACHINES, accounting=True)
    try:
        site.start()
        site.run(["install", "-d", "-m", "1777", "/shared/out"], check=True)
        yield site
    finally:
        site.stop()


@pytest.fixture
def site(running_site: ReferenceSite) -> ReferenceSite:
    """The site with no jobs, all nodes idle and the service running."""
    running_site.reset()
    if running_site.service is None or not running_site.service.alive:
        running_site.start_service()
        running_site.close_breaker()
    return running_site
