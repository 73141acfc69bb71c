"""Words of site.yaml that no profile has are told, all at once, with what may be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmgr.errors import ConfigError
from hpcmgr.profile.site import library_of
from hpcmgr.settings import load_site

WRONG = """\
classes:
  train:
    {kinds: [gpuu], runtimes: [cuda, roc], prefer: [npu, a100, zz], needs: {cann: ">=8", x: "<2"}}
  both: {groups: [{profiles: [a100-80]}, {vendors: [huawei]}]}
sharing: {t5: {shard: 2}}
nodes: [{nodes: "n[1-2]", sharing: {t4: {shard: 2}, q: null}}]
"""


def test_every_word_that_no_profile_has_is_told(tmp_path: Path) -> None:
    """A class that names one would allow nothing, and nobody would know why."""
    file = tmp_path / "site.yaml"
    file.write_text(WRONG)
    with pytest.raises(ConfigError) as told:
        library_of(load_site(file))

    said = [str(problem).removeprefix(f"{file}: ") for problem in told.value.problems]
    assert said == [
        "classes.train.prefer: no profile has 'zz'",
        "classes.train.needs: no profile has 'x'",
        "classes.train.kinds: no profile has 'gpuu', did you mean 'gpu'?",
        "classes.train.runtimes: no profile has 'roc', did you mean 'rocm'?",
        "classes.both.profiles: no profile has 'a100-80', did you mean 'a100-80g'?",
        "sharing: no profile has 't5'",
        "nodes (n[1-2]) sharing: no profile has 'q'",
    ]
