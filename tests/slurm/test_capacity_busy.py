"""A busy mixed cluster: every figure of ``hpcmgr capacity`` beside Slurm's own, counted anew."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lightcluster.demo.crowd import crowded
from lightcluster.demo.figures import compare, told
from lightcluster.site import ReferenceSite
from tests.slurm.probe import submit

pytestmark = pytest.mark.slurm


def test_every_figure_agrees_with_slurms_own(site: ReferenceSite) -> None:
    """Devices, units, memory, CPUs; by type, node, partition, user and account; Prometheus too."""
    with crowded(site):
        figures = compare(site)
        data = told(site, "--by=class")
        text = site.run(["hpcmgr", "capacity", "--prometheus"], user="alice", check=True).stdout
        html = site.run(["hpcmgr", "capacity", "--html", "-"], user="alice").stdout

    assert len(figures) > 60
    assert [figure for figure in figures if not figure.agrees] == []
    types = {each["gres"]: each for each in data["types"]}
    _what_slurm_does_not_tell(types)
    classes = {each["name"]: each for each in data["classes"]}
    assert classes["infer"]["held"]["devices"] == 1
    assert (classes["train"]["waiting"]["jobs"], classes["-"]["waiting"]["devices"]) == (1, 12)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    used = {s.labels["type"]: s.value for s in families["hpcmgr_capacity_devices"].samples
            if s.labels["state"] == "used"}  # fmt: skip
    assert used == {key: each["devices"]["used"] for key, each in types.items()}
    assert "fan 3 &lt;slow&gt; &amp; loud" in html
    assert re.search(r'title="npu:ascend910b3 \d: job \d+, alice, science, until ', html)


def _what_slurm_does_not_tell(types: dict[str, dict[str, dict[str, int]]]) -> None:
    """t402's last T4 has too few CPUs beside it; one NPU is reserved; t401 takes nothing."""
    t4, npu = types["gpu:t4"], types["npu:ascend910b3"]
    assert (t4["devices"]["free"], t4["devices"]["usable"]) == (1, 0)
    assert t4["unusable"] == [{"lacks": "CPUs", "devices": 1, "nodes": "t402"}]
    assert t4["devices"]["out"] == 3
    assert npu["devices"]["reserved"] == 1
    assert npu["largest"] == {
        "gres": "npu:ascend910b3", "devices": 4, "units": 32, "nodes": "npu01",
    }  # fmt: skip


CHANGES = """
PreemptType=preempt/qos
PreemptMode=REQUEUE
PartitionName=other Nodes=t401 AllowAccounts=biology State=UP
"""


@pytest.fixture(name="changed")
def _changed(site: ReferenceSite) -> Iterator[ReferenceSite]:
    """QOS high may stop jobs of QOS normal; alice may use it. A partition is for others."""
    conf = site.controller.read("/etc/slurm/slurm.conf")
    for line in (
        "add qos high preempt=normal", "modify user alice set qos=normal,high",
    ):  # fmt: skip
        site.run(["sacctmgr", "-i", *line.split()], check=True)
    site.write_conf({"slurm.conf": conf + CHANGES})
    site.restart_daemon("slurmctld")
    site.wait_nodes_idle()
    try:
        yield site
    finally:
        site.reset()
        site.write_conf({"slurm.conf": conf})
        site.restart_daemon("slurmctld")
        site.run(["sacctmgr", "-i", "modify", "user", "alice", "set", "qos=normal"])
        site.run(["sacctmgr", "-i", "delete", "qos", "high"])
        site.wait_nodes_idle()


def test_preemption_frees_what_is_said_and_a_user_sees_his_partitions(
    changed: ReferenceSite,
) -> None:
    """All 8 NPUs of npu01 are held by a normal job: a job of QOS high for all of them starts, one
    of QOS normal does not."""
    site = changed
    low = submit(site, "--gres=npu:ascend910b3:8", "-w", "npu01", user="bob").split("\n")[0]
    site.wait_job(low, ["RUNNING"], 30)
    npu = {each["gres"]: each for each in told(site)["types"]}["npu:ascend910b3"]

    assert npu["preemptable"] == {"devices": 8, "units": 64, "by": {"QOS high": 8}}
    told_to_people = site.run(["hpcmgr", "capacity"], user="alice", check=True)
    assert re.search(r"npu:ascend910b3 +QOS high +~8 +~10 +~80", told_to_people.stdout)
    assert "PreemptType=preempt/qos" in told_to_people.stderr

    normal = submit(site, "--gres=npu:ascend910b3:8", "-w", "npu01").split("\n")[0]
    high = submit(site, "--gres=npu:ascend910b3:8", "-w", "npu01", "--qos=high").split("\n")[0]
    site.wait_job(high, ["RUNNING"], 40)
    site.wait_job(normal, ["PENDING"], 5)
    npu = {each["gres"]: each for each in told(site)["types"]}["npu:ascend910b3"]
    assert npu["preemptable"]["devices"] == 0

    # Whose partition it is not, does not see it, unless he asks for all.
    def partitions(*options: str, user: str = "alice") -> list[str]:
        done = site.run(["hpcmgr", "capacity", "--json", "--by=partition", *options], user=user,
                        check=True)  # fmt: skip
        return sorted(each["name"] for each in json.loads(done.stdout)["partitions"])

    assert partitions() == ["main"]
    assert partitions("--all") == partitions(user="root") == ["main", "other"]
    said = site.run(["hpcmgr", "capacity"], user="alice").stderr
    assert "what alice may use: partition main (--all: everything)" in said


