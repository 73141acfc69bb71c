"""Jobs that come over slurmrestd: the same RPCs, but nothing of sbatch's own: no default
environment, no binding by default, every spelling of GRES as it was sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from lightcluster.enter import Spawned
from lightcluster.site import ReferenceSite
from tests.slurm.probe import allocation

pytestmark = pytest.mark.slurm

SOCKET = "/tmp/rest.sock"
PLUGIN = {"24.11": "v0.0.42", "26.05": "v0.0.45"}
"""A version of the interface that each release has."""
CLIENT = f"""
import http.client, socket, sys
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect("{SOCKET}")
connection.request("POST", sys.argv[1], sys.stdin.read(), {{"Content-Type": "application/json"}})
print(connection.getresponse().read().decode())
"""
SCRIPT = "#!/bin/sh\necho devices $HPCMGR_DEVICES\nsleep 60\n"


@dataclass
class Rest:
    """slurmrestd of alice."""

    site: ReferenceSite
    daemon: Spawned

    def post(self, path: str, body: object) -> dict[str, Any]:
        """What it answers to alice."""
        url = f"/slurm/{PLUGIN[self.site.release]}/job/{path}"
        answer: dict[str, Any] = json.loads(
            self.site.run(
                ["python3", "-c", CLIENT, url], user="alice", input=json.dumps(body), check=True
            ).stdout
        )
        return answer

    def submit(self, **request: object) -> dict[str, Any]:
        """A job with as little as slurmrestd takes."""
        job = {
            "name": "rest", "script": SCRIPT, "environment": ["PATH=/usr/bin:/bin"],
            "current_working_directory": "/shared", "standard_output": "/shared/out/%j",
            "standard_error": "/dev/null", **request,
        }  # fmt: skip
        return self.post("submit", {"job": job})


@pytest.fixture(scope="module", name="daemon")
def _daemon(running_site: ReferenceSite) -> Iterator[Spawned]:
    """slurmrestd on a socket that is alice's alone; nobody needs a token there."""
    line = ["slurmrestd", "-s", "slurmctld", "-a", "rest_auth/local", f"unix:{SOCKET}"]
    daemon = running_site.spawn(line, user="alice", log="slurmrestd.log")
    running_site.wait_until(
        lambda: running_site.run(["test", "-S", SOCKET]).returncode == 0, 20, "slurmrestd"
    )
    yield daemon
    daemon.stop()
    running_site.run(["rm", "-f", SOCKET])


@pytest.fixture
def rest(site: ReferenceSite, daemon: Spawned) -> Rest:
    return Rest(site, daemon)


def gres(site: ReferenceSite, job_id: object) -> str:
    """What a job asks for."""
    line = [
        "squeue",
        "-h",
        "-j",
        str(job_id),
        "-O",
        "tres-per-node:99,tres-per-socket:99,tres-per-task:99",
    ]
    return site.run(line, check=True).stdout


@pytest.mark.parametrize(
    ("request_", "device", "units"),
    [
        ({"tres_per_node": "gres/compute:8"}, "", 8),
        ({"tres_per_node": "compute:npu:8"}, "npu:ascend910b3:1", 8),
        ({"tres_per_node": "gres:compute:t4:2", "tasks": 2}, "gpu:t4:1", 2),
        ({"tres_per_node": "gres/compute=8", "cpus_per_task": 2}, "", 8),
        ({"tres_per_node": "gres/gpu:t4:2"}, "gpu:t4:2", 4),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_a_job_gets_devices_and_their_units(
    rest: Rest, request_: dict[str, object], device: str, units: int
) -> None:
    """Neutral and direct; the answer tells, and explain knows what was neutral."""
    answer = rest.submit(**request_)
    assert not answer["errors"], answer
    job_id, site = str(answer["job_id"]), rest.site
    site.wait_job(job_id, ["RUNNING"], 25)

    assert "units" in answer["job_submit_user_msg"]
    (granted,) = (text for _, text in allocation(site, job_id)[0].values())
    assert f"{device}(IDX:" in granted if device else "(IDX:" in granted
    assert f"compute(CNT:{units})" in granted
    output = f"/shared/out/{job_id}"
    told = site.wait_until(lambda: site.run(["cat", output]).stdout, 20, "the job to tell")
    assert "devices /dev/" in told
    if "compute" in str(request_):
        explained = site.run(["hpcmgr", "explain", job_id], user="alice", check=True).stdout
        assert "bound" in explained


def test_units_per_task(rest: Rest) -> None:
    """As with sbatch: devices where the release keeps them in the steps, a refusal where not."""
    answer = rest.submit(tres_per_task="gres/compute:npu:8", tasks=2, minimum_nodes=1)

    if rest.site.release == "24.11":
        assert answer["errors"][0]["error_number"] == 2072
        assert "loses units per task" in rest.daemon.log
        return
    assert not answer["errors"], answer
    rest.site.wait_job(str(answer["job_id"]), ["RUNNING"], 25)
    assert "gres/npu:ascend910b3" in gres(rest.site, answer["job_id"])


def test_a_refusal_is_in_words_in_slurmrestds_own_output_only(rest: Rest) -> None:
    """The answer has Slurm's number; nothing is queued."""
    (error,) = rest.submit(tres_per_node="gres/compute:800")["errors"]

    assert error["error_number"] == 2072
    assert "compute:800: no device fits" in rest.daemon.log
    assert not rest.site.run(["squeue", "-h"]).stdout


def test_what_hpcmgr_chose_cannot_be_edited(rest: Rest) -> None:
    """Nor can units be given to a job that exists; what is the user's own can."""
    site = rest.site
    bound = site.sbatch("-H", "--gres=compute:8", "--wrap=true")
    plain = site.sbatch("-H", "--wrap=true")
    before = gres(site, bound)
    edits: list[tuple[str, dict[str, object]]] = [
        (bound, {"tres_per_node": "gres/npu:ascend910b3:2"}),
        (bound, {"tres_per_node": ""}),
        (bound, {"tasks": 4}),
        (plain, {"tres_per_node": "gres/compute:8"}),
        (plain, {"tres_per_node": "gres/gpu:t4:1"}),
    ]
    for job_id, edit in edits:
        assert rest.post(job_id, edit)["errors"], edit

    assert gres(site, bound) == before
    assert "gres" not in gres(site, plain)
    assert "managed by hpcmgr" in rest.daemon.log
    assert not rest.post(bound, {"time_limit": {"set": True, "number": 5}})["errors"]
    assert site.run(["squeue", "-h", "-j", bound, "-o", "%l"]).stdout.strip() == "5:00"
