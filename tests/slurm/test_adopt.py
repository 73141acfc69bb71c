"""A hand-written site moves over node by node on a real Slurm, with jobs on its devices."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from lightcluster.site import ReferenceSite
from lightcluster.testing import require
from tests.slurm.conftest import RELEASES
from tests.slurm.test_apply import CONF, held_by, opened, run_on

pytestmark = pytest.mark.slurm

MACHINES = {"t401": "t4x4", "t402": "t4x4", "mix01": "mixed"}
FAST = {"node_limit": 25.0, "drain_limit": 40.0, "backups": 3}
NODES = """\
GresTypes=gpu,npu
NodeName=t[401-402] CPUs=16 Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=4000 \
Gres=gpu:t4:4 Features=old Weight=7
NodeName=mix01 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 RealMemory=4000 \
Gres=gpu:a100:1,npu:ascend910b3:2
"""
# On these machines nvidia1 is the runtime's device 0. mix01 has its NPUs the wrong way round.
GRES = """\
# written by hand
NodeName=t[401-402] Name=gpu Type=t4 File=/dev/nvidia1,/dev/nvidia0 Cores=0-7
NodeName=t[401-402] Name=gpu Type=t4 File=/dev/nvidia[2-3] Cores=8-15
NodeName=mix01 Name=gpu Type=a100 File=/dev/nvidia0 Cores=0-15
NodeName=mix01 Name=npu Type=ascend910b3 File=/dev/davinci5,/dev/davinci4 Cores=16-31
"""


@pytest.fixture(scope="module", params=RELEASES, name="site")
def _site(request: pytest.FixtureRequest) -> Iterator[ReferenceSite]:
    """A site whose own files name every node; hpcmgr knows the machines."""
    require()
    site = ReferenceSite(request.param, MACHINES, site={"apply": FAST})
    try:
        site.start()
        site.run(["install", "-d", "-m", "1777", "/shared/out"], check=True)
        slurm = site.controller.read(f"{CONF}/slurm.conf").replace("Include hpcmgr.conf\n", NODES)
        slurm = slurm.replace("JobSubmitPlugins=lua\n", "")
        site.run(["sh", "-c", f"rm -rf {CONF}/hpcmgr.conf {CONF}/hpcmgr.d"], check=True)
        site.write_conf({"slurm.conf": slurm, "gres.conf": GRES})
        site.restart_slurm()
        yield site
    finally:
        site.stop()


def report(site: ReferenceSite, *options: str, code: int) -> dict[str, Any]:
    done = site.run(["hpcmgr", "adopt", "--json", *options])
    assert done.returncode == code, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["schema"] == "hpcmgr.adopt/1"
    return document


def follow(site: ReferenceSite, steps: list[dict[str, str]]) -> None:
    """Do what the steps say, as an administrator would with an editor."""
    for file in ("slurm.conf", "gres.conf"):
        lines: list[str | None] = [*site.controller.read(f"{CONF}/{file}").splitlines()]
        added: list[tuple[int, str]] = []
        for step in steps:
            name, _, number = step["place"].partition(":")
            if name != file:
                continue
            _one(step["do"], int(number or 0), lines, added)
        for place, text in sorted(added, reverse=True):
            lines.insert(place, text)
        text = "".join(f"{line}\n" for line in lines if line is not None)
        site.controller.write(f"{CONF}/{file}", text)


def _one(do: str, number: int, lines: list[str | None], added: list[tuple[int, str]]) -> None:
    units = re.fullmatch(r"add (\S+) to Gres=", do)
    setting = re.match(r"set (JobSubmitPlugins=\S+);", do)
    if units:
        lines[number - 1] = re.sub(r"(Gres=\S+)", rf"\1,{units[1]}", lines[number - 1] or "")
    elif setting:
        added.append((0, setting[1]))
    elif do.startswith("above this line add: "):
        added.append((number - 1, do.removeprefix("above this line add: ")))
    elif do.startswith("at the end add: "):
        added.append((len(lines), do.removeprefix("at the end add: ")))
    elif do.startswith("remove "):
        lines[number - 1] = None
    else:
        becomes = re.fullmatch(r"NodeName=(\S+) becomes NodeName=(\S+)", do)
        assert becomes, do
        line = lines[number - 1]
        assert line is not None
        lines[number - 1] = line.replace(f"NodeName={becomes[1]} ", f"NodeName={becomes[2]} ")


def hand_over(site: ReferenceSite, node: str) -> dict[str, Any]:
    """Remove the node's lines from the site's files; returns what adopt said of it."""
    (found,) = report(site, "--nodes", node, code=3 if node == "mix01" else 0)["nodes"]
    follow(site, found["hand_over"])
    return dict(found)


def apply(site: ReferenceSite) -> tuple[int, str]:
    """``hpcmgr apply`` touches no file of the site's own."""
    before = own(site)
    done = site.run(["hpcmgr", "apply", "--yes"], timeout=180)
    assert own(site) == before
    return done.returncode, done.stdout + done.stderr


