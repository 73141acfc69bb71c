"""Choosing the reader of the cluster's state. pyslurm itself is never posed as here."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from hpcmgr.errors import ConfigError
from hpcmgr.slurm.backend import TOLD, Told, open_reader, why_mismatched
from hpcmgr.slurm.partition import Partition
from hpcmgr.slurm.reader import read_cluster
from hpcmgr.slurm.state import ClusterState, NodeState, PendingJob, Reservation


def _absent() -> bool:
    try:
        version("pyslurm")
    except PackageNotFoundError:
        return True
    return False


def test_commands_unless_the_site_says_otherwise() -> None:
    assert open_reader("commands", Path("/nowhere")) is read_cluster


@pytest.mark.skipif(not _absent(), reason="pyslurm is installed here")
def test_says_how_to_install_pyslurm() -> None:
    with pytest.raises(ConfigError) as caught:
        open_reader("pyslurm", Path("/etc/slurm"))
    assert caught.value.message == "slurm.reader: pyslurm is not installed"
    for word in ("SLURM_INCLUDE_DIR", "SLURM_LIB_DIR", "hpcmgr[pyslurm]"):
        assert word in caught.value.hint


@pytest.mark.parametrize(
    ("installed", "release", "fits"),
    [
        ("25.11.2", "25.11.7", True),
        ("25.11.2", "24.11.5", False),
        ("25.11.2", "26.05.5", False),
        ("24.5.1", "24.05.3", True),
    ],
)
def test_releases_that_fit(installed: str, release: str, fits: bool) -> None:
    why = why_mismatched(installed, release)
    assert (why == "") is fits
    assert fits or (installed in why and release in why)


def test_a_state_survives_the_way_between_the_processes() -> None:
    node = NodeState(
        "n1",
        usable=True,
        features=frozenset({"rdma"}),
        gres={"gpu:a100": 2},
        used={"gpu:a100": 1},
        sockets_of={"gpu:a100": frozenset({0, 1})},
    )
    state = ClusterState(
        1.5,
        "25.11.7",
        (node,),
        (Partition("batch", default=True, allow_accounts=frozenset({"chem"})),),
        (PendingJob("7_[1-3]", "batch", 10, 3, "gres/gpu:a100:1", queued=True),),
        (Reservation("course", "n1", {"gpu:a100": 1}, whole=False),),
        (4, 1000),
    )
    told = Told(state, {"n1": 1700000000})
    assert TOLD.validate_json(TOLD.dump_json(told)) == told
