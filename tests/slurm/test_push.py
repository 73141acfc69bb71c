"""Nodes that send their inventory to the service, on a real cluster with real munge."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lightcluster.enter import Completed
from lightcluster.site import ReferenceSite
from lightcluster.testing import require
from tests.slurm.conftest import RELEASES
from tests.slurm.test_door import speak

pytestmark = pytest.mark.slurm

FOLDER = "/var/lib/hpcmgr/pushed"
SEND = """
from hpcmgr.inventory import NodeInventory
from hpcmgr.inventory.packed import digest_of, pack

def line(node, word, sha256=None, accept=False, **other):
    request = {"op": "publish", "node": node, "sha256": sha256 or digest_of(word), "accept": accept}
    return line_of(munge.encode(payload_of(request | other)), word)

def inventory(name, *serials):
    cpu = {"sockets": 1, "cores_per_socket": 1, "threads_per_core": 1}
    devices = [{"vendor": "nvidia", "kind": "gpu", "model": "A100", "serial": s,
                "files": ["/dev/nvidia" + s[-1]]} for s in serials]
    return pack(NodeInventory.model_validate(
        {"node": name, "cpu": cpu, "memory_mib": 1, "devices": devices}))
"""


@pytest.fixture(name="site", params=RELEASES, scope="module")
def _site(request: pytest.FixtureRequest) -> Iterator[ReferenceSite]:
    """A site that runs, and then turns to pushing: the folder is the controller's own."""
    require()
    with ReferenceSite(request.param, {"mix01": "mixed", "t401": "t4x4"}) as site:
        site.controller.run(["install", "-d", "-o", "slurm", FOLDER], check=True)
        site.write_site(publish="push", inventory=FOLDER)
        site.stop_service()
        site.start_service()
        site.wait_until(lambda: "door for users" in site.service.log, 20, "the door")  # type: ignore[union-attr]
        yield site


def sync(site: ReferenceSite, node: str, *options: str, host: str = "/host") -> Completed:
    return site.node(node).run(["hpcmgr", "sync", "--host", host, "--node", node, *options])


def stored(site: ReferenceSite, node: str) -> str:
    return site.controller.run(["cat", f"{FOLDER}/{node}.json"], check=True).stdout


def test_what_nodes_send_is_rendered_and_in_the_ledger(site: ReferenceSite) -> None:
    """Nothing is written to a shared folder; the files for Slurm are those of a shared one."""
    before = site.run(["cat", "/etc/slurm/gres.conf"], check=True).stdout
    for node in ("mix01", "t401"):
        done = sync(site, node)
        assert done.returncode == 0, done.stderr
        assert "the service at " in done.stderr
        shared = site.node(node).run(
            ["hpcmgr", "discover", "--host", "/host", "--json"], check=True
        )
        mine, theirs = json.loads(stored(site, node)), json.loads(shared.stdout)
        assert mine["devices"] == theirs["devices"]
        assert site.node(node).run(["ls", FOLDER]).returncode != 0
    site.render()
    site.run(["hpcmgr", "ledger", "--update"], check=True)
    ledger = json.loads(site.run(["hpcmgr", "ledger", "--json"], check=True).stdout)

    assert site.run(["cat", "/etc/slurm/gres.conf"], check=True).stdout == before
    assert {device["node"] for device in ledger["devices"]} == {"mix01", "t401"}
    owner = site.controller.run(["stat", "-c", "%U %a", f"{FOLDER}/t401.json"], check=True).stdout
    assert owner.split() == ["slurm", "644"]


def test_drift_is_told_and_a_sudden_loss_refused(site: ReferenceSite) -> None:
    """The node compares with what the service has: it keeps nothing itself."""
    sync(site, "t401")
    again = sync(site, "t401", "--json")
    assert json.loads(again.stdout)["changes"] == []
    tidy = (
        "cp -r /host /tmp/bare && cd /tmp/bare && rm -rf commands dev.txt sys/bus/pci proc/driver"
    )
    site.node("t401").run(["sh", "-c", tidy], check=True)
    site.node("t401").write("/tmp/bare/host.yaml", "schema: hpcmgr.host/1\nhostname: t401\n")
    lost = sync(site, "t401", host="/tmp/bare")

    assert lost.returncode == 3, lost.stderr
    assert "all 4 devices of t401 are gone" in lost.stderr
    assert len(json.loads(stored(site, "t401"))["devices"]) == 4
    assert sync(site, "t401", "--accept", host="/tmp/bare").returncode == 0
    assert json.loads(stored(site, "t401"))["devices"] == []
    assert sync(site, "t401").returncode == 0


