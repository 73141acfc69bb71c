"""Updates of waiting jobs: every field that a late binding sets has its word for scontrol."""

from __future__ import annotations

import pytest

from hpcmgr.slurm.command import Output
from hpcmgr.slurm.update import update_job
from tests.builders import ASCEND, cluster, known, node, policy, submit


@pytest.fixture(name="calls")
def _calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What scontrol was called with."""
    found: list[tuple[str, ...]] = []

    def run(*argv: str, **_: object) -> Output:
        found.append(argv)
        return Output(0, "", "")

    monkeypatch.setattr("hpcmgr.slurm.update.run", run)
    return found


def test_one_switch_can_be_asked_for_late(calls: list[tuple[str, ...]]) -> None:
    """scontrol knows it as Switches (24.11.5, 26.05.5)."""
    rules = policy(ASCEND, classes={"near": {"topology": "same_switch"}})
    nodes = [node(name, gres={"npu:ascend910b3": 8}) for name in ("n1", "n2")]
    job = {"tres_per_node": "compute:near:8", "min_nodes": 2, "max_nodes": 2}
    below = known({"n1": "leaf1", "n2": "leaf1"})
    done = submit(cluster(*nodes), rules, job, late=True, known=below).rewrite
    assert done is not None

    update_job("7", done.set)

    assert calls[0][:3] == ("scontrol", "update", "JobId=7")
    assert "Switches=1" in calls[0]
    assert "TresPerNode=gres/npu:ascend910b3:1,gres/compute:8,gres/vram:64" in calls[0]


def test_what_no_update_can_change_is_an_error(calls: list[tuple[str, ...]]) -> None:
    """Nothing is changed by halves."""
    with pytest.raises(ValueError, match="ntasks_per_tres cannot be changed"):
        update_job("7", {"gres": "gpu:a100:1", "ntasks_per_tres": 1})

    assert calls == []
