"""Real files of the corpus: hpcmgr's rules say what real Slurm says. All of them, with the table:
``python -m tests.corpus_verdicts``."""

from __future__ import annotations

import pytest

from lightcluster import LightCluster, NodeSpec
from lightcluster.testing import require
from tests.corpus_verdicts import corpus
from tests.corpus_verdicts.__main__ import look, read_cases
from tests.corpus_verdicts.judge import judge
from tests.slurm.conftest import RELEASES

pytestmark = pytest.mark.slurm

# One of each kind: template, mps without gpu, good, file-less, thread siblings, links, list of
# files, old keys, old plugin, blocks, unknown nodes, empty, two parents.
SAMPLE = (
    "gres/005", "gres/007", "gres/012", "gres/030", "gres/035", "gres/071", "gres/099",
    "slurmconf/007", "slurmconf/020", "topology/001", "topology/027", "topology/029",
    "topology/036",
)  # fmt: skip


@pytest.mark.parametrize("release", RELEASES)
def test_rules_say_what_slurm_says(release: str) -> None:
    """Stricter only where Slurm is silent about a fault."""
    require()
    if not corpus().is_dir():
        pytest.skip(f"no corpus in {corpus()} (set HPCMGR_CORPUS)")
    with LightCluster(release, [NodeSpec("n1")]) as machine:
        found = look(machine, read_cases(SAMPLE))

    rows = {name: judge(case) for name, case in found.items()}
    assert set(rows) == set(SAMPLE)
    assert {name: row for name, row in rows.items() if not row.agree} == {}
