"""A job as it is written for sbatch: a request and sbatch's options → fields of job_desc.

The options are those by which the job's devices, nodes, CPUs, memory and time are decided; each
becomes what sbatch itself sends (tests/slurm/test_jobs.py compares them).
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from hpcmgr.errors import UsageProblem
from hpcmgr.slurm.hostlist import expand
from hpcmgr.slurm.record import time_limit
from hpcmgr.slurm.tres import parse_count
from hpcmgr.submit.request import DISABLE_BIND, ENFORCE_BIND, NTASKS_SET, Field

EXAMPLE = "'compute:train:16 -N2 -p gpu -t 1:00:00'"
_SHARED = {"whole": 0, "user": 2, "mcs": 3, "topo": 4}
"""Values of job_desc's ``shared``."""
_FLAGS = {"enforce-binding": ENFORCE_BIND, "disable-binding": DISABLE_BIND}
_ENVIRONMENT = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_CONSTRAINT": "features",
    "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos",
    "SBATCH_RESERVATION": "reservation",
    "SBATCH_TIMELIMIT": "time_limit",
}
"""Variables that stand for an option that is not given, as for sbatch."""


@dataclass(frozen=True)
class Line:
    """A job as it was written, as fields of job_desc, and as options of sbatch."""

    text: str
    fields: Mapping[str, Field]
    options: tuple[str, ...]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        message = message.replace("unrecognized arguments", "No such option, or a second request")
        raise UsageProblem(message, f"as for sbatch, for example {EXAMPLE}")


def read_line(words: Sequence[str], environment: Mapping[str, str] | None = None) -> Line:
    """``["compute:train:16", "-N2"]``, or the same as one word → a job.

    Raises:
        UsageProblem: no request, or an option or a value that means nothing here.
    """
    try:
        first = shlex.split(words[0]) if words and " " in words[0] else words[:1]
    except ValueError as error:
        raise UsageProblem(f"{words[0]!r}: {error}", "close the quotes") from error
    words = [*first, *words[1:]]
    given = [f"{word}=whole" if word == "--exclusive" else word for word in words]
    found = {
        name: value
        for name, value in vars(_parser().parse_intermixed_args(given)).items()
        if value is not None
    }
    request = found.pop("request", None)
    environment = os.environ if environment is None else environment
    for variable, name in _ENVIRONMENT.items():
        if environment.get(variable):
            found.setdefault(name, environment[variable])
    options = list(words)
    if request:
        options[options.index(request)] = f"--gres={request}"
        found["tres_per_node"] = [request, *found.get("tres_per_node", ())]
    if not any(name.startswith(("tres_per_", "gpus_per_")) for name in found):
        _Parser().error("it asks for no devices")
    return Line(shlex.join(words), _fields(found), tuple(options))


def _parser() -> _Parser:
    """sbatch's options, by job_desc's names."""
    parser = _Parser(prog="sbatch", add_help=False, allow_abbrev=False)
    add = parser.add_argument
    add("request", nargs="?")
    add("--gres", dest="tres_per_node", action="append")
    add("--tres-per-task", dest="tres_per_task")
    for where in ("node", "socket", "task", "job"):
        names = ("-G", "--gpus") if where == "job" else (f"--gpus-per-{where}",)
        add(*names, dest=f"gpus_per_{where}")
    add("--cpus-per-gpu", dest="cpus_per_tres", type=_count)
    add("--mem-per-gpu", dest="mem_per_tres", type=_mebibytes)
    add("--ntasks-per-gpu", dest="ntasks_per_tres", type=_count)
    add("-N", "--nodes", dest="nodes")
    add("-n", "--ntasks", dest="num_tasks", type=_count)
    add("--ntasks-per-node", dest="ntasks_per_node", type=_count)
    add("--ntasks-per-socket", dest="ntasks_per_socket", type=_count)
    add("-c", "--cpus-per-task", dest="cpus_per_task", type=_count)
    add("--mincpus", dest="pn_min_cpus", type=_count)
    add("--mem", dest="min_mem_per_node", type=_mebibytes)
    add("--mem-per-cpu", dest="min_mem_per_cpu", type=_mebibytes)
    add("--sockets-per-node", dest="sockets_per_node", type=_count)
    add("--cores-per-socket", dest="cores_per_socket", type=_count)
    add("--threads-per-core", dest="threads_per_core", type=_count)
    add("-t", "--time", dest="time_limit")
    add("-p", "--partition", dest="partition")
    add("-A", "--account", dest="account")
    add("-q", "--qos", dest="qos")
    add("-C", "--constraint", dest="features")
    add("-w", "--nodelist", dest="req_nodes")
    add("-x", "--exclude", dest="exc_nodes")
    add("--reservation", dest="reservation")
    add("-a", "--array", dest="array_inx")
    add("-L", "--licenses", dest="licenses")
    add("--exclusive", dest="shared", choices=_SHARED)
    add("-s", "--oversubscribe", dest="oversubscribe", action="store_true", default=None)
    add("--gres-flags", dest="gres_flags", choices=_FLAGS)
    return parser


