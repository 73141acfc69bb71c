"""``python -m lightcluster`` as a person uses it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lightcluster import state
from lightcluster.__main__ import main
from lightcluster.siteconf import CHECKOUT
from lightcluster.testing import require

from .conftest import PLAIN_LUA

LIGHTCLUSTER = [sys.executable, "-m", "lightcluster"]


def _call(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LIGHTCLUSTER, *args],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_cluster_that_does_not_run_is_one_line() -> None:
    """No traceback reaches a user."""
    done = _call("down", "--name", "nowhere")

    assert done.returncode == 1
    assert done.stderr.startswith("lightcluster: no light cluster nowhere runs")
    assert len(done.stderr.splitlines()) == 1


def test_the_cache_is_removed_unless_a_cluster_stands_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """down --cache: nothing to end is no error; somebody else's cluster keeps the cache."""
    monkeypatch.setenv("HPCMGR_CACHE", str(tmp_path))
    (tmp_path / "rootfs" / "tree").mkdir(parents=True)
    other = state.State(name="other", supervisor=1, started="")
    monkeypatch.setattr(state, "running", lambda: [other])

    assert main(["down", "--cache", "--name", "nowhere"]) == 1
    assert "in use by other" in capsys.readouterr().err
    assert (tmp_path / "rootfs" / "tree").is_dir()
    monkeypatch.setattr(state, "running", list)
    assert main(["down", "--cache", "--name", "nowhere"]) == 0
    assert not (tmp_path / "rootfs").exists()


@pytest.mark.slurm
def test_a_cluster_comes_up_is_used_and_goes_down(tmp_path: Path) -> None:
    """up keeps the terminal until down, or Ctrl-C, ends it."""
    require()
    (tmp_path / "job_submit.lua").write_text(PLAIN_LUA["job_submit.lua"])
    name = f"cli-{os.getpid()}"
    up = subprocess.Popen(
        [*LIGHTCLUSTER, "up", "--name", name, "--conf", str(tmp_path)],
        cwd=CHECKOUT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert up.stdout is not None
    assert "Slurm 24.11, 2 nodes, up in" in up.stdout.readline()

    status = _call("status")
    job = _call("shell", "--name", name, "--user", "alice", "srun", "-N2", "hostname")
    on_node = _call("shell", "--name", name, "--on", "n2", "hostname")
    lost = _call("shell", "--name", name, "--on", "n7")
    down = _call("down", "--name", name)

    assert f"{name}: Slurm 24.11, hosts ctl, n1, n2" in status.stdout
    assert sorted(job.stdout.split()) == ["n1", "n2"]
    assert on_node.stdout == "n2\n"
    assert "no host n7; there is ctl, n1, n2" in lost.stderr
    assert down.returncode == 0
    assert up.wait(timeout=10) == 0
    up.stdout.close()
