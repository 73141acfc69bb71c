"""Slurm on this host: files, isolation, credentials, what slurmctld thinks of the node; and on a
controller what the shim needs."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcmgr.doctor.finding import Finding, Layer, Severity
from hpcmgr.errors import CommandError, CommandMissing, CredentialError
from hpcmgr.plan import NodePlan
from hpcmgr.render import render_node
from hpcmgr.settings import Site
from hpcmgr.slurm import munge
from hpcmgr.slurm.capability import NEWEST, Release
from hpcmgr.slurm.command import Output, run
from hpcmgr.slurm.reader import read_release
from hpcmgr.slurm.state import NodeState, parse_nodes
from hpcmgr.verify import Severity as RuleSeverity
from hpcmgr.verify.configuration import FRAGMENT, Configuration, read_configuration
from hpcmgr.verify.rules import apply_rules

Runner = Callable[..., Output]

CONFIGLESS = (Path("/run/slurm/conf"), Path("/var/spool/slurmd/conf-cache"))
"""Where slurmd keeps its files when the controller hands them out."""

LUA_DIRS = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64")
_ROOT_ONLY = "run 'hpcmgr doctor' as root to see it"


@dataclass(frozen=True, slots=True)
class SlurmHost:
    """Slurm as this host has it. ``node_dir``: where ``hpcmgr sync`` writes (/etc/hpcmgr)."""

    site: Site
    node: str
    plan: NodePlan | None
    node_dir: Path
    runner: Runner = run
    which: Callable[[str], str | None] = shutil.which

    @property
    def is_controller(self) -> bool:
        """Whether slurmctld is installed here."""
        return self.which("slurmctld") is not None

    @property
    def conf_dir(self) -> Path | None:
        """The directory with slurm.conf that holds here."""
        places = (self.site.slurm.conf_dir, *CONFIGLESS)
        return next((place for place in places if (place / "slurm.conf").is_file()), None)


def slurm_findings(here: SlurmHost) -> Iterator[Finding]:
    """All checks of this layer."""
    directory = here.conf_dir
    if directory is None:
        yield _say(
            Severity.UNKNOWN, "slurm-conf", str(here.site.slurm.conf_dir),
            f"no slurm.conf in {here.site.slurm.conf_dir}, nor one from a controller",
            "Nothing of Slurm could be looked at.",
            "set slurm.conf_dir in site.yaml, or install Slurm here",
        )  # fmt: skip
    else:
        configuration = read_configuration(directory, _release(here))
        yield from _rules(configuration)
        yield from _included(configuration)
        yield from _prolog(here, configuration)
        yield from _credentials(here, configuration)
        if here.is_controller and "lua" in configuration.plugins("jobsubmitplugins"):
            yield from _lua(LUA_DIRS)
            yield from _service(here.site.service.socket)
    yield from _node_files(here)
    yield from _node(here)


def _say(severity: Severity, rule: str, subject: str, text: str, why: str, fix: str) -> Finding:
    return Finding(Layer.SLURM, severity, rule, subject, text, why, fix)


def _release(here: SlurmHost) -> Release:
    try:
        return Release.parse(here.site.slurm.version or read_release(here.runner))
    except (CommandError, ValueError):
        return NEWEST


def _rules(configuration: Configuration) -> Iterator[Finding]:
    """What 'hpcmgr verify' knows without asking Slurm: errors only, it has the rest."""
    for finding in apply_rules(configuration):
        if finding.severity is RuleSeverity.ERROR:
            text = f"{finding.place}: {finding.text}"
            fix = f"{finding.fix} (hpcmgr verify shows all)"
            yield _say(Severity.ERROR, finding.rule, str(finding.place), text, finding.why, fix)


def _included(configuration: Configuration) -> Iterator[Finding]:
    files = {entry.place.file.name for entry in configuration.slurm.entries if entry.place.file}
    if FRAGMENT not in files:
        yield _say(
            Severity.ERROR, "not-included", str(configuration.slurm.path),
            f"{configuration.slurm.path} does not include {FRAGMENT}",
            "Slurm knows neither the accelerators nor the neutral units.",
            f"put 'Include {FRAGMENT}' into slurm.conf before its partitions",
        )  # fmt: skip


def _prolog(here: SlurmHost, configuration: Configuration) -> Iterator[Finding]:
    if here.plan is None or not here.plan.devices:
        return
    path = configuration.setting("taskprolog")
    if not path:
        yield _say(
            Severity.ERROR, "task-prolog", "", "TaskProlog is not set",
            "Jobs are not told which devices are theirs (ASCEND_RT_VISIBLE_DEVICES and the like).",
            f"include {FRAGMENT}, which sets it, or call {here.node_dir}/task_prolog.sh from yours",
        )  # fmt: skip
    elif not os.access(path, os.X_OK):
        said = "cannot be executed" if Path(path).exists() else "does not exist here"
        yield _say(
            Severity.ERROR, "task-prolog", path, f"TaskProlog {path} {said}",
            "Every task fails or does not know its devices.", "run 'hpcmgr sync' on this node",
        )  # fmt: skip


def _node_files(here: SlurmHost) -> Iterator[Finding]:
    """The TaskProlog's table is the one that the devices of now would give."""
    if here.plan is None or not here.plan.devices:
        return
    for name, text in render_node(here.plan).items():
        path = here.node_dir / name
        try:
            current = path.read_text(encoding="utf-8", errors="replace")
        except PermissionError:
            yield _say(Severity.UNKNOWN, "node-files", str(path), f"{path} cannot be read", "",
                       _ROOT_ONLY)  # fmt: skip
            continue
        except OSError:
            current = None
        if current != text:
            said = "is missing" if current is None else "is out of date"
            yield _say(
                Severity.WARNING, "node-files", str(path), f"{path} {said}",
                "Tasks would be told of other devices than they have.",
                "run 'hpcmgr sync' on this node",
            )  # fmt: skip


