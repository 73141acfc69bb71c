"""Runs on the cluster's controller: every case by hpcmgr's rules, by ``hpcmgr verify``, and by the
daemons themselves. ``python3 -m tests.corpus_verdicts.inside FOLDER`` writes FOLDER/out.json."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

from hpcmgr.adopt import adopt
from hpcmgr.errors import CommandError
from hpcmgr.slurm.capability import Release
from hpcmgr.verify import Report, verify_directory
from hpcmgr.verify.configuration import read_configuration
from hpcmgr.verify.oracle import Programs, find_programs, installed_release, parse_states, prove
from hpcmgr.verify.rules import apply_rules
from hpcmgr.verify.stage import Stage

LOOK_S, START_S, REGISTER_S = 40.0, 40.0, 30.0
_LEVEL = re.compile(r"\b(fatal|error|warning): (.*)")


def look(folder: Path, programs: Programs, release: Release) -> dict[str, Any]:
    """All verdicts of one case."""
    about = json.loads((folder / "case.json").read_text())
    site = folder / "site"
    configuration = read_configuration(site, release)
    rules = apply_rules(configuration)
    report = verify_directory(site)
    if (folder / "raw").is_dir():
        real = _raw(folder / "raw", about, programs)
    else:
        real = _oracle(site, programs, release)
    return {
        "rules": [[f.severity.value, f.rule, f.text, str(f.place)] for f in rules],
        "verify": report.exit_code,
        "verify_errors": [[f.rule, f.text] for f in report.findings if f.severity == "error"],
        "adopt": _adopt(site, release),
        "real": real,
    }


def _adopt(site: Path, release: Release) -> str:
    """Nodes that adopt explains, and of how many kinds."""
    report = adopt(site, release, None, {})
    nodes = sum(len(node.names) for node in report.nodes)
    return f"{nodes} nodes, {len(report.nodes)} kinds, {len(report.first)} steps"


def _oracle(site: Path, programs: Programs, release: Release) -> dict[str, Any]:
    """A whole slurm.conf names hosts and users that are not here: the raw file is only read by
    slurmd, and the proof copy of it runs, without what the rules know."""
    c = read_configuration(site, release)
    lines: list[str] = []
    with Stage() as stage:
        stage.open_network()
        node = next(iter(c.nodes), "n1")
        argv = [programs.slurmd or "", "-G", "-N", node, "-f", str(site / "slurm.conf")]
        try:
            output = stage.run(argv, LOOK_S).stdout
        except CommandError as problem:
            output = f"error: {problem.message}"
        lines += [" ".join(found) for found in _LEVEL.findall(output)]
    report = Report()
    prove(c, programs, report)
    lines += [f"{f.severity.value} {f.text}" for f in report.findings]
    return {
        "refused": any(re.search(r"^fatal .*[Pp]ars|Unable to process conf", x) for x in lines),
        "started": not any(f.rule == "slurmctld-start" for f in report.findings),
        "states": dict.fromkeys(report.proven_nodes, "IDLE"),
        "lines": lines,
        "nodes": len(c.nodes),
    }


def _raw(folder: Path, about: dict[str, Any], programs: Programs) -> dict[str, Any]:
    """The files byte for byte: slurmd -G, then slurmctld and a slurmd of every kind."""
    for path in map(Path, about["devices"]):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink() and not path.exists():
            path.symlink_to("/dev/null")
    (folder / "state").mkdir()
    conf, lines, states = folder / "slurm.conf", [], {}
    logs = {name: folder / f"slurmd-{i}.log" for i, name in enumerate(about["start"])}
    with Stage() as stage:
        stage.open_network()
        for name, machine in about["start"].items():
            (folder / f"spool-{name}").mkdir()
            argv = [programs.slurmd or "", "-G", "-N", name, "-f", str(conf)]
            try:
                output = stage.run(argv, LOOK_S, {"HWLOC_SYNTHETIC": machine}).stdout
            except CommandError as problem:
                output = f"error: {problem.message}"
            lines += _LEVEL.findall(output)
        log = folder / "slurmctld.log"
        controller = stage.start(
            [programs.slurmctld or "", "-D", "-c", "-f", str(conf)], log, {"SLURM_CONF": str(conf)}
        )
        started = _started(controller, log)
        if started:
            daemons = {
                name: stage.start(
                    [programs.slurmd or "", "-D", "-N", name, "-f", str(conf)],
                    logs[name],
                    {"HWLOC_SYNTHETIC": machine, "SLURM_CONF": str(conf)},
                )
                for name, machine in about["start"].items()
            }
            states = _wait(stage, programs, conf, daemons)
        lines += _LEVEL.findall(log.read_text(errors="replace"))
        for path in logs.values():
            if path.exists():
                lines += _LEVEL.findall(path.read_text(errors="replace"))
        ended = [n for n, d in daemons.items() if d.poll() is not None] if started else []
    return {
        "started": started,
        "refused": not started or bool(ended),
        "states": states,
        "lines": list(dict.fromkeys(" ".join(line) for line in lines)),
    }


def _started(controller: Any, log: Path) -> bool:
    end = time.monotonic() + START_S
    while time.monotonic() < end and controller.poll() is None:
        if "Running as primary controller" in log.read_text(errors="replace"):
            return True
        time.sleep(0.05)
    return False


def _wait(stage: Stage, programs: Programs, conf: Path, daemons: dict[str, Any]) -> dict[str, str]:
    end = time.monotonic() + REGISTER_S
    states: dict[str, str] = {}
    while time.monotonic() < end:
        ended = [name for name, daemon in daemons.items() if daemon.poll() is not None]
        argv = [programs.scontrol or "", "-o", "show", "node", ",".join(daemons)]
        try:
            output = stage.run(argv, LOOK_S, {"SLURM_CONF": str(conf)})
        except CommandError:
            continue
        seen = dict(parse_states(output.stdout))
        states = {name: f"{s.words} {s.reason}".strip() for name, s in seen.items()}
        if all(n in ended or (n in seen and not seen[n].unknown) for n in daemons):
            break
        time.sleep(0.1)
    return states


def main(folder: Path) -> None:
    """Look at every case of the folder."""
    programs = find_programs()
    release = installed_release(programs)
    assert release is not None
    out = {"release": str(release), "cases": {}}
    for about in sorted(folder.rglob("case.json")):
        case = about.parent
        name = str(case.relative_to(folder))
        out["cases"][name] = look(case, programs, release)  # type: ignore[index]
        (folder / "out.json").write_text(json.dumps(out))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
