"""``hpcmgr capacity`` beside what Slurm's own tools say, while things happen."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from lightcluster.site import ReferenceSite
from tests.slurm.probe import submit

pytestmark = pytest.mark.slurm

UNITS = {"gpu:a100": 8, "gpu:t4": 2, "npu:ascend910b3": 8}
GIB = {"gpu:a100": 80, "gpu:t4": 16, "npu:ascend910b3": 64}


def capacity(site: ReferenceSite, *options: str) -> dict[str, Any]:
    """As an ordinary user."""
    done = site.run(["hpcmgr", "capacity", "--json", *options], user="alice", check=True)
    data = json.loads(done.stdout)
    assert isinstance(data, dict)
    return data


def by_name(items: list[dict[str, Any]], key: str = "gres") -> dict[str, dict[str, Any]]:
    return {item[key]: item for item in items}


def sinfo(site: ReferenceSite) -> dict[str, tuple[str, dict[str, int], dict[str, int]]]:
    """node → (state, devices, devices in use), from sinfo, which prints it in another way."""
    form = "NodeList:40,StateLong:40,Gres:300,GresUsed:300"
    done = site.run(["sinfo", "-h", "-N", "-O", form], check=True)
    found = {}
    for line in done.stdout.splitlines():
        node, state, gres, used = (line[a:b].strip() for a, b in ((0, 40), (40, 80), (80, 380),
                                                                  (380, 680)))  # fmt: skip
        found[node] = (state, _devices(gres), _devices(used))
    return found


def _devices(text: str) -> dict[str, int]:
    return {f"{n}:{t}": int(c) for n, t, c in re.findall(r"\b(gpu|npu):([a-z0-9]+):(\d+)", text)}


@pytest.fixture(name="running")
def _running(site: ReferenceSite) -> Iterator[list[str]]:
    """Three NPU jobs and a T4 job run; t401 drains with a reason, t402 is down with another.

    slurmd would bring a node that is DOWN back at once (ReturnToService=2), and with its last
    message even one that has stopped: so that node is drained first.
    """
    jobs = [submit(site, "--gres=compute:npu:8", "-w", "npu01").split("\n")[0] for _ in range(3)]
    jobs.append(submit(site, "--gres=compute:t4:2", "-w", "t401").split("\n")[0])
    for job in jobs:
        site.wait_job(job, ["RUNNING"], 30)
    site.stop_daemon("slurmd@t402")
    for node, state, reason in (
        ("t401", "DRAIN", "fan 3 = dead, State=IDLE [see #12]"),
        ("t402", "DRAIN", "board swap"),
        ("t402", "DOWN", "board swap"),
    ):
        site.run(
            ["scontrol", "update", f"NodeName={node}", f"State={state}", f"Reason={reason}"],
            check=True,
        )
    try:
        yield jobs
    finally:
        site.start_daemon("slurmd@t402")


@pytest.mark.usefixtures("running")
def test_figures_agree_with_sinfo_while_jobs_run_and_nodes_are_out(site: ReferenceSite) -> None:
    """Total, used, free and lost by type and node are those of Slurm's own tool."""
    told = capacity(site, "--by=node")
    types, nodes = by_name(told["types"]), by_name(told["nodes"], "name")
    seen = sinfo(site)

    assert set(nodes) == set(seen)
    for name, (_, have, used) in seen.items():
        rows = by_name(nodes[name]["types"])
        assert {key: row["devices"]["total"] for key, row in rows.items()} == have
        assert {key: row["devices"]["used"] for key, row in rows.items() if key in used} == used
    for key, each in types.items():
        lost = sum(
            have.get(key, 0) - used.get(key, 0)
            for state, have, used in seen.values()
            if re.search("drain|down", state)
        )
        total = sum(have.get(key, 0) for _, have, _ in seen.values())
        in_use = sum(used.get(key, 0) for _, _, used in seen.values())
        devices = each["devices"]
        assert (devices["total"], devices["used"], devices["out"]) == (total, in_use, lost), key
        assert devices["free"] == total - in_use - lost
        assert each["units"]["free"] == devices["free"] * UNITS[key]
        assert each["memory_gib"]["total"] == total * GIB[key]
    assert types["npu:ascend910b3"]["devices"]["used"] == 3
    assert types["gpu:t4"]["devices"] == {
        "total": 8, "used": 1, "out": 7, "reserved": 0, "free": 0, "usable": 0,
    }  # fmt: skip
    assert types["gpu:t4"]["largest"] is None


