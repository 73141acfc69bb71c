"""Slurm on a host, as the doctor sees it: files and answers are made up here, see also
tests/slurm/test_doctor.py."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from hpcmgr.configure import node_plan
from hpcmgr.discovery import discover, open_host
from hpcmgr.doctor import Finding, SlurmHost, slurm_checks
from hpcmgr.doctor.job_checks import job_findings
from hpcmgr.doctor.node_checks import published_findings
from hpcmgr.doctor.slurm_checks import slurm_findings
from hpcmgr.errors import CommandError, CommandMissing
from hpcmgr.inventory import Health
from hpcmgr.inventory.drift import compare
from hpcmgr.profile import load_library
from hpcmgr.render import render_node
from hpcmgr.settings import Site
from hpcmgr.slurm.command import Output

GOOD = {
    "slurm.conf": (
        "ClusterName=x\nSlurmctldHost=ctl\nSelectType=select/cons_tres\n"
        "SelectTypeParameters=CR_Core_Memory\nProctrackType=proctrack/cgroup\n"
        "TaskPlugin=task/cgroup,task/affinity\nJobSubmitPlugins=lua\nInclude hpcmgr.conf\n"
        "PartitionName=main Nodes=ALL Default=YES\n"
    ),
    "cgroup.conf": "ConstrainDevices=yes\n",
    "gres.conf": "",
    "job_submit.lua": "",
}
NODE = (
    "NodeName=mix01 State={state} Gres={gres} GresUsed=gpu:a100:0(IDX:N/A) CPUTot=64 "
    "RealMemory=1 Partitions=main Reason={reason}"
)


class Answers:
    """Slurm's programs, as far as the doctor asks them."""

    def __init__(self, **answers: object) -> None:
        self.answers: Mapping[str, object] = answers

    def __call__(self, *argv: str, **_: object) -> Output:
        word = "running" if "RUNNING" in argv else argv[0]
        answer = self.answers.get(word, "")
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Output):
            return answer
        if argv[0] == "munge":
            return Output(0, "MUNGE:AwQFAAA0123456789abcdef:\n", "")
        return Output(0, "slurm 24.11.5" if "-V" in argv else str(answer), "")


class Host:
    """A compute node with Slurm, all well."""

    def __init__(self, folder: Path, recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(slurm_checks, "CONFIGLESS", (folder / "configless",))
        self.folder = folder
        self.conf, self.etc = folder / "slurm", folder / "etc"
        self.conf.mkdir()
        self.etc.mkdir()
        self.site = Site.model_validate(
            {"slurm": {"conf_dir": self.conf}, "service": {"socket": folder / "socket"}}
        )
        found = discover(open_host(recorded), load_library())
        self.inventory = found.model_copy(update={"node": "mix01"})
        self.plan = node_plan(self.inventory, self.site)
        self.gres = ",".join(f"{key}:{count}" for key, count in self.plan.gres.items())
        self.programs: set[str] = set()
        for name, text in GOOD.items():
            (self.conf / name).write_text(text)
        (self.conf / "hpcmgr.conf").write_text(
            f"GresTypes=compute,gpu,npu,vram\nTaskProlog={self.etc}/task_prolog.sh\n"
        )
        for name, text in render_node(self.plan).items():
            (self.etc / name).write_text(text)
            (self.etc / name).chmod(0o755)

    def look(self, **answers: object) -> list[Finding]:
        """What the doctor says of Slurm and the jobs."""
        known = {"scontrol": self.node(), **answers}
        here = SlurmHost(
            self.site, "mix01", self.plan, self.etc, Answers(**known),
            lambda name: name if name in self.programs else None,
        )  # fmt: skip
        return [*slurm_findings(here), *job_findings(here, self.inventory)]

    def node(self, state: str = "IDLE", gres: str = "", reason: str = "none") -> str:
        """scontrol's line."""
        return NODE.format(state=state, gres=gres or self.gres, reason=reason)


@pytest.fixture(name="host")
def _host(tmp_path: Path, hosts: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, hosts / "mixed", monkeypatch)


def rules_of(findings: list[Finding]) -> list[tuple[str, str]]:
    """Severity and rule of each."""
    return [(f.severity.value, f.rule) for f in findings]


def test_a_node_on_which_all_is_well(host: Host) -> None:
    """Nothing is said."""
    assert rules_of(host.look()) == []


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("slurm.conf", GOOD["slurm.conf"].replace("Include hpcmgr.conf\n", ""),
         [("error", "not-included"), ("error", "task-prolog")]),
        ("cgroup.conf", "ConstrainDevices=no\n", [("error", "constrain-devices")]),
        ("hpcmgr.conf", "GresTypes=compute,gpu,npu,vram\nTaskProlog=/nowhere/x.sh\n",
         [("error", "task-prolog")]),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong(
    host: Host, file: str, text: str, expected: list[tuple[str, str]]
) -> None:
    """hpcmgr.conf that nobody includes, devices open to all, a prolog that is not there."""
    (host.conf / file).write_text(text)
    found = rules_of(host.look())

    assert all(one in found for one in expected)


def test_a_device_table_of_other_devices(host: Host) -> None:
    """sync has not run since they changed, or never."""
    (host.etc / "devices").write_text("# old\n")
    (host.etc / "task_prolog.sh").unlink()
    texts = [f.text for f in host.look() if f.rule == "node-files"]

    assert texts == [f"{host.etc}/devices is out of date", f"{host.etc}/task_prolog.sh is missing"]


@pytest.mark.parametrize(
    ("state", "severity"),
    [("DOWN", "error"), ("IDLE*", "error"), ("INVAL", "error"), ("IDLE+DRAIN", "warning"),
     ("MIXED", "")],
)  # fmt: skip
def test_the_state_that_slurm_has_the_node_in(host: Host, state: str, severity: str) -> None:
    """With Slurm's reason."""
    line = host.node(state, reason="disk [root@2026-03-01T00:00:00]")
    found = [f for f in host.look(scontrol=line) if f.rule == "node-state"]

    assert [f.severity.value for f in found] == ([severity] if severity else [])
    assert all("disk" in f.text for f in found)


def test_slurm_counts_other_devices(host: Host) -> None:
    """As the plan of the devices that are here has them."""
    found = host.look(scontrol=host.node(gres="gpu:a100:2,compute:3"))

    assert next(f.text for f in found if f.rule == "gres-count").startswith(
        "Slurm counts other devices than there are: compute 3 instead of"
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (CommandMissing(("scontrol",)), ("unknown", "scontrol")),
        (CommandError(("scontrol",), 1, "Unable to contact"), ("error", "slurmctld")),
        (Output(1, "", "slurm_load_node error: Unable to contact slurm controller"),
         ("error", "slurmctld")),
        (Output(1, "", "Node mix01 not found"), ("warning", "node-unknown")),
    ],
)  # fmt: skip
def test_slurm_that_does_not_answer(host: Host, answer: object, expected: tuple[str, str]) -> None:
    """Not installed is not looked at; no answer is an error."""
    assert rules_of(host.look(scontrol=answer)) == [expected]