def _credentials(here: SlurmHost, configuration: Configuration) -> Iterator[Finding]:
    auth = configuration.setting("authtype", "auth/munge").rpartition("/")[2]
    if auth != "munge":
        return
    try:
        munge.encode("hpcmgr doctor", here.runner)
    except CredentialError as error:
        yield _say(
            Severity.ERROR, "munge", "", f"munge does not work here: {error.message}",
            "Slurm's daemons and commands cannot prove who they are.",
            error.hint or "systemctl status munge",
        )  # fmt: skip


def _lua(directories: tuple[str, ...]) -> Iterator[Finding]:
    """What the shim loads besides itself."""
    have: dict[str, set[str]] = {"socket/unix.so": set(), "cjson.so": set()}
    for directory in directories:
        for name, versions in have.items():
            for pattern in (f"lua/*/{name}", f"*/lua/*/{name}"):
                found = Path(directory).glob(pattern)
                versions |= {path.relative_to(directory).parts[-2 - name.count("/")]
                             for path in found}  # fmt: skip
    for name, package in (("socket/unix.so", "lua-socket"), ("cjson.so", "lua-cjson")):
        if not have[name]:
            yield _say(
                Severity.ERROR, "lua", package, f"{package} is not installed",
                "The shim cannot speak to the service: every request in neutral units is held.",
                f"install {package} (Debian), lua-{package[4:]} (RPM) and restart slurmctld",
            )  # fmt: skip
    both = set.intersection(*have.values())
    if all(have.values()) and not both:
        yield _say(
            Severity.ERROR, "lua", "", "lua-socket and lua-cjson are there for different releases "
            f"of Lua ({', '.join(sorted(set.union(*have.values())))})",
            "slurmctld's plugin has one release of Lua; it needs both for that.",
            "install both for the release that job_submit_lua.so is linked with (ldd)",
        )  # fmt: skip