def _fields(found: dict[str, Any]) -> dict[str, Field]:
    """As sbatch fills them in; what it leaves unset is not there."""
    found.pop("licenses", None)  # Slurm's to judge: admission is not told
    bits = _FLAGS[found.pop("gres_flags")] if "gres_flags" in found else 0
    if "num_tasks" in found:
        bits |= NTASKS_SET
    if "shared" in found:
        found["shared"] = _SHARED[found["shared"]]
    elif found.pop("oversubscribe", False):
        found["shared"] = 1
    _devices(found)
    if "nodes" in found:
        found["min_nodes"], found["max_nodes"] = _range(found.pop("nodes"))
    elif "req_nodes" in found:
        found["min_nodes"] = _listed(found["req_nodes"])
    if "cpus_per_task" in found:
        found["pn_min_cpus"] = max(found["cpus_per_task"], found.get("pn_min_cpus", 1))
    if "time_limit" in found:
        found["time_limit"] = _minutes(found["time_limit"])
    return {**found, **({"bitflags": bits} if bits else {}), "batch": True}


def _devices(found: dict[str, Any]) -> None:
    """``--gpus-…`` and ``--…-per-gpu`` are written as GRES."""
    if "tres_per_node" in found:
        found["tres_per_node"] = ",".join(found["tres_per_node"])
    for where in ("node", "socket", "task", "job"):
        asked = found.pop(f"gpus_per_{where}", "")
        parts = [found.get(f"tres_per_{where}"), *(f"gres/gpu:{a}" for a in asked.split(",") if a)]
        if asked:
            found[f"tres_per_{where}"] = ",".join(part for part in parts if part)
    for name in ("cpus_per_tres", "mem_per_tres"):
        if name in found:
            found[name] = f"gres/gpu:{found[name]}"


def _count(text: str) -> int:
    if not re.fullmatch(r"0*[1-9]\d{0,6}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number")
    return int(text)


def _mebibytes(text: str) -> int:
    """Plain numbers are MiB."""
    count = parse_count(text if text[-1:].isalpha() else f"{text}M")
    if count is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size (16G, 4000M)")
    return -(-count >> 20)


def _range(text: str) -> tuple[int, int]:
    """``2`` or ``2-4``."""
    found = re.fullmatch(r"([1-9]\d{0,5})(?:-([1-9]\d{0,5}))?", text)
    least, most = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 0 < least <= most:
        _Parser().error(f"argument -N/--nodes: {text!r} is no number of nodes (2, 2-4)")
    return least, most


def _listed(text: str) -> int:
    try:
        return len(expand(text))
    except ValueError as error:
        _Parser().error(f"argument -w/--nodelist: {error}")


def _minutes(text: str) -> int:
    found = time_limit(text)
    if found is None:
        _Parser().error(
            f"argument -t/--time: {text!r} is no time (minutes, minutes:seconds, "
            "hours:minutes:seconds, days-hours, days-hours:minutes[:seconds], UNLIMITED)"
        )
    return found
