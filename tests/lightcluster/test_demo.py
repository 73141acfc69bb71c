"""The demo as a newcomer runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lightcluster import LightClusterError, state
from lightcluster.demo.cast import REQUESTS
from lightcluster.demo.screen import Screen, columns
from lightcluster.demo.story import Story, _short, _terms
from lightcluster.siteconf import CHECKOUT
from lightcluster.testing import require

from .conftest import RELEASES

DEMO = [sys.executable, "-m", "lightcluster.demo"]


def start(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*DEMO, "--name", f"demo-{os.getpid()}", *args],
        cwd=CHECKOUT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def part(told: str, beginning: str) -> str:
    """One part of what was told."""
    [found] = [p for p in told.split("\n== ")[1:] if p.startswith(beginning)]
    return found


@pytest.mark.slurm
@pytest.mark.parametrize("release", RELEASES)
def test_the_demo_shows_every_request_and_ends_by_itself(release: str) -> None:
    """Exit 0, plain text when piped, each job with its devices and units, nothing left."""
    require()
    demo = start("--once", "--release", release)
    told, talk = demo.communicate(timeout=240)

    assert demo.returncode == 0, told + talk
    assert "\x1b" not in told
    any_brand, npus, cuda = (part(told, f"{n}. ") for n in (1, 2, 3))
    assert "becomes 1 x gpu:a100: 8 units" in any_brand
    assert re.search(r"why .*fit", any_brand)
    assert "  next    1 x npu:ascend910b3" in any_brand
    assert "gres/compute=8" in part(told, "1. ")
    assert len(re.findall(r"(?m)^  opens .*$", npus)) == 1
    assert len(re.findall(r"/dev/davinci\d", npus.split("refused")[0])) == 2
    assert "gpu:t4:1(IDX:0)" in cuda
    assert "gres/compute=16" in part(told, "4. ")
    assert "16 GiB a device, 40 asked" in part(told, "5. ")
    used = re.findall(r"opens    (/dev/\S+)", part(told, "6. "))
    assert len(set(used)) == len(used) == 3
    steps = re.findall(r"opens    step \S+: (.*)", part(told, "7. "))
    assert [len(step.split()) for step in steps] == [1, 2]
    assert "What would fit: compute:a100:64" in part(told, "8. ")
    assert "mix01" in part(told, "The same in Slurm's own words")
    assert state.load(f"demo-{os.getpid()}") is None


@pytest.mark.slurm
@pytest.mark.parametrize(
    ("number", "when"), [(signal.SIGINT, "munge"), (signal.SIGINT, "1. "), (signal.SIGTERM, "1. ")]
)
def test_an_interrupted_demo_leaves_nothing(number: int, when: str) -> None:
    """While the cluster comes up, and while jobs run."""
    require()
    demo = start()
    assert demo.stdout is not None
    for line in demo.stdout:
        if when in line:
            break

    demo.send_signal(number)
    told, talk = demo.communicate(timeout=60)

    assert demo.returncode == (130 if number == signal.SIGINT else 143), told + talk
    assert "Traceback" not in talk
    assert state.load(f"demo-{os.getpid()}") is None


@pytest.mark.slurm
def test_it_stays_up_until_the_end_of_input_and_only_once() -> None:
    """Meanwhile a second demo of the same name is refused, with the way out."""
    require()
    name = f"demo-{os.getpid()}"
    first = subprocess.Popen(
        [*DEMO, "--name", name], cwd=CHECKOUT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert first.stdout is not None
    told = ""
    while "ends the cluster" not in told:
        told += first.stdout.readline()
        assert first.poll() is None, told
    second = start()
    said, _ = second.communicate(timeout=60)
    shell = [sys.executable, "-m", "lightcluster", "shell", "--name", name, "--user", "alice"]
    script = (
        "sbatch -W --gres=compute:cuda:1 --wrap=./look.sh\\ x >/dev/null 2>&1; cat slurm-1?.out"
    )
    tried = subprocess.run(
        [*shell, "bash", "-c", script], cwd=CHECKOUT, capture_output=True, text=True, timeout=60
    )
    rest, _ = first.communicate(input="\n", timeout=60)

    assert second.returncode == 1
    assert f"lightcluster down --name {name}" in said
    assert f"lightcluster shell --name {name} --user alice" in told
    assert "x open /dev/nvidia1" in tried.stdout
    assert first.returncode == 0
    assert "The cluster is gone." in rest


class BrokenSite:
    """A site whose every command fails."""

    nodes = ()
    alive = True

    def run(self, *_: object, **__: object) -> Any:
        raise LightClusterError("no answer")

    @property
    def controller(self) -> Any:
        raise LightClusterError("no controller")


def test_a_part_that_fails_is_named_and_the_demo_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every part is tried; a cluster that is gone ends it."""
    site = BrokenSite()
    story = Story(site, Screen())  # type: ignore[arg-type]
    story.tell()

    out = capsys.readouterr().out
    assert out.count("this part failed: no answer") >= len(REQUESTS)
    assert len(story.failed) >= len(REQUESTS) + 2
    site.alive = False
    with pytest.raises(LightClusterError, match="ended from outside"):
        story.tell()


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}])
def test_piped_or_without_colour_everything_is_plain(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No escape codes, no lines drawn; NO_COLOR holds on a terminal too."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    screen = Screen()
    screen.heading("H")
    screen.prompt("sbatch [x]")
    screen.fact("node", "n1")
    screen.table(["a", "b"], [["1", "[/2]"]])
    screen.code("Name=gpu")

    out = capsys.readouterr().out
    assert out.splitlines() == [
        "", "== H", "alice@ctl:~$ sbatch [x]", "  node     n1", "  a  b", "  1  [/2]", "Name=gpu",
    ]  # fmt: skip


def test_the_picture_has_the_chosen_parts_and_loads_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SVG without fonts or pages from elsewhere; equal content gives equal bytes."""
    pictures = []
    for number in (1, 2):
        screen = Screen(picture=True)
        screen.text("left-out")
        with screen.pictured():
            screen.prompt("taken")
            screen.table(["a"], [["b"]])
        screen.save_picture(tmp_path / f"{number}.svg", "t")
        pictures.append((tmp_path / f"{number}.svg").read_text())

    assert "taken" in pictures[0]
    assert "left-out" not in pictures[0]
    assert "url(http" not in pictures[0]
    assert "href" not in pictures[0]
    assert pictures[0] == pictures[1]


def test_small_words() -> None:
    """Columns, shortened lists, terms side by side."""
    assert columns(["x", "long"], [["1", "2"]]) == "x  long\n1  2"
    assert _short([]) == "nothing: the node has no other device"
    assert _short(list("abcdef")) == "a b c d and 2 more"
    heads, rows = _terms([{"devices": 1, "gres": "gpu:t4", "score": 9.5, "terms": {"fit": 0.5}}])
    assert heads == ["why", "", "score", "fit"]
    assert rows == [["chosen", "1 x gpu:t4", "9.50", "0.50"]]
