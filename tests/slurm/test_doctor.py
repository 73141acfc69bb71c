"""The doctor, drift and the ledger on a running site."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lightcluster.site import ReferenceSite

pytestmark = pytest.mark.slurm

INVENTORY = "/shared/hpcmgr/inventory"


def doctor(site: ReferenceSite) -> tuple[int, dict[str, tuple[str, str]]]:
    """Exit code on the controller, and the findings about Slurm and jobs by rule; but what late
    binding made of the jobs of other tests."""
    done = site.run(["hpcmgr", "doctor", "--json"])
    report: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, {
        f["rule"]: (f["severity"], f["text"])
        for f in report["findings"]
        if f["layer"] in ("slurm", "job") and f["rule"] != "late-binding"
    }


def test_a_good_controller_is_found_good(site: ReferenceSite) -> None:
    """Files, munge, what the shim needs, the service: real ones, nothing to say."""
    # What devices the machine of the test has, and its exit code with them, is no matter here.
    assert doctor(site)[1] == {}


def test_the_service_that_is_away_and_its_jobs_are_told(site: ReferenceSite) -> None:
    """A job in neutral units waits for it."""
    site.stop_service()
    site.run(["sbatch", "--wrap", "true", "--gres=compute:1"], user="alice", check=True)
    _, found = doctor(site)

    assert found["service"][0] == "warning"
    assert "1 jobs wait for their binding" in found["unbound"][1]
    assert set(found) == {"service", "unbound"}


def test_devices_that_are_open_to_all_are_an_error(site: ReferenceSite) -> None:
    """And so is hpcmgr.conf that slurm.conf does not include."""
    cgroup = site.run(["cat", "/etc/slurm/cgroup.conf"], check=True).stdout
    slurm = site.run(["cat", "/etc/slurm/slurm.conf"], check=True).stdout
    try:
        site.controller.write("/etc/slurm/cgroup.conf", cgroup.replace("Devices=yes", "Devices=no"))
        site.controller.write("/etc/slurm/slurm.conf", slurm.replace("Include hpcmgr.conf", ""))
        code, found = doctor(site)
    finally:
        site.controller.write("/etc/slurm/cgroup.conf", cgroup)
        site.controller.write("/etc/slurm/slurm.conf", slurm)

    assert code == 1
    assert found["constrain-devices"][0] == "error"
    assert found["not-included"][0] == "error"


def test_a_node_that_slurm_has_drained_is_told_on_it(site: ReferenceSite) -> None:
    """With the reason."""
    site.run(["scontrol", "update", "NodeName=t402", "State=DRAIN", "Reason=fan is loud"],
             check=True)  # fmt: skip
    try:
        done = site.node("t402").run(["hpcmgr", "doctor", "--node", "t402", "--json"])
    finally:
        site.run(["scontrol", "update", "NodeName=t402", "State=RESUME"], check=True)
    states = [f for f in json.loads(done.stdout)["findings"] if f["rule"] == "node-state"]

    assert [f["severity"] for f in states] == ["warning"]
    assert "fan is loud" in states[0]["text"]


def test_the_ledger_of_a_site(site: ReferenceSite) -> None:
    """Filled on the controller from what the nodes published. Two nodes are one recording here:
    each of their serial numbers stands twice, which is told and mixes nothing up."""
    for _ in range(2):
        for node in ("t401", "t402"):
            site.sync(node)
        update = site.run(["hpcmgr", "ledger", "--update"], check=True)
    shown = site.run(["hpcmgr", "ledger", "--json", "node=t4[01-02]"], check=True).stdout
    devices = json.loads(shown)["devices"]
    wrong = site.run(["hpcmgr", "ledger", "nod=t401"])

    assert [(d["node"], d["state"]) for d in devices] == [
        *[("t401", "present")] * 4, *[("t402", "present")] * 4,
    ]  # fmt: skip
    assert all("stands on several devices: t401" in device["note"] for device in devices)
    assert "devices of 4 nodes taken into" in update.stderr
    assert wrong.returncode == 2
    assert "did you mean 'node'?" in wrong.stderr


def test_sync_says_that_positions_change(site: ReferenceSite) -> None:
    """The published inventory knew one card less: Slurm would count the others anew."""
    path = f"{INVENTORY}/mix01.json"
    before = site.run(["cat", path], check=True).stdout
    known = json.loads(before)
    known["devices"] = known["devices"][:2]
    try:
        site.controller.write(path, json.dumps(known))
        done = site.node("mix01").run(
            ["hpcmgr", "sync", "--host", "/host", "--node", "mix01", "--json"], check=True
        )
    finally:
        site.controller.write(path, before)
    changes = json.loads(done.stdout)["changes"]

    assert [change["what"] for change in changes] == ["new", "positions"]
    assert "0 was /dev/davinci5, is now /dev/davinci4" in done.stderr
