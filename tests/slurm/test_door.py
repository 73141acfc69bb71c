"""The read-only door on a real Slurm: who sees what, and that nobody's submission waits for it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lightcluster.enter import Completed
from lightcluster.site import ReferenceSite
from tests.slurm.probe import submit

pytestmark = pytest.mark.slurm

PORT = 7321
SPEAK = """
import json, socket, sys
sys.path.insert(0, "/opt/hpcmgr")
from hpcmgr.service.doorwire import line_of, payload_of
from hpcmgr.slurm import munge

def say(line):
    with socket.create_connection(("ctl", 7321), 5) as door:
        door.settimeout(8)
        door.sendall(line)
        door.shutdown(socket.SHUT_WR)
        got = b""
        while part := door.recv(65536):
            got += part
    return json.loads(got) if got else {}

def ask(**request):
    return say(line_of(munge.encode(payload_of(request))))
"""


def speak(site: ReferenceSite, script: str, user: str = "alice") -> dict[str, Any]:
    """Run Python that can ``say`` a line at the door and ``ask`` properly; its output is JSON."""
    done = site.run(["python3", "-c", SPEAK + script], user=user, check=True)
    said = json.loads(done.stdout)
    assert isinstance(said, dict)
    return said


def explain(site: ReferenceSite, what: str, user: str = "alice", *options: str) -> Completed:
    return site.run(["hpcmgr", "explain", what, *options], user=user)


@pytest.fixture(name="job")
def _job(site: ReferenceSite) -> str:
    """A job of alice's whose submission the journal shows."""
    site.wait_until(lambda: "door for users" in site.service.log, 10, "the door")  # type: ignore[union-attr]
    job_id = submit(site, "--gres=compute:8").split("\n")[0]
    site.wait_until(
        lambda: json.loads(explain(site, job_id, "root", "--json").stdout)["journal"],
        10,
        "the journal to be written",
    )
    return job_id


def test_the_owner_explains_her_job_with_all_candidates(site: ReferenceSite, job: str) -> None:
    """Alice cannot read the journal's file; the door shows her the records of her job."""
    hidden = site.run(["cat", "/var/lib/hpcmgr/service/journal.sqlite"], user="alice")
    assert hidden.returncode != 0
    done = explain(site, job, "alice", "--json")
    story = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    assert story["job"]["binding"]["gres"] == "gpu:a100"
    assert {c["profile"] for c in story["journal"][0]["candidates"]} > {"a100-80g", "t4"}
    told = explain(site, job).stdout
    assert re.search(r"(?m)^a100-80g +1 x gpu:a100 .* chosen", told), told
    for term in story["journal"][0]["candidates"][0]["terms"]:
        assert re.search(rf"(?m)^{term} ", told), told


def test_accounts_tell_of_a_job_that_slurm_has_forgotten(site: ReferenceSite, job: str) -> None:
    """After its end sacct has the comment too; a job that neither knows is named in plain words."""
    program = """
import sys
from hpcmgr.service.story import _comment_in_accounts
from hpcmgr.slurm.command import run
print(_comment_in_accounts(sys.argv[1], run))
"""
    command = ["env", "PYTHONPATH=/opt/hpcmgr", "python3", "-c", program]
    site.run(["scancel", job], check=True)

    def kept(job_id: str) -> str:
        return site.run([*command, job_id], user="alice", check=True).stdout

    site.wait_until(lambda: kept(job).startswith("hpcmgr:{"), 20, "the accounts to know the job")
    assert kept("99999").strip() == "None"
    done = explain(site, "99999")
    assert done.returncode == 1
    assert "Slurm knows no job 99999" in done.stderr


def test_a_trace_explains_from_a_compute_node_too(site: ReferenceSite, job: str) -> None:
    """The client finds the controller by asking Slurm, from any host of the cluster."""
    trace = json.loads(explain(site, job, "alice", "--json").stdout)["job"]["trace"]
    done = site.node("t401").run(["hpcmgr", "explain", trace, "--json"], user="alice")

    assert json.loads(done.stdout)["journal"][0]["request"] == "compute:8", done.stderr


