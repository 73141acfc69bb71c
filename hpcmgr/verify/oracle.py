"""The oracle is Slurm: a proof copy of the files, the site's own slurmd and slurmctld, and a look
at whether one node of every kind registers.

Nothing of the site is touched: no live daemon is spoken to, no munge is needed, everything lies in
one temporary directory and ends with it. Every wait has a limit.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from hpcmgr.errors import CommandError
from hpcmgr.slurm.capability import Release
from hpcmgr.slurm.command import run
from hpcmgr.verify.configuration import Configuration, GresRecord, Node, Shape
from hpcmgr.verify.finding import Finding, Place, Proof, Report, Severity, error
from hpcmgr.verify.proof_files import ProofCopy, write_proof
from hpcmgr.verify.slurm_lines import LineReader, best_excuse
from hpcmgr.verify.stage import Stage, StageError
from hpcmgr.verify.values import Machine

SEARCH_PATH = ("/usr/sbin", "/usr/local/sbin", "/sbin", "/opt/slurm/sbin", "/opt/slurm/bin")
SECONDS_OF_ONE_LOOK = 15.0
SECONDS_TO_START = 20.0
SECONDS_TO_REGISTER = 20.0
NODES_AT_ONCE = 24
ROUNDS_OF_UNKNOWN_KEYS = 4

_BAD_STATES = frozenset({"DOWN", "DRAIN", "INVAL", "INVALID", "INVALID_REG", "FAIL", "ERROR"})


@dataclass(frozen=True, slots=True)
class Programs:
    """Slurm's own programs; None where one is not installed."""

    slurmd: str | None
    slurmctld: str | None
    scontrol: str | None


