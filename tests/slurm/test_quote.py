"""A quote is what sbatch would get: the same line means the same to both."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from hpcmgr.cli.sbatchline import read_line
from hpcmgr.submit.request import DISABLE_BIND, ENFORCE_BIND, NTASKS_SET
from lightcluster.enter import Spawned
from lightcluster.site import SOCKET, ReferenceSite
from tests.slurm.probe import allocation, submit

pytestmark = pytest.mark.slurm

LINES = (
    "--gres=compute:8",
    "--gres=compute:8,vram:each:40G -N1",
    "--gres=compute:8 -N2-3",
    "--gres=compute:8 -n4",
    "--gres=compute:8 -N2 -n4 --ntasks-per-node=2 --ntasks-per-socket=1",
    "--gres=compute:8 -c4",
    "--gres=compute:8 -n2 -c2 --mem-per-cpu=10",
    "--gres=compute:8 --mem=2G --mincpus=4",
    "--gres=compute:8 --mem=0",
    "--gres=compute:8 -t60",
    "--gres=compute:8 -t1:30",
    "--gres=compute:8 -t1-2",
    "--gres=compute:8 -t1-2:30:01",
    "--gres=compute:8 -t0",
    "--gres=compute:8 -tUNLIMITED",
    "--gres=compute:8 -p main -A science -q normal -C nvidia",
    "--gres=compute:8 -w mix01 -x t401",
    "--gres=compute:8 --exclusive",
    "--gres=compute:8 --exclusive=user",
    "--gres=compute:8 -s",
    "--gres=compute:8 --array=0-3%2",
    "--gres=compute:8 --gres-flags=enforce-binding",
    "--gres=compute:8 --gres-flags=disable-binding",
    "--gres=compute:8 --sockets-per-node=1 --cores-per-socket=2 --threads-per-core=1",
    "--gres=compute:8 -L matlab --reservation=none",
    "--tres-per-task=gres/compute:8 -n2",
    "--gpus=2",
    "--gpus=a100:2 -N1",
    "--gpus-per-node=a100:1 -N2",
    "--gpus-per-task=1 -n2",
    "--gpus-per-socket=1 --sockets-per-node=1",
    "--gres=gpu:a100:1 --cpus-per-gpu=2 --mem-per-gpu=1G",
)
_BITS = ENFORCE_BIND | NTASKS_SET | DISABLE_BIND
_NOT_READ = {"user_id", "user_name", "default_account", "batch", "min_cpus", "tres_bind"}
"""Who asks, and what sbatch adds and nothing rests on."""


@pytest.fixture(name="ears")
def _ears(site: ReferenceSite) -> Iterator[Spawned]:
    """A service that only listens."""
    site.stop_service()
    script = "/opt/hpcmgr/tests/slurm/fake_service.py"
    service = site.spawn(["python3", script, SOCKET, "listen"], user="slurm", log="ears.log")
    try:
        site.wait_until(lambda: "listening" in service.log, 10, "the listener")
        yield service
    finally:
        service.stop()
        site.start_service()


def test_a_line_is_read_as_sbatch_sends_it(site: ReferenceSite, ears: Spawned) -> None:
    """Field by field, as job_submit.lua sees them."""
    for line in LINES:
        words = shlex.split(line)
        assert _plain(read_line(words, {}).fields) == _plain(_heard(site, ears, words)), line


def _heard(site: ReferenceSite, ears: Spawned, words: list[str]) -> dict[str, Any]:
    """What sbatch makes of the words. On a busy machine the listener may be too slow for the shim,
    which then asks nobody for a while."""
    for _ in range(5):
        before = len(ears.log.splitlines())
        site.run(["sbatch", "-Q", *words, "--wrap=true"], user="alice")
        said = [json.loads(t) for t in ears.log.splitlines()[before:] if "request" in t]
        if said:
            job = said[-1]["request"]["job"]
            assert isinstance(job, dict)
            return job
        site.close_breaker()
    raise AssertionError(f"nothing was heard of {words}")


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in fields.items() if name not in _NOT_READ}
    found["bitflags"] = found.get("bitflags", 0) & _BITS
    if str(found.get("tres_per_task", "")).startswith("cpu="):
        del found["tres_per_task"]  # 24.05 and newer say -c there too
    for name in found:
        if name.startswith("tres_per_"):
            found[name] = found[name].replace("gres/", "").replace("=", ":")
    return found


@pytest.mark.parametrize(
    "line",
    [
        "compute:8",
        "compute:npu:16 -t 30",
        "compute:t4:4 -N1",
        "compute:t4:2 -N2 -n4 -c2",
        "compute:npu:8 --exclusive",
        "compute:npu:16 -c 12 --mem=900",
        "compute:8 -x mix01 --array=0-1",
        "compute:8,vram:each:64G -C npu",
        "compute:t4:2 --gres-flags=disable-binding -t 10",
        "--tres-per-task=gres/compute:t4:2 -N1 -n2",
    ],
)
def test_a_quote_is_what_the_job_becomes(site: ReferenceSite, line: str) -> None:
    """Devices, units, whether their cores are enforced, and what the user reads."""
    words = [f"--gres={word}" if word.startswith("compute:") else word for word in line.split()]
    done = site.run(["hpcmgr", "quote", line, "--json"], user="alice")
    quote = json.loads(done.stdout)
    assert quote["source"] == "service", done.stderr
    if quote["error"]:
        refused = site.run(["sbatch", *words, "--wrap=true"], user="alice")
        assert refused.returncode
        assert quote["error"] in refused.stderr
        return
    job, _, said = submit(site, *words).partition("\n")
    record = json.loads(allocation(site, job)[1]["AdminComment"].removeprefix("hpcmgr:"))

    assert record["binding"] == quote["binding"]
    assert all(message in said for message in quote["messages"])


def test_a_time_limit_shows_how_early_the_job_would_end(site: ReferenceSite) -> None:
    """The term `finish`, once late binding has looked at the queue; without a limit there is
    none."""

    def terms(*options: str) -> set[str]:
        line = ["hpcmgr", "quote", "compute:npu:8", "--json", *options]
        quote = json.loads(site.run(line, user="alice", check=True).stdout)
        return set(quote["candidates"][0]["terms"])

    site.wait_until(lambda: "finish" in terms("--time=30"), 60, "a look at the queue")
    assert "finish" not in terms()