def own(site: ReferenceSite) -> dict[str, str]:
    names = ("slurm.conf", "gres.conf", "accounting.conf")
    return {name: site.controller.read(f"{CONF}/{name}") for name in names}


def ours(site: ReferenceSite, name: str) -> str:
    return site.controller.read(f"{CONF}/{name}")


def test_a_site_moves_over_node_by_node_and_nothing_dies(site: ReferenceSite) -> None:
    """First a node whose devices keep their order, under its job; then one whose devices change
    their order: it waits with its own old lines until its job is gone."""
    steady = run_on(site, "t401", "gpu:t4:2", "steady")
    wrong = run_on(site, "mix01", "npu:ascend910b3:1", "wrong")
    first, second = opened(site, "steady"), opened(site, "wrong")
    document = report(site, code=3)
    moves = {n["nodes"]: (n["move"], {d["kind"] for d in n["differs"]}) for n in document["nodes"]}
    assert moves == {
        "t[401-402]": ("any-time", set()),
        "mix01": ("devices-free", {"order-differs"}),
    }

    begun = site.run(["hpcmgr", "adopt", "--begin"])
    assert begun.returncode == 0, begun.stderr
    follow(site, document["first_steps"])
    said = hand_over(site, "t401")
    assert said["site_yaml"] == [
        "- nodes: t401", "  features: [old]", "  memory_mib: 4000", "  options: {Weight: 7}"
    ]  # fmt: skip
    code, words = apply(site)
    assert code == 0, words
    assert "gres.conf is the site's own" in words
    assert "t401: came back with the counts it should have" in words
    assert "NodeName=t401 " in ours(site, "hpcmgr.conf")
    assert "NodeName=t401 Name=gpu" in ours(site, "hpcmgr-gres.conf")
    assert "t402" not in ours(site, "hpcmgr.conf")
    assert opened(site, "steady") == first
    assert site.job_state(steady) == site.job_state(wrong) == "RUNNING"
    unit = site.sbatch("-w", "t401", "--gres=compute:2", "--wrap=sleep 60", "-o", "/dev/null")
    site.wait_job(unit, ["RUNNING"])
    assert held_by(site, unit, "t401", "gpu:t4").isdisjoint({0, 1})

    hand_over(site, "mix01")
    code, words = apply(site)
    assert code == 4, words
    assert f"mix01 waits (its devices would move): {wrong} (alice, R)" in words
    kept = "NodeName=mix01 Name=npu Type=ascend910b3 File=/dev/davinci5,/dev/davinci4 Cores=16-31\n"
    assert kept in ours(site, "hpcmgr-gres.conf")
    other = run_on(site, "mix01", "npu:ascend910b3:1", "other")
    assert opened(site, "wrong") == second
    assert opened(site, "other").isdisjoint(second)

    site.run(["scancel", wrong, other])
    site.wait_until(lambda: site.node_states()["mix01"] == "idle", 30, "mix01 to be free")
    code, words = apply(site)
    assert code == 0, words
    assert "File=/dev/davinci[4-5]" in ours(site, "hpcmgr-gres.conf")
    again = run_on(site, "mix01", "npu:ascend910b3:1", "again")
    assert opened(site, "again") == {"/dev/davinci4"}
    assert site.job_state(steady) == site.job_state(again) == "RUNNING"

    hand_over(site, "t402")
    code, words = apply(site)
    assert code == 0, words
    assert "NodeName=t[401-402] " in ours(site, "hpcmgr.conf")
    assert {n["owner"] for n in report(site, code=0)["nodes"]} == {"hpcmgr"}
    assert opened(site, "steady") == first
    assert site.job_state(steady) == "RUNNING"
    assert "Killing job" not in site.log("slurmctld")


def test_lines_that_nobody_remembers_are_not_replaced_under_jobs(site: ReferenceSite) -> None:
    """The node's lines were removed and there is no memory of them: apply refuses, jobs live."""
    site.reset()
    job = run_on(site, "t401", "gpu:t4:2", "lost")
    site.run(["rm", f"{CONF}/hpcmgr.d/in-force.json"], check=True)
    mine = {name: ours(site, name) for name in ("hpcmgr.conf", "hpcmgr-gres.conf")}
    for name, text in mine.items():
        site.controller.write(f"{CONF}/{name}", text.replace("t[401-402]", "t402"))

    code, words = apply(site)

    assert code == 1, words
    assert "t401: jobs run there, but no file defines the node any more" in words
    assert site.job_state(job) == "RUNNING"
    site.write_conf(mine)
    site.run(["scancel", job])