def find_programs() -> Programs:
    """Look on PATH and where distributions put daemons."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *SEARCH_PATH))
    return Programs(
        *(shutil.which(name, path=path) for name in ("slurmd", "slurmctld", "scontrol"))
    )


def installed_release(programs: Programs) -> Release | None:
    """The release of the installed daemons, None if there are none or they do not say."""
    program = programs.slurmd or programs.slurmctld
    if program is None:
        return None
    try:
        return Release.parse(run(program, "-V", timeout=10.0).stdout)
    except (CommandError, ValueError):
        return None


def prove(c: Configuration, programs: Programs, report: Report) -> None:
    """Prove the configuration; findings and how far it went are added to ``report``."""
    if programs.slurmd is None:
        report.remarks.append("no slurmd is installed here: the rules alone were used")
        return
    shapes, unprovable = _representatives(c)
    report.remarks += unprovable
    if not shapes:
        report.remarks.append("there is no node to prove")
        return
    report.proof = Proof.PARTIAL
    with Stage() as stage:
        try:
            stage.open_network()
            private = True
        except StageError as problem:
            private = False
            report.remarks.append(
                f"no node could register: this machine gives no private network ({problem}); "
                "run 'hpcmgr verify' as root, or outside of a sandbox"
            )
        proof = _Proof(c, programs, stage, report, shapes)
        proof.look()
        if private and proof.register() and not unprovable:
            report.proof = Proof.FULL


def _representatives(c: Configuration) -> tuple[list[Shape], list[str]]:
    """One shape of every kind that can be proven here, and remarks on the others."""
    kinds: dict[object, Shape] = {}
    detected: list[str] = []
    for shape in c.shapes:
        if c.detection(shape.names[0]):
            detected.append(shape.label)
            continue
        kinds.setdefault((_kind(shape.node), tuple(map(_record_kind, shape.records))), shape)
    remarks = []
    if detected:
        remarks.append(
            f"{', '.join(detected[:5])}: what AutoDetect finds is known on the node only; "
            "its GRES were not proven"
        )
    return list(kinds.values()), remarks


def _kind(node: Node) -> tuple[tuple[str, str], ...]:
    skipped = {"nodeaddr", "nodehostname", "port", "weight", "state", "reason", "realmemory"}
    return tuple(sorted((k, v) for k, v in node.keys.items() if k not in skipped))


def _record_kind(record: GresRecord) -> tuple[tuple[str, str], ...]:
    pairs = record.entry.pairs
    return tuple((p.key.lower(), p.value) for p in pairs if p.key.lower() != "nodename")


class _Proof:
    """One proof: the copy, the stage and the report."""

    def __init__(
        self,
        c: Configuration,
        programs: Programs,
        stage: Stage,
        report: Report,
        shapes: Sequence[Shape],
    ) -> None:
        self.c = c
        self.programs = programs
        self.stage = stage
        self.report = report
        self.shapes = shapes
        self.copy = self._write()
        self.reader = LineReader(c, self.copy, list(report.findings))

    def _write(self, unknown: Iterable[str] = ()) -> ProofCopy:
        nodes = [shape.node for shape in self.shapes]
        directory, user = self.stage.directory, self.stage.user
        return write_proof(self.c, nodes, directory, user, frozenset(unknown))

    def look(self) -> None:
        """``slurmd -G``: does it read the files, does it see the devices?"""
        for _ in range(ROUNDS_OF_UNKNOWN_KEYS):
            known = set(self.reader.unknown_keys)
            self._look_at(self.shapes[0])
            if self.reader.unknown_keys == known:
                break
            # One unknown key makes Slurm refuse everything: told once, it is left out, so that
            # the rest is proven as well.
            self._write(self.reader.unknown_keys)
        for shape in self.shapes[1:]:
            self._look_at(shape)

    def _look_at(self, shape: Shape) -> None:
        name, place = shape.node.name, shape.node.place
        argv = [self.programs.slurmd or "", "-G", "-N", name, "-f", str(self.copy.slurm_conf)]
        try:
            output = self.stage.run(argv, SECONDS_OF_ONE_LOOK, self._env(shape.node))
        except CommandError as problem:
            self.report.add([_silent(shape, problem.message)])
        else:
            self.report.add(self.reader.read(output.stdout, f"slurmd -G of {name}", place))

    def register(self) -> bool:
        """Start slurmctld and one slurmd of every kind; True if slurmctld ran."""
        if self.programs.slurmctld is None or self.programs.scontrol is None:
            missing = "slurmctld" if self.programs.slurmctld is None else "scontrol"
            self.report.remarks.append(f"no node could register: {missing} is not installed here")
            return False
        log = self.stage.directory / "slurmctld.log"
        argv = [self.programs.slurmctld, "-D", "-c", "-f", str(self.copy.slurm_conf)]
        controller = self.stage.start(argv, log, self._env(None))
        started = _started(controller, log)
        states: dict[str, State] = {}
        if started:
            waiting = iter(self.shapes)
            while group := list(islice(waiting, NODES_AT_ONCE)):
                states |= self._register_group(group)
        text, place = _text(log), Place(self.c.slurm.path)
        self.report.add(self.reader.read(text, "slurmctld", place))
        if not started and not self.report.count(Severity.ERROR):
            self.report.add([self._not_started(best_excuse([text]), place)])
        if started:
            for shape in self.shapes:
                self._judge(shape, states.get(shape.node.name, _NO_STATE))
            if all(states.get(shape.node.name, _NO_STATE).good for shape in self.shapes):
                self._soften()
        return started

    def _soften(self) -> None:
        """Every node is idle: log lines that nobody here knows did no harm to the proof, and may
        be a matter of this machine; they are warnings."""
        self.report.findings = [
            replace(f, severity=Severity.WARNING) if f.rule == "slurm-log" else f
            for f in self.report.findings
        ]

    def _not_started(self, excuse: str, place: Place) -> Finding:
        return error(
            "slurmctld-start",
            place,
            f"slurmctld did not start: {self.copy.as_site(excuse) or 'it said nothing'}",
            "It would not start with these files at the site either.",
            "look at the keys that the message names",
        )

    def _register_group(self, shapes: Sequence[Shape]) -> dict[str, State]:
        daemons = {}
        for shape in shapes:
            name = shape.node.name
            argv = [self.programs.slurmd or "", "-D", "-N", name, "-f", str(self.copy.slurm_conf)]
            daemons[name] = self.stage.start(argv, self._log(name), self._env(shape.node))
        states = self._wait(daemons)
        for shape in shapes:
            name = shape.node.name
            text = _text(self._log(name))
            self.report.add(self.reader.read(text, f"slurmd of {name}", shape.node.place))
            daemons[name].terminate()
        return states

    def _log(self, node: str) -> Path:
        return self.stage.directory / f"slurmd-{node}.log"

    def _judge(self, shape: Shape, state: State) -> None:
        """What the state of a node means, where no finding says so already."""
        name = shape.node.name
        if state.good:
            self.report.proven_nodes.append(name)
        elif state.reason:
            place = shape.node.place
            self.report.add(self.reader.reason(name, state.words, state.reason, place))
        elif not self.report.count(Severity.ERROR):
            # Newer releases give no reason for some faults: then the log has told it.
            excuse = best_excuse([_text(self._log(name))]) or f"its state is {state.words}"
            self.report.add([_silent(shape, self.copy.as_site(excuse))])

    def _wait(self, daemons: Mapping[str, subprocess.Popen[bytes]]) -> dict[str, State]:
        """States of the nodes once each has registered, its slurmd has ended, or time is up."""
        deadline = time.monotonic() + SECONDS_TO_REGISTER
        states: dict[str, State] = {}
        while time.monotonic() < deadline:
            # Asked before the states: what ends in between is seen at the next look.
            ended = {name for name, daemon in daemons.items() if daemon.poll() is not None}
            states = self._states(daemons)
            if all(n in ended or not states.get(n, _NO_STATE).unknown for n in daemons):
                break
            time.sleep(0.1)
        return states

    def _states(self, names: Iterable[str]) -> dict[str, State]:
        argv = [self.programs.scontrol or "", "-o", "show", "node", ",".join(names)]
        try:
            output = self.stage.run(argv, SECONDS_OF_ONE_LOOK, self._env(None))
        except CommandError:
            return {}
        return dict(parse_states(output.stdout))

    def _env(self, node: Node | None) -> dict[str, str]:
        env = {"SLURM_CONF": str(self.copy.slurm_conf)}
        if node is not None:
            machine = self.c.machine(node) or _from_cpus(node)
            env["HWLOC_SYNTHETIC"] = machine.synthetic
        return env


@dataclass(frozen=True, slots=True)
class State:
    """A node's state as scontrol tells it: ``IDLE+DRAIN+INVALID_REG`` and a reason."""

    words: str
    reason: str

    @property
    def unknown(self) -> bool:
        """Whether the node has not registered yet."""
        return not self._bad and ("UNKNOWN" in self.words or "*" in self.words)

    @property
    def good(self) -> bool:
        """Whether the node would take jobs."""
        return not self._bad and not self.unknown

    @property
    def _bad(self) -> bool:
        return bool(_BAD_STATES & set(re.split(r"[+*]+", self.words.upper())))


