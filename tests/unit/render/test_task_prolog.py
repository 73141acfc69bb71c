"""The TaskProlog, run by a real shell on device nodes that open or do not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hpcmgr.render.environment import fill

SHELLS = [s for s in ("dash", "bash", "busybox") if shutil.which(s)]


def run(shell: str, place: Path, rows: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    table = place / "devices"
    table.write_text("# a comment\n\n" + "\n".join(rows) + "\n")
    script = place / "task_prolog.sh"
    script.write_text(fill("task_prolog.sh.j2", table=str(table)))
    argv = [shell, "sh"] if shell == "busybox" else [shell]
    return subprocess.run(
        [*argv, str(script)],
        capture_output=True, text=True, timeout=20, env={"PATH": os.environ["PATH"], **env},
    )  # fmt: skip


def exports(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    lines = [line.removeprefix("export ") for line in done.stdout.splitlines()]
    return dict(line.split("=", 1) for line in lines if "=" in line)


def npu(file: str, number: int) -> str:
    return f"{file} npu:a910 ascend910b3 cann ASCEND_RT_VISIBLE_DEVICES index {number} 8 64"


def gpu(file: str) -> str:
    return f"{file} gpu:a100 a100-80g cuda - - - 8 80"


@pytest.mark.parametrize("shell", SHELLS)
class TestProlog:
    """In every POSIX shell that is here."""

    def test_what_opens_is_the_steps_own(self, shell: str, tmp_path: Path) -> None:
        """Numbers are the runtime's; types, profiles and runtimes stand once each."""
        rows = [npu("/dev/null", 4), npu("/dev/zero", 7), npu(str(tmp_path / "gone"), 9)]
        done = run(shell, tmp_path, rows)

        assert exports(done) == {
            "ASCEND_RT_VISIBLE_DEVICES": "4,7",
            "HPCMGR_DEVICES": "/dev/null,/dev/zero",
            "HPCMGR_EACH": "npu:a910:8:64",
            "HPCMGR_GRES": "npu:a910",
            "HPCMGR_PROFILE": "ascend910b3",
            "HPCMGR_RUNTIME": "cann",
        }
        assert "gone is missing on this node" in done.stderr

    def test_a_step_without_devices_keeps_no_variable(self, shell: str, tmp_path: Path) -> None:
        """What it inherited from the batch script is taken away."""
        done = run(shell, tmp_path, [npu(str(tmp_path / "gone"), 0)], HPCMGR_DEVICES="/dev/x")

        assert exports(done) == {}
        assert "unset ASCEND_RT_VISIBLE_DEVICES" in done.stdout
        assert "unset HPCMGR_DEVICES" in done.stdout

    def test_numbers_by_place_in_the_step(self, shell: str, tmp_path: Path) -> None:
        """counts-by local: 0, 1, … of what opens."""
        rows = [
            f"{file} dcu:k100 k100 rocm HIP_VISIBLE_DEVICES local -"
            for file in (str(tmp_path / "gone"), "/dev/null", "/dev/zero")
        ]

        assert exports(run(shell, tmp_path, rows))["HIP_VISIBLE_DEVICES"] == "0,1"

    def test_slurms_own_word_decides_where_nothing_confines(
        self, shell: str, tmp_path: Path
    ) -> None:
        """Three GPUs open, Slurm tells the second: that one."""
        rows = [gpu("/dev/null"), gpu("/dev/zero"), gpu("/dev/full")]
        done = run(shell, tmp_path, rows, SLURM_STEP_GPUS="1")

        assert exports(done)["HPCMGR_DEVICES"] == "/dev/zero"

    def test_opening_decides_where_the_step_is_confined(self, shell: str, tmp_path: Path) -> None:
        """One GPU opens and Slurm tells one: the table may be newer than Slurm's numbering."""
        rows = [gpu(str(tmp_path / "gone")), gpu("/dev/zero")]
        done = run(shell, tmp_path, rows, SLURM_STEP_GPUS="0")

        assert exports(done)["HPCMGR_DEVICES"] == "/dev/zero"

    def test_a_device_of_several_files_is_tried_by_its_first(
        self, shell: str, tmp_path: Path
    ) -> None:
        """And all of them are told: a container needs them."""
        gone = str(tmp_path / "gone")
        rows = [gpu(f"/dev/null,{gone}"), gpu(f"{gone},/dev/zero")]

        assert exports(run(shell, tmp_path, rows))["HPCMGR_DEVICES"] == f"/dev/null,{gone}"

    def test_a_slice_is_known_by_its_own_file(self, shell: str, tmp_path: Path) -> None:
        """The GPU's node opens for all of its slices; the variable is the uuid."""
        gone = str(tmp_path / "gone")
        rows = [
            f"{own},/dev/null,{own} gpu:a100_1g.10gb a100-80g-1g.10gb cuda CUDA_VISIBLE_DEVICES "
            f"uuid MIG-{n} 1 10"
            for n, own in enumerate((gone, "/dev/zero"))
        ]
        whole = f"{gone} gpu:a100 a100-80g cuda CUDA_VISIBLE_DEVICES local - 8 80"
        done = exports(run(shell, tmp_path, [whole, *rows], SLURM_STEP_GPUS="2"))

        assert done["CUDA_VISIBLE_DEVICES"] == "MIG-1"
        assert done["HPCMGR_PROFILE"] == "a100-80g-1g.10gb"

    def test_several_brands_on_one_node(self, shell: str, tmp_path: Path) -> None:
        """A template's job sees both, each with its own variable."""
        done = exports(run(shell, tmp_path, [gpu("/dev/null"), npu("/dev/zero", 3)]))

        assert done["HPCMGR_GRES"] == "gpu:a100,npu:a910"
        assert done["HPCMGR_EACH"] == "gpu:a100:8:80,npu:a910:8:64"
        assert done["HPCMGR_RUNTIME"] == "cuda,cann"
        assert done["ASCEND_RT_VISIBLE_DEVICES"] == "3"

    def test_without_a_table_the_task_starts_and_the_reason_is_told(
        self, shell: str, tmp_path: Path
    ) -> None:
        """A node that was never synced."""
        script = tmp_path / "task_prolog.sh"
        script.write_text(fill("task_prolog.sh.j2", table="/nonexistent"))
        argv = [shell, "sh"] if shell == "busybox" else [shell]
        done = subprocess.run([*argv, str(script)], capture_output=True, text=True, timeout=20)

        assert done.returncode == 0
        assert done.stdout == ""
        assert "run 'hpcmgr sync' on this node" in done.stderr