def test_fit_tells_the_start_as_slurm_does_and_without_the_service(site: ReferenceSite) -> None:
    """The devices that are free start now; those of a running job at the end of its limit, to
    which Slurm's own answer and hpcmgr's agree."""

    def fit(request: str) -> dict[str, object]:
        done = site.run(["hpcmgr", "capacity", "--fit", request, "--json"], user="alice",
                        check=True)  # fmt: skip
        found = json.loads(done.stdout)
        assert isinstance(found, dict)
        return found

    job = submit(site, "--gres=compute:npu:64", "-t", "30", "-w", "npu01").split("\n")[0]
    site.wait_job(job, ["RUNNING"], 30)
    end = site.run(["squeue", "-h", "-j", job, "-o", "%e"]).stdout.strip()

    free = fit("compute:npu:16")
    assert (free["fits_now"], free["start_now"], free["on"]) == (True, True, "mix01")
    later = fit("compute:npu:24")
    assert (later["fits_now"], later["start"], later["on"]) == (False, end, "npu01")
    assert str(later["basis"]).startswith("Slurm itself")
    site.stop_service()
    away = fit("compute:npu:24")
    assert (away["start"], away["on"]) == (end, "npu01")
    assert str(away["basis"]).startswith("the time limits of 1 running jobs")
    never = site.run(["hpcmgr", "capacity", "--fit", "compute:800"], user="alice")
    assert never.returncode == 1
    assert "no device fits" in never.stdout


def test_fit_says_why_free_devices_do_not_start_a_job(site: ReferenceSite) -> None:
    """A maintenance comes before its limit; a shorter one starts. Jobs that wait for other devices
    delay Slurm's own estimate, and not the answer."""

    def fit(request: str) -> dict[str, Any]:
        done = site.run(["hpcmgr", "capacity", "--fit", request, "--json"], user="alice",
                        check=True)  # fmt: skip
        found = json.loads(done.stdout)
        assert isinstance(found, dict)
        return found

    maint = ("reservationname=repair", "starttime=now+30minutes", "duration=7200", "users=root",
             "nodes=t401,t402", "flags=maint")  # fmt: skip
    site.run(["scontrol", "create", "reservation", *maint], check=True)
    try:
        long, short = fit("compute:t4:2 -t 60"), fit("compute:t4:2 -t 10")
    finally:
        site.run(["scontrol", "delete", "reservationname=repair"], check=True)
    assert (long["fits_now"], long["start_now"], short["start_now"]) == (True, False, True)
    assert "reservation repair takes t[401-402]" in long["why"]
    assert long["start"] > short["start"]

    job = submit(site, "--gres=compute:npu:64", "-t", "30", "-w", "npu01").split("\n")[0]
    site.wait_job(job, ["RUNNING"], 30)
    submit(site, "--gres=npu:ascend910b3:8", "-t", "60", "-w", "npu01", user="bob")
    other, same = fit("compute:t4:2 -t 60"), fit("compute:npu:8 -t 60")
    assert (other["start_now"], other["why"]) == (True, None)
    assert "no waiting job asks for these devices" in other["basis"] or not other["ahead"]
    assert same["ahead"] == 1
    if not same["start_now"]:
        assert "jobs that wait for such devices" in same["why"]


def test_watch_leaves_the_terminal_as_it_was(site: ReferenceSite) -> None:
    """Ctrl-C ends it with exit 0, on the screen that was there before, with the cursor shown;
    while slurmctld is away the last figures stay."""
    line = "timeout --preserve-status -s INT 8 hpcmgr capacity --watch --interval 1"
    seen = site.run(
        ["script", "-qec", line, "/dev/null"], user="alice", timeout=60,
        env={"TERM": "xterm-256color", "COLUMNS": "150", "LINES": "40"},
    )  # fmt: skip
    assert seen.returncode == 0
    assert seen.stdout.startswith("\x1b[?1049h")
    assert seen.stdout.rstrip().endswith("\x1b[?1049l")
    assert seen.stdout.count("\x1b[?25h") >= seen.stdout.count("\x1b[?25l") > 0
    assert seen.stdout.count("npu:ascend910b3") > 2
    assert "Traceback" not in seen.stdout


def test_without_slurmctld_the_error_says_so(site: ReferenceSite) -> None:
    """Exit 1, Slurm's own words, no traceback, nothing on stdout."""
    site.stop_daemon("slurmctld")
    try:
        done = site.run(["hpcmgr", "capacity"], user="alice")
    finally:
        site.start_daemon("slurmctld")
        site.wait_nodes_idle()

    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(r"hpcmgr: error: scontrol .*Unable to contact slurm controller", done.stderr)
    assert "Traceback" not in done.stderr