_NO_STATE = State("UNKNOWN", "")


def parse_states(text: str) -> Iterator[tuple[str, State]]:
    """Node and state of every line of ``scontrol -o show node``."""
    for line in text.splitlines():
        name = re.match(r"NodeName=(\S+)", line)
        state = re.search(r" State=(\S+)", line)
        if name and state:
            # The reason ends with who gave it and when: [root@2026-12-01T04:22:24]
            reason = re.search(r" Reason=(.*?)(?: \[[^\]\s]*@[^\]\s]*\]|\s*$)", line)
            yield name[1], State(state[1], reason[1] if reason else "")


def _started(controller: subprocess.Popen[bytes], log: Path) -> bool:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        if "Running as primary controller" in _text(log):
            return True
        if controller.poll() is not None:
            return False
        time.sleep(0.02)
    return False


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _from_cpus(node: Node) -> Machine:
    """The machine that Slurm makes of a line without sockets: one core in each."""
    text = node.keys.get("cpus", "1")
    return Machine(int(text) if text.isdecimal() and 0 < int(text) <= 4096 else 1, 1, 1)


def _silent(shape: Shape, excuse: str) -> Finding:
    return error(
        "no-registration",
        shape.node.place,
        f"{shape.node.name} did not register: {excuse}",
        "Its slurmd would not serve jobs with these files.",
        "start slurmd on the node in the foreground (slurmd -D -vv) and read its log",
    )
