"""The performance table: what was measured, and what a wrong file is told."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.errors import ConfigError
from hpcmgr.profile import load_library
from hpcmgr.profile.performance import PACKAGED, load

CHECKOUT = Path(__file__).parent.parent.parent.parent
HEAD = "workload,profile,speed,source\n"


def test_the_p100_beats_the_v100_on_8_of_26_measured_workloads() -> None:
    """Gavel's single-device throughputs keep their order in our table."""
    table = load()
    faster = [
        workload
        for workload in table.workloads
        if (table.speed(workload, "p100-16g") or 0) > (table.speed(workload, "v100-16g") or 0)
    ]

    assert len(table.workloads) == 26
    assert faster == [
        "recommendation-b1024", "recommendation-b2048", "recommendation-b4096",
        "recommendation-b512", "recommendation-b8192", "resnet-18-b16", "resnet-18-b32",
        "transformer-b256",
    ]  # fmt: skip


def test_every_workload_was_measured_on_all_three_models_and_the_v100_is_one() -> None:
    """No row is missing, and every profile of the table is in the library."""
    table = load()

    assert {table.speed(workload, "v100-16g") for workload in table.workloads} == {1.0}
    assert {len(table.profiles(workload)) for workload in table.workloads} == {3}
    assert table.unknown_profiles(load_library()) == ()


def test_what_nobody_measured_has_no_speed() -> None:
    """None, not a guess: neither for an unknown workload nor for an unmeasured device."""
    table = load()

    assert table.speed("resnet-50-b64", "h100-80g") is None
    assert table.speed("resnet-51", "v100-16g") is None
    assert table.profiles("resnet-51") == ()


def test_the_packaged_table_is_what_the_script_makes_of_gavels_figures(tmp_path: Path) -> None:
    """Nobody has edited it by hand."""
    corpus = Path(os.environ.get("HPCMGR_CORPUS") or CHECKOUT.parent / "shared" / "data")
    if not (corpus / "traces" / "gavel").is_dir():
        pytest.skip(f"no traces in {corpus} (set HPCMGR_CORPUS)")
    script = CHECKOUT / "tools" / "make_performance_table.py"
    spec = importlib.util.spec_from_file_location("make_performance_table", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HPCMGR_CORPUS", str(corpus))
        patch.setattr("sys.argv", ["x", "-o", str(tmp_path / "table.csv")])
        module.main()

    assert (tmp_path / "table.csv").read_bytes() == PACKAGED.read_bytes()


def test_a_sites_own_figures_stand_above_the_packaged_ones(tmp_path: Path) -> None:
    """Row by row; what the site did not measure stays."""
    own = tmp_path / "own.csv"
    own.write_text(f"# ours\n{HEAD}lm-b5, p100-16g, 1.5, own\nllm,h100-80g,1,own\n")
    table = load([own])

    assert table.speed("lm-b5", "p100-16g") == 1.5
    assert table.speed("lm-b5", "v100-16g") == 1.0
    assert table.profiles("llm") == ("h100-80g",)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", ":1: the first row must be workload,profile,speed,source"),
        ("a,b,c\n", ":1: the first row must be"),
        (f"{HEAD}a,b,1\n", ":2: has 3 cells, not 4"),
        (f"{HEAD}a,b,fast,x\n", ":2: speed 'fast' is no number"),
        (f"{HEAD}a,b,0,x\n", ":2: speed 0 is not above zero"),
        (f"{HEAD}a,b,nan,x\n", ":2: speed nan is not above zero"),
        (f"{HEAD}a,b,1,\n", ":2: source is empty"),
        (f"{HEAD}A b,b,1,x\n", ":2: workload 'A b' is no word"),
        (f"{HEAD}a,b,1,x\n\na,b,2,x\n", ":4: a on b stands already in line 2"),
    ],
)
def test_a_wrong_table_is_told_with_its_line(tmp_path: Path, text: str, part: str) -> None:
    """All problems, each with file and line."""
    path = tmp_path / "own.csv"
    path.write_text(text)

    with pytest.raises(ConfigError) as told:
        load([path])
    assert str(path) + part in told.value.message


def test_a_row_with_a_misspelt_profile_can_be_found(tmp_path: Path) -> None:
    """It is no error by itself: a table may know more devices than a site has."""
    path = tmp_path / "own.csv"
    path.write_text(f"{HEAD}a,v100-17g,1,x\n")

    problems = load([path]).unknown_profiles(load_library())
    assert [str(p) for p in problems] == [f"{path}:2: there is no device profile 'v100-17g'"]


@given(st.binary(max_size=200))
def test_no_file_brings_more_than_a_told_error(tmp_path_factory: pytest.TempPathFactory,
                                               data: bytes) -> None:  # fmt: skip
    """Whatever the bytes are."""
    path = tmp_path_factory.mktemp("table") / "own.csv"
    path.write_bytes(HEAD.encode() + data)
    with contextlib.suppress(ConfigError):
        load([path])