@pytest.mark.usefixtures("running")
def test_what_is_lost_stands_there_with_reason_user_and_time(site: ReferenceSite) -> None:
    """As sinfo's %E, %u and %H tell it, even where the reason looks like keys of a record."""
    told = capacity(site)
    lost = by_name(told["lost"], "nodes")
    times = site.run(["sinfo", "-h", "-N", "-o", "%N %H"]).stdout
    when = dict(line.split() for line in times.splitlines())

    assert set(lost) == {"t401", "t402"}
    assert lost["t401"]["reason"] == "fan 3 = dead, State=IDLE [see #12]"
    assert lost["t401"]["by"] == "root"
    assert lost["t401"]["since"] == when["t401"]
    assert (lost["t401"]["devices"], lost["t401"]["still_used"]) == (3, 1)
    assert lost["t402"]["reason"] == "board swap"
    assert lost["t402"]["devices"] == 4
    assert told["age_s"] < 20


@pytest.mark.usefixtures("running")
def test_sums_over_types_nodes_and_the_whole_are_the_same(site: ReferenceSite) -> None:
    """Also the units, against Slurm's own count of compute on its nodes."""
    told = capacity(site, "--by=node")
    for what in ("devices", "units", "memory_gib"):
        for word, value in told["total"][what].items():
            assert value == sum(each[what][word] for each in told["types"]), (what, word)
            assert value == sum(each[what][word] for each in told["nodes"]), (what, word)
    configured = site.run(["sinfo", "-h", "-N", "-o", "%G"]).stdout
    assert told["total"]["units"]["total"] == sum(
        map(int, re.findall(r"compute:(\d+)", configured))
    )
    assert told["notes"] == []


def test_the_largest_request_that_fits_now_runs_now(site: ReferenceSite) -> None:
    """What 'fits-now' offers for each type is asked, and starts at once."""
    submit(site, "--gres=compute:npu:16", "-w", "npu01")
    site.wait_until(
        lambda: by_name(capacity(site)["types"])["npu:ascend910b3"]["devices"]["used"] == 2,
        20,
        "the first job to show",
    )
    for key, each in by_name(capacity(site)["types"]).items():
        largest = each["largest"]
        assert largest["units"] == largest["devices"] * UNITS[key]
        job = submit(site, f"--gres={key}:{largest['devices']}").split("\n")[0]
        site.wait_job(job, ["RUNNING"], 20)
        node = site.run(["squeue", "-h", "-j", job, "-o", "%N"]).stdout.strip()
        assert node in site.run(["scontrol", "show", "hostnames", largest["nodes"]]).stdout.split()


def test_free_devices_without_free_cpus_are_not_usable(site: ReferenceSite) -> None:
    """15 of 16 CPUs taken: 8 NPUs are free on npu01 and none is usable (2 CPUs a device)."""
    job = submit(site, "-w", "npu01", "-c15", "--mem=16").split("\n")[0]
    site.wait_job(job, ["RUNNING"], 20)
    told = capacity(site, "--by=node")
    devices = by_name(told["nodes"], "name")["npu01"]["devices"]
    largest = by_name(told["types"])["npu:ascend910b3"]["largest"]

    assert (devices["free"], devices["usable"]) == (8, 0)
    assert (largest["nodes"], largest["devices"]) == ("mix01", 2)


