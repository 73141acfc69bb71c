"""A hundredth of the soak of submissions (tests/soak_submissions.py), in every run."""

from __future__ import annotations

import pytest

from lightcluster.site import ReferenceSite
from tests.soak_submissions import soak

pytestmark = pytest.mark.slurm


@pytest.mark.timeout(900)
def test_a_hundred_submissions_while_the_service_fails(site: ReferenceSite) -> None:
    """None lost, none unbound at the end, none runs without a device."""
    tally = soak(site, seed=int(site.release.replace(".", "")), submissions=100)

    assert not tally.wrong, "\n".join([*tally.told, str(tally)])
    assert tally.held
    assert tally.started