def test_another_user_sees_what_slurm_shows_him_and_no_journal(
    site: ReferenceSite, job: str
) -> None:
    """Bob gets the job's own comment, a plain word why no more, and exit 4; root sees all."""
    done = explain(site, job, "bob", "--json")
    story = json.loads(done.stdout)

    assert done.returncode == 4
    assert "to its owner only" in done.stderr
    assert story["journal"] == []
    assert story["job"]["request"] == "compute:8"
    trace = story["job"]["trace"]
    assert explain(site, trace, "bob").returncode == 1
    assert "a100" not in explain(site, trace, "bob").stdout
    for user in ("root", "slurm"):
        said = speak(site, f"print(json.dumps(ask(op='explain', trace='{trace}')))", user)
        assert len(said["records"]) == 1


def test_a_credential_is_good_once_and_for_its_request_only(site: ReferenceSite, job: str) -> None:
    """Replayed, bent, forged, made for something else, or lifted into another request: refused."""
    story = json.loads(explain(site, job, "alice", "--json").stdout)
    said = speak(
        site,
        f"""
own = munge.encode(payload_of({{"op": "explain", "trace": "{story["job"]["trace"]}"}}))
bent = own[:40] + ("A" if own[40] != "A" else "B") + own[41:]
print(json.dumps({{
    "bent": say(line_of(bent)),
    "first": say(line_of(own)),
    "again": say(line_of(own)),
    "forged": say(line_of("MUNGE:" + "A" * 200 + ":")),
    "foreign": say(line_of(munge.encode('{{"v":1,"op":"explain","trace":"t-1234"}}'))),
    "plain": say(b'{{"v":1,"for":"hpcmgr-door","op":"explain","uid":0,"trace":"t-1234"}}\\n'),
    "beside": say(json.dumps({{"v": 1, "credential": munge.encode(payload_of({{"op": "no"}})),
        "op": "explain", "trace": "{story["job"]["trace"]}"}}).encode() + b"\\n"),
}}))
""",
    )
    codes = {name: answer.get("error_code") for name, answer in said.items()}

    assert codes == {
        "bent": "credential",
        "first": None,
        "again": "credential",
        "forged": "credential",
        "foreign": "bad-request",
        "plain": "bad-request",
        "beside": "bad-request",
    }
    assert "used before" in said["again"]["detail"]
    assert len(said["first"]["records"]) == 1


def test_an_expired_credential_is_refused(site: ReferenceSite) -> None:
    """A credential of one second's life, used after two, and the answer says that it is too old."""
    said = speak(
        site,
        """
import subprocess, time
own = subprocess.run(["munge", "--ttl=1", "-s", payload_of({"op": "explain", "trace": "t-1234"})],
                     capture_output=True, text=True, check=True).stdout.strip()
time.sleep(3)
print(json.dumps(say(line_of(own))))
""",
    )

    assert said["error_code"] == "credential"
    assert "expired" in said["detail"]


def test_a_held_job_can_be_explained_by_its_owner(site: ReferenceSite) -> None:
    """Submitted while the service was away: the binding that came later is its owner's to see."""
    site.stop_service()
    job_id = submit(site, "--gres=compute:8").split("\n")[0]
    site.start_service()
    site.wait_job(job_id, ["RUNNING"], 40)
    site.wait_until(
        lambda: json.loads(explain(site, job_id, "alice", "--json").stdout)["journal"],
        20,
        "the binding in the journal",
    )

    assert (
        json.loads(explain(site, job_id, "alice", "--json").stdout)["journal"][0]["kind"] == "bind"
    )
    assert json.loads(explain(site, job_id, "bob", "--json").stdout)["journal"] == []