def _service(path: Path) -> Iterator[Finding]:
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(2.0)
            probe.connect(str(path))
    except PermissionError:
        yield _say(Severity.UNKNOWN, "service", str(path), f"{path} is closed to this user",
                   "Whether the service runs was not seen.", _ROOT_ONLY)  # fmt: skip
    except OSError as error:
        yield _say(
            Severity.WARNING, "service", str(path),
            f"the scoring service does not answer at {path}: {error.strerror or error}",
            "Requests in neutral units are held until it is back.",
            "systemctl status hpcmgr-serve; service.socket in site.yaml must be the same for both",
        )  # fmt: skip


def _node(here: SlurmHost) -> Iterator[Finding]:
    """What slurmctld thinks of this node."""
    try:
        done = here.runner("scontrol", "-o", "-d", "show", "node", here.node, check=False,
                           timeout=15.0)  # fmt: skip
    except CommandMissing:
        yield _say(Severity.UNKNOWN, "scontrol", "", "scontrol is not installed here",
                   "What slurmctld thinks of this node was not seen.", "install Slurm's client "
                   "commands")  # fmt: skip
        return
    except CommandError as error:
        yield _unreachable(error.message)
        return
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        if "not found" in said:
            yield from _unknown_node(here)
        else:
            yield _unreachable(said.splitlines()[-1] if said else f"exit {done.returncode}")
        return
    for node in parse_nodes(done.stdout):
        yield from _state(node)
        if here.plan is not None:
            yield from _counts(here.plan.gres, node)


def _unreachable(said: str) -> Finding:
    return _say(
        Severity.ERROR, "slurmctld", "", f"slurmctld does not answer: {said}",
        "No job starts or ends properly.",
        "look at slurmctld on the controller (its log), then at the network and munge here",
    )  # fmt: skip


def _unknown_node(here: SlurmHost) -> Iterator[Finding]:
    if here.is_controller and (here.plan is None or not here.plan.devices):
        return
    yield _say(
        Severity.WARNING, "node-unknown", here.node, f"Slurm does not know a node {here.node}",
        "It gets no jobs.",
        "run 'hpcmgr sync' here and 'hpcmgr apply' on the controller; --node names it if its host "
        "name is another",
    )  # fmt: skip


def _state(node: NodeState) -> Iterator[Finding]:
    words = set(re.findall(r"[A-Z_]+", node.state.upper())) | set(node.words)
    reason = f": {node.reason}" if node.reason else ""
    bad = words & {"DOWN", "FAIL", "INVAL", "INVALID_REG", "NOT_RESPONDING", "ERROR"}
    if bad:
        yield _say(
            Severity.ERROR, "node-state", node.name,
            f"Slurm has {node.name} as {node.state}{reason}",
            "It gets no jobs.",
            "INVAL: what slurmd found differs from slurm.conf, run 'hpcmgr apply'; NOT_RESPONDING: "
            "is slurmd running? DOWN: mend the reason, then scontrol update ... State=RESUME",
        )  # fmt: skip
    elif "DRAIN" in words:
        yield _say(
            Severity.WARNING, "node-state", node.name,
            f"Slurm has {node.name} as {node.state}{reason}", "It gets no new jobs.",
            "mend the reason, then scontrol update NodeName=... State=RESUME",
        )  # fmt: skip


def _counts(plan: Mapping[str, int], node: NodeState) -> Iterator[Finding]:
    keys = sorted(plan.keys() | {key for key in node.gres if key in ("compute", "vram")})
    wrong = [
        f"{key} {node.gres.get(key, 0)} instead of {plan.get(key, 0)}"
        for key in keys
        if plan.get(key, 0) != node.gres.get(key, 0)
    ]
    if wrong:
        yield _say(
            Severity.ERROR, "gres-count", node.name,
            f"Slurm counts other devices than there are: {', '.join(wrong)}",
            "Jobs get devices that do not exist, or devices lie idle.",
            "run 'hpcmgr sync' here, then 'hpcmgr apply' on the controller",
        )  # fmt: skip
