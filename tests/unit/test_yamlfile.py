"""Files that people write: every problem at once, with line and valid names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.errors import ConfigError
from hpcmgr.settings import Site, load_site
from hpcmgr.yamlfile import parse_model

BROKEN = """\
schema: hpcmgr.site/1
inventry: /x
slurm:
  conf_dirr: /etc/slurm
classes:
  train: {devices_min: 0, kinds: [GPU!]}
nodes:
  - nodes: "n[1"
    memory_mib: lots
"""


def test_all_problems_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    """Unknown keys with "did you mean" and the valid ones, wrong values with what they are."""
    path = tmp_path / "site.yaml"
    path.write_text(BROKEN)

    with pytest.raises(ConfigError) as caught:
        load_site(path)

    text = str(caught.value)
    assert f"{path}:2: inventry: unknown key, did you mean 'inventory'?; valid: accounting," in text
    assert f"{path}:4: slurm.conf_dirr: unknown key, did you mean 'conf_dir'?" in text
    assert f"{path}:6: classes.train.devices_min: Input should be greater than" in text
    assert f"{path}:6: classes.train.kinds.0:" in text
    assert f"{path}:8: nodes.0.nodes: 'n[1' is no hostlist" in text
    assert f"{path}:9: nodes.0.memory_mib:" in text


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: [1", ":1: no valid YAML"),
        ("slurm: {user: a, user: b}", "key 'user' stands twice"),
        ("- a\n- b\n", "Input should be a valid dictionary"),
        ("slurm: [1]", "slurm: Input should be"),
        ("&a [*a]", ""),
    ],
)
def test_what_is_no_yaml_or_no_site_is_told_in_words(tmp_path: Path, text: str, part: str) -> None:
    """Syntax, doubled keys, lists where a section belongs."""
    path = tmp_path / "site.yaml"
    path.write_text(text)

    with pytest.raises(ConfigError) as caught:
        load_site(path)

    assert part in str(caught.value)


def test_a_missing_file_that_was_named_is_an_error(tmp_path: Path) -> None:
    """--config of a file that is not there is no wish for the defaults."""
    with pytest.raises(ConfigError, match="cannot be read"):
        load_site(tmp_path / "none.yaml")


def test_an_empty_file_means_the_defaults(tmp_path: Path) -> None:
    """A site that wants nothing special writes nothing."""
    path = tmp_path / "site.yaml"
    path.write_text("")

    assert load_site(path).model_dump() == Site().model_dump()


@pytest.mark.parametrize("name", ["unbound", "compute", "vram", "each"])
def test_reserved_names_are_no_classes(tmp_path: Path, name: str) -> None:
    """They mean something else in a request."""
    path = tmp_path / "site.yaml"
    path.write_text(f"classes: {{{name}: {{}}}}")

    with pytest.raises(ConfigError, match="reserved"):
        load_site(path)


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_no_file_makes_the_reader_fail(text: str | bytes) -> None:
    """Any bytes: a site or a list of problems."""
    try:
        parse_model(text, Path("site.yaml"), Site)
    except ConfigError as error:
        assert error.problems  # noqa: PT017


def test_pushing_needs_a_door(tmp_path: Path) -> None:
    """Else the nodes would not know where to send their inventories."""
    path = tmp_path / "site.yaml"
    path.write_text("publish: push\n")
    with pytest.raises(ConfigError, match=r"service\.door"):
        load_site(path)
    path.write_text("publish: push\nservice: {door: 'ctl:7321'}\n")

    assert load_site(path).publish == "push"
