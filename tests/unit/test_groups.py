"""Which tests share a worker."""

from __future__ import annotations

import pytest

from tests.conftest import group


@pytest.mark.parametrize(
    ("nodeid", "expected"),
    [
        ("tests/slurm/test_jobs.py::test_a[24.11]", "tests/slurm 24.11"),
        ("tests/slurm/test_door.py::test_b[x-26.05]", "tests/slurm 26.05"),
        ("tests/slurm/test_door.py::test_b[26.05-commands]", "tests/slurm 26.05"),
        ("tests/slurm/test_forms.py::test_c", "tests/slurm/test_forms.py"),
        ("tests/lightcluster/test_demo.py::test_d[24.11]", "tests/lightcluster/test_demo.py 24.11"),
        ("tests/unit/test_versions.py::test_e[24.11-26.05]", "tests/unit/test_versions.py"),
    ],
)
def test_tests_on_the_same_cluster_are_one_group(nodeid: str, expected: str) -> None:
    """A release's site is one for tests/slurm, one a file for the light cluster's own tests."""
    assert group(nodeid) == expected