def test_without_slurm_nothing_is_called_good(host: Host) -> None:
    """Neither files nor programs."""
    (host.conf / "slurm.conf").unlink()
    found = host.look(scontrol=CommandMissing(("scontrol",)), squeue=CommandMissing(("squeue",)))

    assert rules_of(found) == [
        ("unknown", "slurm-conf"), ("unknown", "scontrol"), ("unknown", "squeue"),
    ]  # fmt: skip


def test_a_node_that_gets_its_files_from_the_controller(host: Host) -> None:
    """Configless: slurmd's own copies are read."""
    host.conf.rename(host.folder / "configless")

    assert rules_of(host.look()) == []


def test_munge_that_does_not_work(host: Host) -> None:
    """Nobody can prove who he is."""
    found = host.look(munge=CommandMissing(("munge",)))

    assert rules_of(found) == [("error", "munge")]


def test_a_controller_without_what_the_shim_needs(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """lua-socket and lua-cjson for one release of Lua, and the service's socket."""
    lib = host.folder / "lib"
    monkeypatch.setattr(slurm_checks, "LUA_DIRS", (str(lib),))
    host.programs = {"slurmctld"}
    assert rules_of(host.look()) == [("error", "lua"), ("error", "lua"), ("warning", "service")]

    for path in ("x86_64-linux-gnu/lua/5.1/socket/unix.so", "lua/5.4/cjson.so"):
        (lib / path).parent.mkdir(parents=True)
        (lib / path).touch()
    found = [f for f in host.look() if f.rule == "lua"]
    assert "different releases of Lua (5.1, 5.4)" in found[0].text

    (lib / "lua/5.1").mkdir()
    (lib / "lua/5.1/cjson.so").touch()
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(str(host.folder / "socket"))
        service.listen()
        assert rules_of(host.look()) == []


def test_jobs_that_wait(host: Host) -> None:
    """For the service, or for ever."""
    waiting = "7|JobHeldAdmin|gres/compute:unbound:8\n8|BadConstraints|gres/gpu:1\n9|Priority|\nx\n"
    found = host.look(squeue=waiting)

    assert [(f.rule, f.text) for f in found] == [
        ("unbound", "1 jobs wait for their binding: 7"),
        ("never-starts", "1 jobs wait with BadConstraints: 8"),
    ]


def test_jobs_beside_a_failed_device(host: Host) -> None:
    """One of them may have it."""
    first, *rest = host.inventory.devices
    failed = first.model_copy(update={"health": Health(state="failed", reasons=("gpu is lost",))})
    host.inventory = host.inventory.model_copy(update={"devices": (failed, *rest)})

    found = host.look(running="11\n12\n")
    assert [f.text for f in found] == [f"2 jobs run here while {failed.key} failed: 11, 12"]


def test_what_was_published(host: Host) -> None:
    """Never, long ago, or out of reach."""
    now = host.inventory
    before = now.model_copy(update={"memory_mib": 1, "devices": now.devices[1:]})

    assert rules_of(list(published_findings(compare(None, now), ""))) == [("warning", "published")]
    assert rules_of(list(published_findings(compare(now, now), ""))) == []
    changed = list(published_findings(compare(before, now), ""))
    assert "changed since the last sync: memory of the node" in changed[0].text
    assert rules_of(list(published_findings(None, "no such directory"))) == [
        ("unknown", "published")
    ]
