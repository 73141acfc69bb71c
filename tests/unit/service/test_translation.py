"""A site's own texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcmgr.errors import ConfigError
from hpcmgr.service.knowledge import policy_of
from hpcmgr.service.translation import load_texts
from hpcmgr.settings import Site
from hpcmgr.submit.messages import TEXTS, placeholders, text, translate


@pytest.fixture(autouse=True)
def _own_texts() -> Iterator[None]:
    yield
    translate({})


def write(folder: Path, content: str) -> Path:
    path = folder / "texts.yaml"
    path.write_text(content)
    return path


def test_a_sites_words_are_used_and_the_rest_stays(tmp_path: Path) -> None:
    """From the moment at which the service starts."""
    path = write(tmp_path, 'no_count: "{request}: keine Anzahl, also 1"\n')
    policy_of(Site.model_validate({"messages": str(path)}))

    assert text("no_count", request="compute") == "compute: keine Anzahl, also 1"
    assert text("no_memory") == TEXTS["no_memory"]


def test_every_problem_is_told_with_its_line(tmp_path: Path) -> None:
    """Unknown ids with the nearest, placeholders that the text has not, or that are missing."""
    path = write(
        tmp_path,
        "no_cuont: a\n"
        'no_count: "{requst}: keine Anzahl"\n'
        'waits: "der Auftrag wartet"\n'
        'not_near: "nicht nah: {why"\n'
        'bad_count: "{name.__class__}: {count} {most}"\n',
    )
    with pytest.raises(ConfigError) as caught:
        load_texts(path)

    told = {problem.line: str(problem) for problem in caught.value.problems}
    assert "no_count" in told[1]
    assert "has no {requst}; it may hold {request}" in told[2]
    assert "lacks {why}" in told[3]
    assert 4 in told
    assert "has no {name.__class__}" in told[5]


def test_every_text_of_the_catalogue_names_its_placeholders_plainly() -> None:
    """A translator sees words, not indices or attributes."""
    for key, own in TEXTS.items():
        assert all(name.isidentifier() for name in placeholders(own)), key
