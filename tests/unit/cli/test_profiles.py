"""``hpcmgr profiles``: list, show, check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from hpcmgr.cli import run
from hpcmgr.profile.library import PACKAGED


def profiles(*args: str | Path) -> int:
    """Run the command and give its exit code."""
    with pytest.raises(SystemExit) as ended:
        run(["profiles", *map(str, args)])
    return int(ended.value.code or 0)


def test_every_profile_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Text and JSON list the same names."""
    assert profiles("list") == 0
    text = capsys.readouterr().out
    assert profiles("list", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    names = sorted(path.stem for path in PACKAGED.glob("*.yaml"))

    assert listed["schema"] == "hpcmgr.profiles/1"
    devices = [p["name"] for p in listed["profiles"] if p["slice_of"] is None]
    assert devices == names
    assert [line.split()[0] for line in text.splitlines()[1:]] == names


def test_slices_are_listed_on_demand_and_shown_with_their_device(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Their GRES, units and memory, and how many there can be."""
    assert profiles("list", "--slices") == 0
    assert "a100-80g-1g.10gb " in capsys.readouterr().out
    assert profiles("show", "a100-80g") == 0
    shown = capsys.readouterr().out

    assert "# slice 2g.20gb: gpu:a100_2g.20gb, 2 units, 20 GiB, at most 3\n" in shown
    assert yaml.safe_load(shown)["slicing"]["kind"] == "mig"


def test_one_profile_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """With its units as they are booked."""
    assert profiles("show", "a100-80g", "--json") == 0
    shown = json.loads(capsys.readouterr().out)

    assert shown["schema"] == "hpcmgr.profile/1"
    assert shown["booked_units"] == 8
    assert profiles("show", "t4") == 0
    assert "booked as 2 units" in capsys.readouterr().out


def test_it_says_which_runtime_goes_with_which_driver(capsys: pytest.CaptureFixture[str]) -> None:
    """The maker's rules with their source, as comments, so that the text stays a profile."""
    assert profiles("show", "h100-80g") == 0
    text = capsys.readouterr().out
    assert profiles("show", "h100-80g", "--json") == 0
    shown = json.loads(capsys.readouterr().out)

    assert yaml.safe_load(text)["driver"]["minimum"] == "520.61.05"
    assert "#   CUDA toolkit 12.4: NVIDIA driver 550.54.14 or newer\n" in text
    assert "cuda-toolkit-release-notes" in text
    assert [rule["name"] for rule in shown["runtime_rules"]] == ["cuda", "cuda-minor"]
    assert profiles("show", "gaudi2") == 0
    assert "the same release" in capsys.readouterr().out
    assert profiles("show", "mlu590") == 0
    assert capsys.readouterr().out.rstrip().endswith("units")


def test_an_unknown_name_gets_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    """A usage error with "did you mean": what holds the word, else what is like it."""
    assert profiles("show", "a100-80gb") == 2
    err = capsys.readouterr().err
    assert "Did you mean 'a100-80g'?" in err
    assert "hpcmgr profiles list" in err

    assert profiles("show", "h100") == 2
    assert "Did you mean 'h100-80g' or 'h100-nvl-94g' or" in capsys.readouterr().err


def test_the_library_is_good(capsys: pytest.CaptureFixture[str]) -> None:
    """Without files the whole library is checked; each packaged file is good by itself, too."""
    assert profiles("check") == 0
    assert profiles("check", *sorted(PACKAGED.glob("*.yaml"))) == 0
    assert "are good" in capsys.readouterr().out


def test_all_problems_of_all_files_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With file and line, and the key that was meant."""
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("schema: hpcmgr.profile/1\nname: wrong\nvendr: nvidia\n")
    assert profiles("check", wrong, tmp_path / "missing.yaml") == 1
    err = capsys.readouterr().err

    assert "wrong.yaml:3: vendr: unknown key, did you mean 'vendor'?" in err
    assert "missing.yaml: cannot be read" in err


def test_a_clash_with_the_library_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A site's profile cannot take the GRES type of another one."""
    mine = tmp_path / "mine.yaml"
    mine.write_text((PACKAGED / "t4.yaml").read_text().replace("name: t4", "name: mine"))
    assert profiles("check", mine) == 1

    assert "share the GRES gpu:t4" in capsys.readouterr().err
