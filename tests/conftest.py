"""Options and fixtures for all tests."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from lightcluster import waiting

HERE = Path(__file__).parent
CLUSTERS = ("tests/slurm/", "tests/lightcluster/")
RELEASE = re.compile(r"(?<=[\[-])\d\d\.\d\d(?=[\]-])")  # of Slurm, a parameter

# A busy machine is no fault of the code.
settings.register_profile("hpcmgr", deadline=None)
settings.load_profile("hpcmgr")
waiting.patience = 4

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts its background jobs so, and what the tests start would never see a Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` rewrites the expected outputs instead of comparing with them."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """``--dist loadgroup``: which tests share a worker, read from their names.

    A cluster that tests share is started once only where they run in one process. The plugin's
    own groups (marks) are lost on pytest 9.2, whose node ids cannot be changed.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return Groups(config, log)


def group(nodeid: str) -> str:
    """The release for a test on a site of tests/slurm; else the file, with the release if any."""
    file, _, name = nodeid.partition("::")
    release = RELEASE.search(name) if file.startswith(CLUSTERS) else None
    place = "tests/slurm" if release and file.startswith("tests/slurm/") else file
    return f"{place} {release.group()}" if release else place


@pytest.fixture(name="hosts", scope="session")
def _hosts() -> Path:
    """The folder of recorded hosts."""
    return HERE / "hosts"


@pytest.fixture(name="golden")
def _golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden("hosts/mixed.json", text)``: the text equals the file, byte by byte."""

    def check(name: str, text: str) -> None:
        path = HERE / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        assert path.exists(), f"no {path}: run pytest --update-golden and look at the diff"
        assert text == path.read_bytes().decode()

    return check


@pytest.fixture(name="corpus", scope="session")
def _corpus() -> Path:
    """Captured outputs of vendor tools, where somebody has them."""
    place = Path(os.environ.get("HPCMGR_CORPUS") or HERE.parent.parent / "shared" / "data")
    captures = place / "devices" / "captures"
    if not captures.is_dir():
        pytest.skip(f"no captures in {captures} (set HPCMGR_CORPUS to the folder that has them)")
    return captures