def test_reservations_and_maintenance_hold_their_devices(site: ReferenceSite) -> None:
    """A node for bob, one NPU for bob, a node in maintenance: reserved, reserved, out."""
    for what in (
        ["nodes=t401"],
        ["nodes=npu01", "nodecnt=1", "tres=gres/npu:ascend910b3=1"],
        ["nodes=t402", "flags=maint"],
    ):
        site.run(
            ["scontrol", "create", "reservation", "starttime=now", "duration=10", "users=bob",
             *what],
            check=True,
        )  # fmt: skip
    names = re.findall(
        r"ReservationName=(\S+)", site.run(["scontrol", "show", "reservations"]).stdout
    )
    try:
        # Slurm looks for reservations that have begun every ten seconds or so.
        site.wait_until(
            lambda: site.run(["scontrol", "show", "nodes"]).stdout.count("RESERVED") == 3,
            30,
            "the nodes to be reserved",
        )
        told = capacity(site, "--by=node")
        nodes = by_name(told["nodes"], "name")
        lost = by_name(told["lost"], "nodes")

        assert nodes["t401"]["devices"]["reserved"] == 4
        assert nodes["npu01"]["devices"]["reserved"] == 1
        assert nodes["npu01"]["devices"]["usable"] == 7
        assert nodes["t402"]["devices"]["out"] == 4
        assert lost["t402"]["reason"].startswith("reservation bob")
        # Jobs of others do run beside the one reserved NPU.
        job = submit(site, "--gres=compute:npu:8", "-w", "npu01").split("\n")[0]
        site.wait_job(job, ["RUNNING"], 20)
        site.run(["scancel", job])
    finally:
        site._cancel_all(20)
        for name in names:
            site.run(["scontrol", "delete", f"ReservationName={name}"], check=True)
        site.wait_until(
            lambda: "RESERVED" not in site.run(["scontrol", "show", "nodes"]).stdout,
            30,
            "the reservations to be gone",
        )


def test_a_node_with_fewer_devices_than_configured_is_out(site: ReferenceSite) -> None:
    """INVAL: Slurm counts the three that came and gives no job there; the units betray the rest."""
    good = site.controller.read("/etc/slurm/gres.conf")
    broken = "\n".join(
        line.replace("nvidia[2-3]", "nvidia2") if "NodeName=t[" in line else line
        for line in good.splitlines()
    )
    assert broken.strip() != good.strip()
    site.write_conf({"gres.conf": broken + "\n"})
    try:
        site.restart_daemon("slurmd@t402")
        site.wait_until(
            lambda: "inval" in site.run(["sinfo", "-h", "-N", "-n", "t402", "-o", "%T"]).stdout,
            30,
            "t402 to be invalid",
        )
        told = capacity(site)
        lost = by_name(told["lost"], "nodes")

        assert lost["t402"]["devices"] == 3
        assert "(3 < 4)" in lost["t402"]["reason"]
        assert told["notes"] == ["t402: Slurm has compute:8, by the profiles it is 6"]
    finally:
        site.write_conf({"gres.conf": good})
        site.restart_daemon("slurmd@t402")
        site.wait_until(
            lambda: "inval" not in site.run(["sinfo", "-h", "-N", "-n", "t402", "-o", "%T"]).stdout,
            30,
            "t402 to be valid again",
        )


def test_piped_it_is_plain_columns_and_needs_no_service(site: ReferenceSite) -> None:
    """No frame, no colour; the age of the figures goes to stderr; every form works."""
    site.stop_service()
    for options in ([], ["--by=node"], ["--by=partition"], ["--all"]):
        done = site.run(["hpcmgr", "capacity", *options], user="alice", check=True)
        assert done.stdout.isascii()
        assert "npu:ascend910b3" in done.stdout
        assert re.search(r"figures of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, \d+\.\d s old", done.stderr)
    lines = site.run(["hpcmgr", "capacity"], user="alice").stdout.splitlines()
    headers = lines[0].split()
    [total] = [line.split() for line in lines if line.startswith("total")]
    assert headers[:3] == ["type", "nodes", "devices"]
    assert total[:2] == ["total", "19"]


def test_how_a_user_set_up_slurms_tools_does_not_matter(site: ReferenceSite) -> None:
    """Formats, filters and time forms in the environment change nothing."""
    site.run(["scontrol", "update", "NodeName=t401", "State=DRAIN", "Reason=x y"], check=True)
    env = {"SLURM_TIME_FORMAT": "relative", "SQUEUE_PARTITION": "none", "SINFO_FORMAT": "%N"}
    odd = json.loads(
        site.run(["hpcmgr", "capacity", "--json"], user="alice", env=env, check=True).stdout
    )
    plain = capacity(site)

    assert odd["lost"] == plain["lost"]
    assert odd["lost"][0]["since"]
