"""Nothing is left behind, however a cluster ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest

from lightcluster import LightCluster, LightClusterError, NodeSpec, StartError, state
from lightcluster.siteconf import CHECKOUT
from lightcluster.testing import require

from .conftest import PLAIN_LUA, RELEASES

pytestmark = pytest.mark.slurm

NODES = [NodeSpec("n1"), NodeSpec("n2")]
Spaces = Callable[[str], dict[str, set[str]]]
# A caller that starts a cluster, says so, and waits to be ended.
CALLER = """
import sys, time
from lightcluster import LightCluster, NodeSpec
name, lua = sys.argv[1:]
cluster = LightCluster("24.11", [NodeSpec("n1")], {"job_submit.lua": lua}, name=name)
cluster.start()
cluster.sbatch("--wrap=sleep 600")
print("up", flush=True)
time.sleep(600)
"""


def _traces(name: str, spaces: dict[str, set[str]]) -> list[str]:
    """What is left of a cluster: processes in its namespaces, mounts, groups, its folder."""
    left = [str(place) for kind in ("pid", "net") for place in _in_namespaces(kind, spaces[kind])]
    left += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if name in line]
    # os.walk, not glob: groups may vanish while one looks.
    left += [place for place, _, _ in os.walk("/sys/fs/cgroup") if place.endswith(f"hpcmgr-{name}")]
    left += [str(place) for place in [state.BASE / name] if place.exists()]
    return left


@pytest.fixture(name="spaces_of")
def _spaces_of() -> Iterator[Spaces]:
    """The namespaces of a running cluster; held, so that no other cluster gets their numbers."""
    with ExitStack() as held:

        def spaces_of(name: str) -> dict[str, set[str]]:
            found = state.load(name)
            assert found is not None
            spaces: dict[str, set[str]] = {"pid": set(), "net": set()}
            for pid, kind in product(found.members.values(), spaces):
                place = Path(f"/proc/{pid}/ns/{kind}")
                held.enter_context(place.open("rb"))
                spaces[kind].add(str(place.readlink()))
            return spaces

        yield spaces_of


def _in_namespaces(kind: str, spaces: set[str]) -> list[Path]:
    places = []
    for place in Path("/proc").glob(f"[0-9]*/ns/{kind}"):
        try:
            if str(place.readlink()) in spaces:
                places.append(place)
        except OSError:  # it ended meanwhile
            continue
    return places


def _wait(condition: Callable[[], bool]) -> bool:
    limit = time.monotonic() + 60
    while not condition() and time.monotonic() < limit:
        time.sleep(0.05)
    return condition()


@pytest.fixture(name="own_base")
def _own_base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for this test's clusters, where the start of any other finds no remains."""
    base = state.BASE.with_name(f"{state.BASE.name}-{os.getpid()}")
    monkeypatch.setenv("HPCMGR_LIGHTCLUSTER_RUN", str(base))
    monkeypatch.setattr(state, "BASE", base)
    yield base
    base.rmdir()


@pytest.fixture(autouse=True)
def _required() -> None:
    require()


@pytest.mark.parametrize("release", RELEASES)
def test_stop_leaves_nothing(release: str, spaces_of: Spaces) -> None:
    """Not even while a job runs; and the cached tree is as it was."""
    cluster = LightCluster(release, NODES, PLAIN_LUA)
    cluster.start()
    cluster.wait_job(cluster.sbatch("--wrap=sleep 600"), ["RUNNING"])
    spaces = spaces_of(cluster.name)
    assert len(_traces(cluster.name, spaces)) > 10

    cluster.stop()

    assert _traces(cluster.name, spaces) == []
    assert not cluster.alive
    cluster.stop()  # once more does no harm


def test_a_stopped_cluster_can_start_again() -> None:
    """With nothing remembered."""
    cluster = LightCluster("24.11", NODES, PLAIN_LUA)
    with cluster:
        first = cluster.sbatch("--hold", "--wrap=true")
    with cluster:
        assert cluster.run(["squeue", "-h"]).stdout == ""
        assert cluster.sbatch("--hold", "--wrap=true") == first


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_death_of_the_caller_ends_its_cluster(number: int, spaces_of: Spaces) -> None:
    """Whatever it died of."""
    name = f"caller-{os.getpid()}-{number}"
    argv = [sys.executable, "-c", CALLER, name, PLAIN_LUA["job_submit.lua"]]
    caller = subprocess.Popen(argv, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL)  # fmt: skip
    assert caller.stdout is not None
    assert caller.stdout.readline() == "up\n"
    spaces = spaces_of(name)

    caller.send_signal(number)
    caller.wait(timeout=20)
    caller.stdout.close()

    assert _wait(lambda: _traces(name, spaces) == []), _traces(name, spaces)


def test_remains_of_a_killed_supervisor_are_removed_at_the_next_start(
    spaces_of: Spaces, own_base: Path
) -> None:
    """The kernel ends the processes; folder and control groups wait for the next cluster."""
    cluster = LightCluster("24.11", NODES, PLAIN_LUA)
    cluster.start()
    spaces = spaces_of(cluster.name)
    found = state.load(cluster.name)
    assert found is not None
    os.kill(found.supervisor, signal.SIGKILL)
    cluster.stop()
    assert (own_base / cluster.name).exists()
    assert _wait(lambda: not _in_namespaces("pid", spaces["pid"]))

    with LightCluster("24.11", [NodeSpec("n1")], PLAIN_LUA):
        assert _traces(cluster.name, spaces) == []


def test_two_clusters_with_equal_nodes_do_not_meet() -> None:
    """Each has its own jobs, network and control groups."""
    with (
        LightCluster("24.11", NODES, PLAIN_LUA) as one,
        LightCluster("26.05", NODES, PLAIN_LUA) as two,
    ):
        jobs = {each.release: each.sbatch("--wrap=sleep 600") for each in (one, two)}
        for each in (one, two):
            each.wait_job(jobs[each.release], ["RUNNING"])
            assert len(each.run(["squeue", "-h"]).stdout.splitlines()) == 1
        one.stop()

        assert two.job_state(jobs["26.05"]) == "RUNNING"


def test_a_name_is_taken_once() -> None:
    """The second cluster of a name is refused and the first lives on."""
    name = f"taken-{os.getpid()}"
    with LightCluster("24.11", [NodeSpec("n1")], PLAIN_LUA, name=name) as first:
        with pytest.raises(StartError, match=f"called {name} is running already"):
            LightCluster("24.11", [NodeSpec("n1")], PLAIN_LUA, name=name).start()
        assert first.node_states() == {"n1": "idle"}


def test_a_configuration_slurm_refuses_ends_the_start_with_its_words() -> None:
    """At once, and with nothing left."""
    conf = {**PLAIN_LUA, "hpcmgr.conf": "NodeName=n1 CPUs=4 Gres=gpu:1\nNonsense=1\n"}
    cluster = LightCluster("24.11", [NodeSpec("n1")], conf)
    started = time.monotonic()

    with pytest.raises(LightClusterError, match="Nonsense"):
        cluster.start()
    assert time.monotonic() - started < 30  # sooner than any wait in vain
    assert not (state.BASE / cluster.name).exists()
