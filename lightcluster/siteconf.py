"""The files of /etc/slurm: the reference site, what the caller brings, and what speed needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from lightcluster.spec import NodeSpec, node_line

CHECKOUT = Path(__file__).resolve().parent.parent
_REFERENCE = CHECKOUT / "slurm-conf"
_LUA = CHECKOUT / "lua"

_TUNED = "# Changed by lightcluster: "
# Each with the reason that is written above it. Keys with lists are merged, others replaced.
_TUNING = {
    "TaskPlugin": ("task/cgroup", "nodes pose with CPUs that this machine does not have"),
    "DefMemPerCPU": ("16", "many nodes share the memory of this machine"),
    "SchedulerParameters": (
        "bf_interval=1,sched_interval=2,batch_sched_delay=0",
        "tests wait for the scheduler",
    ),
    "PriorityCalcPeriod": ("1", "tests wait for priorities"),
    "KillWait": ("2", "tests wait for cancelled jobs"),
    "ReturnToService": ("2", "nodes come back by themselves when a test restarts a daemon"),
    "SlurmdTimeout": ("30", "tests wait for lost nodes"),
    "MailProg": ("/bin/true", "nobody reads mail here"),
    "MessageTimeout": ("20", "this machine is small and busy"),
}
_CGROUP_TUNING = {
    "ConstrainCores": ("no", "nodes pose with CPUs that this machine does not have"),
    "ConstrainRAMSpace": ("no", "many nodes share the memory of this machine"),
    "ConstrainSwapSpace": ("no", "many nodes share the memory of this machine"),
}
_LISTS = frozenset({"SchedulerParameters", "SlurmctldParameters", "SlurmdParameters"})


def reference_files() -> dict[str, str]:
    """The reference site as it lies in the checkout, with the project's Lua shim if it is there."""
    files = {
        path.name: path.read_text()
        for path in _REFERENCE.iterdir()
        if path.suffix in (".conf", ".lua")
    }
    if (_LUA / "job_submit.lua").is_file():
        files |= _read_tree(_LUA, "**/*.lua")
    return files


def given_files(conf: Path | Mapping[str, str] | None) -> dict[str, str]:
    """What the caller brings: a folder, or a mapping of names to texts."""
    if isinstance(conf, Path):
        return _read_tree(conf, "**/*")
    return dict(conf or {})


def _read_tree(folder: Path, pattern: str) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.glob(pattern))
        if path.is_file()
    }


def compose(
    conf: Path | Mapping[str, str] | None,
    nodes: list[NodeSpec],
    *,
    accounting: bool,
    cgroup_version: int,
    tune: bool = True,
) -> dict[str, str]:
    """All files of /etc/slurm; a file that the caller brings replaces the reference's."""
    files = reference_files()
    if not accounting:
        files["accounting.conf"] = "# This cluster keeps no accounts.\n"
    files["hpcmgr.conf"] = "".join(node_line(node, memory_mib=1000) for node in nodes)
    if nodes:  # no job starts on a node that no switch holds; an empty file is fatal on 26.05
        names = ",".join(node.name for node in nodes)
        files["topology.conf"] = f"SwitchName=all Nodes={names}\n"
    files |= given_files(conf)
    if not tune:
        return files
    return {name: tuned(name, text, cgroup_version) for name, text in files.items()}


def tuned(name: str, text: str, cgroup_version: int) -> str:
    """One file as this machine needs it: changed where it must be, with the reason."""
    if name == "slurm.conf":
        return with_settings(text, _TUNING)
    if name == "cgroup.conf":
        return with_settings(text, _CGROUP_TUNING | _cgroup_plugin(cgroup_version))
    return text


def _cgroup_plugin(version: int) -> dict[str, tuple[str, str]]:
    settings = {"CgroupPlugin": (f"cgroup/v{version}", "as on this machine")}
    if version == 2:  # not tested: follows Slurm's documentation for containers
        settings["IgnoreSystemd"] = ("yes", "no systemd runs in the cluster")
    return settings


def with_settings(text: str, settings: Mapping[str, tuple[str, str]]) -> str:
    """Set keys of a Slurm file in place, or at its head, so that includes stay where they are.

    Every key is set once only: Slurm prints an error to each command for one set twice.
    """
    head = []
    for key, (value, reason) in settings.items():
        line = re.compile(rf"^[ \t]*{key}[ \t]*=[ \t]*(\S+).*$", re.MULTILINE | re.IGNORECASE)
        found = line.search(text)
        if found and key in _LISTS:
            value = _merged(found[1], value)
        comment = f"{_TUNED}{reason}.\n{key}={value}"
        if found:
            text = line.sub(lambda _, comment=comment: comment, text, count=1)  # type: ignore[misc]
        else:
            head.append(comment)
    return "\n".join([*head, text])


def _merged(old: str, new: str) -> str:
    """Two lists of name=value, the later one first in rights."""
    items = {item.split("=")[0]: item for item in (*old.split(","), *new.split(","))}
    return ",".join(items.values())