def test_only_root_and_slurm_send(site: ReferenceSite) -> None:
    """Alice may neither send nor read; a credential is good once, and for its body only."""
    sync(site, "t401")
    before = stored(site, "t401")
    said = speak(
        site,
        SEND
        + """
word = inventory("t401", "100001")
print(json.dumps({"send": say(line("t401", word)), "read": ask(op="inventory", node="t401")}))
""",
    )
    assert {name: answer["error_code"] for name, answer in said.items()} == {
        "send": "forbidden",
        "read": "forbidden",
    }
    assert stored(site, "t401") == before
    for user in ("root", "slurm"):
        node = f"by-{user}"
        said = speak(site, SEND + f"""
print(json.dumps(say(line("{node}", inventory("{node}", "{user}-1")))))
""", user)  # fmt: skip
        assert said == {"v": 1, "published": node, "devices": 1}


def test_what_is_forged_replayed_or_too_much_is_refused(site: ReferenceSite) -> None:
    """Each with its reason; nothing of it reaches the folder, and the service lives on."""
    sync(site, "t401")
    before = stored(site, "t401")
    said = speak(
        site,
        SEND
        + """
import base64, os, zlib
mine = inventory("new01", "200001", "200002")
good = line("new01", mine)
other = inventory("new01", "200009")
own = munge.encode(payload_of({"op": "publish", "node": "new01", "sha256": digest_of(mine)}))
bomb = base64.b64encode(zlib.compress(b" " * (64 << 20), 9)).decode()[:60000]
answers = {
    "first": say(good),
    "replayed": say(good),
    "swapped": say(line_of(own, other)),
    "unsigned": say(b'{"v":1,"op":"publish","node":"new01","body":"' + mine.encode() + b'"}\\n'),
    "forged": say(line_of("MUNGE:" + "A" * 200 + ":", mine)),
    "misnamed": say(line("t401", mine)),
    "elsewhere": say(line("../../etc/hpcmgr/site", mine)),
    "garbage": say(line("new01", base64.b64encode(os.urandom(2000)).decode())),
    "bomb": say(line("new01", bomb)),
    "oversize": say(line("new01", "A" * 70000)),
    "nobody": say(line("new01", "")),
    "empty": say(line("new01", inventory("new01"))),
}
print(json.dumps(answers))
""",
        "root",
    )
    codes = {name: answer.get("error_code") for name, answer in said.items()}

    assert codes == {
        "first": None,
        "replayed": "credential",
        "swapped": "bad-request",
        "unsigned": "bad-request",
        "forged": "credential",
        "misnamed": "bad-request",
        "elsewhere": "bad-request",
        "garbage": "bad-request",
        "bomb": "bad-request",
        "oversize": "bad-request",
        "nobody": "bad-request",
        "empty": "refused",
    }
    assert "used before" in said["replayed"]["detail"]
    assert stored(site, "t401") == before
    assert len(json.loads(stored(site, "new01"))["devices"]) == 2
    names = site.controller.run(["ls", "-A", FOLDER], check=True).stdout.split()
    assert [name for name in names if name.startswith(".")] == []
    quote = site.run(["hpcmgr", "quote", "compute:1", "--json"], user="alice")
    assert json.loads(quote.stdout)["source"] == "service", quote.stderr


def test_a_node_under_another_ones_name_is_refused(site: ReferenceSite) -> None:
    """mix01 says to be t401: its cards tell. With --accept it is a person's word."""
    sync(site, "mix01")
    sync(site, "t401")
    before = stored(site, "t401")
    done = site.node("mix01").run(["hpcmgr", "sync", "--host", "/host", "--node", "t401"])

    assert done.returncode == 1
    assert "t401 has the devices of mix01" in done.stderr
    assert "--accept" in done.stderr
    assert stored(site, "t401") == before


def test_without_the_service_nothing_is_lost(site: ReferenceSite) -> None:
    """The node says so and writes what its own jobs need; later all is well again."""
    sync(site, "t401")
    before = stored(site, "t401")
    site.stop_service()
    site.node("t401").run(["rm", "-f", "/etc/hpcmgr/devices"], check=True)
    away = sync(site, "t401")
    doctor = site.node("t401").run(["hpcmgr", "doctor", "--node", "t401"])
    site.start_service()
    site.wait_until(lambda: "door for users" in site.service.log, 20, "the door")  # type: ignore[union-attr]
    back = sync(site, "t401")

    assert away.returncode == 1
    assert "nothing listens on ctl:7321" in away.stderr
    assert "Traceback" not in away.stderr + doctor.stderr
    assert site.node("t401").run(["test", "-s", "/etc/hpcmgr/devices"]).returncode == 0
    assert back.returncode == 0
    assert stored(site, "t401") == before


def test_a_configless_node_needs_no_slurm_conf(site: ReferenceSite) -> None:
    """Where site.yaml names the controller, nothing of Slurm's is asked."""
    named = {"door": "ctl:7321"}
    site.write_site(publish="push", inventory=FOLDER, service=named)
    site.stop_service()
    site.start_service()
    site.wait_until(lambda: "door for users on ctl" in site.service.log, 20, "the door")  # type: ignore[union-attr]
    node = site.node("t401")
    bare = ["env", "SLURM_CONF=/nonexistent", "hpcmgr", "sync", "--host", "/host", "--node", "t401"]
    done = node.run(bare)

    assert done.returncode == 0, done.stderr
    assert "the service at ctl:7321" in done.stderr