def test_quote_asks_the_service_and_works_it_out_where_it_is_away(site: ReferenceSite) -> None:
    """The same answer from both; where the door does not answer, that is said."""
    asked = ["hpcmgr", "quote", "compute:8", "--json"]
    site.wait_until(
        # Until the service has seen that the jobs of the test before have gone.
        lambda: json.loads(site.run(asked, user="alice").stdout)["binding"]["gres"] == "gpu:a100",
        60,
        "all devices to be free",
    )
    served = site.run(asked, user="alice")
    site.stop_service()
    alone = site.run(asked, user="alice")
    words = explain(site, "t-12345678").stderr
    one, other = json.loads(served.stdout), json.loads(alone.stdout)

    assert (one["source"], other["source"]) == ("service", "slurm")
    assert one["binding"] == other["binding"]
    assert one["binding"]["gres"] == "gpu:a100"
    assert "nothing listens on ctl:7321" in alone.stderr
    assert "nothing listens on ctl:7321" in words


def test_without_munge_the_client_says_so_and_tells_what_the_job_knows(
    site: ReferenceSite, job: str
) -> None:
    """No munge program, no munge daemon: a plain message, and the job's own story all the same."""
    programs = "for p in scontrol python3 sh env; do ln -sf $(command -v $p) /tmp/bare/; done"
    site.run(["sh", "-c", f"mkdir -p /tmp/bare; {programs}"], check=True)
    absent = site.run(
        ["env", "PATH=/tmp/bare", "/usr/local/bin/hpcmgr", "explain", job], user="alice"
    )
    site.stop_daemon("munged")
    try:
        mute = site.run(["hpcmgr", "quote", "compute:8"], user="alice")
    finally:
        site.start_daemon("munged")

    assert absent.returncode == 4, absent.stderr
    assert "munge is not installed" in absent.stderr
    assert "1 x gpu:a100" in absent.stdout
    assert "munge" in mute.stderr
    assert "Traceback" not in mute.stderr + absent.stderr


FLOOD = """
import os, socket, threading, time
end = time.monotonic() + 12
sent = [0, 0]

def garbage(kind):
    while time.monotonic() < end:
        try:
            with socket.create_connection(("ctl", 7321), 1) as door:
                door.settimeout(1)
                sent[0] += 1
                if kind == 0:
                    door.sendall(os.urandom(70000))
                elif kind == 1:
                    door.sendall(line_of("MUNGE:" + os.urandom(30).hex() + ":"))
                    door.recv(1000)
                elif kind == 2:
                    time.sleep(1)
                else:
                    door.sendall(b'[' * 60000 + b'\\n')
                    door.recv(1000)
        except OSError:
            sent[1] += 1

threads = [threading.Thread(target=garbage, args=(i % 4,)) for i in range(40)]
[t.start() for t in threads]
[t.join() for t in threads]
print(json.dumps(sent))
"""


def test_a_flooded_door_holds_back_no_submission(site: ReferenceSite) -> None:
    """Garbage, forged credentials, mute and overlong visitors: every job is still bound at once,
    none is held for want of an answer. (The shim waits longer here than the 50 ms it should: this
    machine is slow by itself, and what counts is that nobody queues behind the door's visitors.)"""
    before = site.controller.read("/etc/slurm/job_submit.lua")
    patient = "s/hpcmgr.configure{.*}/hpcmgr.configure{limit_ms=1000}/"
    site.run(["sed", "-i", patient, "/etc/slurm/job_submit.lua"], check=True)
    site.close_breaker()
    flood = site.spawn(["python3", "-c", SPEAK + FLOOD], user="bob", log="flood.log")
    outcomes = []
    try:
        while flood.alive:
            done = site.run(
                ["sbatch", "--parsable", "--gres=compute:t4:2", "--wrap=true"], user="alice"
            )
            outcomes.append(done.stderr)
    finally:
        flood.stop()
        site.controller.write("/etc/slurm/job_submit.lua", before)
        site.close_breaker()

    assert len(outcomes) >= 20
    unbound = [said for said in outcomes if "becomes 1 x gpu:t4" not in said]
    assert not unbound, f"{len(unbound)} of {len(outcomes)}: {unbound[0]}{site.logs_tail()}"
    assert json.loads(flood.log.splitlines()[-1])[0] > 100
    # And the door is open again for those who speak properly.
    quote = site.run(["hpcmgr", "quote", "compute:8", "--json"], user="alice")
    assert json.loads(quote.stdout)["source"] == "service", quote.stderr
