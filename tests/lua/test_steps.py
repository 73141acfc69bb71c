"""Steps in neutral units: what a list of GRES becomes, and where devices' worth is read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lupa import lua51

from tests.lua.shim_host import ERROR, LUA, SUCCESS

A100 = "gpu:a100:8:80"
BOTH = f"{A100},npu:ascend910b3:8:64"


class Client:
    """srun with its options and environment; ``slurm``, ``os`` and ``io`` are the test's."""

    def __init__(self, env: dict[str, str], squeue: str = "") -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self.lua = lua51.LuaRuntime(unpack_returned_tuples=True)
        self.lua.execute(f"package.path = '{LUA}/?.lua;' .. package.path")
        globals_ = self.lua.globals()
        globals_.os.getenv = env.get
        globals_.slurm = self.lua.table(
            SUCCESS=SUCCESS, ERROR=ERROR, log_error=lambda form, text: self.said.append(text)
        )
        globals_.answer = squeue
        globals_.asked = self.asked.append
        self.lua.execute(
            "io.popen = function(c) asked(c); return {read = function() return answer end,"
            " close = function() end} end"
        )
        self.steps = self.lua.eval("require('hpcmgr.steps')")

    def srun(self, **options: str) -> tuple[int, str | None]:
        """Return code and what became of ``--gres``."""
        table = self.lua.table(
            **{"type": "srun", **{k.replace("_", "-"): v for k, v in options.items()}}
        )
        rc: int = self.steps.behind(None)(table, 0)
        gres: str | None = table["gres"]
        return rc, gres


def in_job(each: str = A100, squeue: str = "") -> Client:
    return Client({"SLURM_JOB_ID": "12", "HPCMGR_EACH": each}, squeue)


@pytest.mark.parametrize(
    ("each", "asked", "becomes"),
    [
        (A100, "gres/compute:1", "gpu:a100:1"),
        (A100, "gres/compute:8", "gpu:a100:1"),
        (A100, "gres/compute:9", "gpu:a100:2"),
        (A100, "gres:compute:train:16", "gpu:a100:2"),
        (A100, "gres/compute=16", "gpu:a100:2"),
        (A100, "gres/compute:8,gres/vram:160", "gpu:a100:2"),
        (A100, "gres/vram:80G", "gpu:a100:1"),
        (A100, "gres/nic:mlx:1,gres/compute:8", "nic:mlx:1,gpu:a100:1"),
        (BOTH, "gres/compute:npu:16", "npu:ascend910b3:2"),
        (BOTH, "gres/compute:a100:16", "gpu:a100:2"),
        ("gpu:a100_1g.10gb:1:10", "gres/compute:2", "gpu:a100_1g.10gb:2"),
    ],
)
def test_units_become_devices_of_the_job(each: str, asked: str, becomes: str) -> None:
    """The fewest that hold them; what else was asked for stays."""
    assert in_job(each).srun(gres=asked) == (SUCCESS, becomes)


@pytest.mark.parametrize(
    ("each", "asked", "why"),
    [
        (BOTH, "gres/compute:8", "name the one that the step shall have, as in --gres=gpu:a100:1"),
        (A100, "gres/compute", "whole number"),
        (A100, "gres/compute:0", "whole number"),
        (A100, "gres/vram:each:90", "gpu:a100: a step cannot have"),
        ("gpu:k80:-:12", "gres/compute:2", "is not known"),
    ],
)
def test_what_cannot_be_is_told(each: str, asked: str, why: str) -> None:
    """And the step does not start without devices."""
    client = in_job(each)

    assert client.srun(gres=asked) == (ERROR, asked)
    assert why in client.said[0]


@pytest.mark.parametrize(
    ("request_", "asked", "outcome"),
    [
        ("gres/gpu:a100:2,gres/compute:16,gres/vram:160", "gres/compute:4", "gpu:a100:1"),
        ("gres/compute:16,gres/vram:128        gres/npu:x:2", "gres/vram:64", "npu:x:1"),
        ("gres/gpu:a100:2,gres/compute:16", "gres/compute:17", "this job has 2 gpu:a100"),
        ("N/A     N/A", "gres/compute:1", "no accelerators"),
        ("gres/gpu:a:1,gres/npu:b:2,gres/compute:24", "gres/compute:b:8", "is not known"),
    ],
)
def test_without_a_task_prolog_slurm_is_asked(request_: str, asked: str, outcome: str) -> None:
    """As in the shell of salloc: the job's own request says what a device stands for."""
    client = in_job("", request_)
    rc, gres = client.srun(gres=asked)

    assert client.asked[0].startswith("squeue -h -j 12 ")
    assert gres == outcome if rc == SUCCESS else outcome in client.said[0]


def test_other_commands_and_requests_pass() -> None:
    """A new job is job_submit's to rewrite; a step with devices asks nobody."""
    assert in_job().srun(gres="gres/gpu:1") == (SUCCESS, "gres/gpu:1")
    assert in_job().srun() == (SUCCESS, None)
    assert in_job().srun(type="sbatch", gres="gres/compute:8") == (SUCCESS, "gres/compute:8")
    assert Client({}).srun(gres="gres/compute:8") == (SUCCESS, "gres/compute:8")


def test_units_per_task_of_a_step_are_refused() -> None:
    """Slurm would start it without a device."""
    client = in_job()

    assert client.srun(tres_per_task="gres/compute:4")[0] == ERROR
    assert "--gres" in client.said[0]


def test_what_a_job_hands_on_to_its_steps_is_no_request_of_theirs() -> None:
    """Slurm 26.05 sets it in jobs that asked per task."""
    handed = "gres/gpu:t4=1,gres/compute=2"
    client = Client({"SLURM_JOB_ID": "12", "SLURM_TRES_PER_TASK": handed})

    assert client.srun(tres_per_task=handed)[0] == SUCCESS


def test_the_sites_own_filter_goes_first() -> None:
    """Its refusal stands, and its consent is no answer for ours."""
    client = in_job()
    table: Any = client.lua.table(type="srun", gres="gres/compute:8")

    assert client.steps.behind(client.lua.eval("function() return -1 end"))(table, 0) == ERROR
    assert table["gres"] == "gres/compute:8"
    assert client.steps.behind(client.lua.eval("function() return 0 end"))(table, 0) == SUCCESS
    assert table["gres"] == "gpu:a100:1"


PIECES = ["gres/", "compute", "vram", "each", "gpu", "a100", ":", "=", ",", "8", "0", "K", "%", " "]


@given(
    st.lists(st.sampled_from(PIECES) | st.characters(max_codepoint=126), max_size=12).map("".join)
)
def test_no_request_breaks_it(asked: str) -> None:
    """Whatever the words: devices, or a reason; never a Lua error, never units."""
    client = in_job()
    rc, gres = client.srun(gres=asked)

    assert not any("internal error" in line for line in client.said)
    if rc == SUCCESS:
        assert gres is not None
        assert not client.steps.concerns(gres)
