"""Who may take whose devices: Slurm's preemption settings, as slurmctld tells them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hpcmgr.slurm.record import known, seconds

QOS = ("sacctmgr", "-n", "-P", "show", "qos", "format=Name,Preempt,PreemptMode,PreemptExemptTime")
FREEING = frozenset({"REQUEUE", "CANCEL"})
"""Modes that give the devices back; a suspended job keeps its GRES."""


@dataclass(frozen=True, slots=True)
class Qos:
    """A QOS. ``preempts``: those whose jobs its jobs may stop; ``mode``: how its own jobs are
    stopped, words in capitals (CLUSTER: as the cluster says)."""

    preempts: frozenset[str] = frozenset()
    mode: str = ""
    exempt_s: int | None = None


@dataclass(frozen=True, slots=True)
class Controller:
    """What ``scontrol show config`` says. ``preempt_by``: ``qos``, ``partition_prio`` or "";
    ``exempt_s``: how long a job runs before it may be stopped. ``private``: what is hidden from
    users. ``qos`` None: it could not be read."""

    cluster: str = ""
    preempt_by: str = ""
    preempt_mode: str = "OFF"
    exempt_s: int = 0
    private: frozenset[str] = frozenset()
    slurm_user: str = ""
    qos: Mapping[str, Qos] | None = field(default_factory=dict)


def parse_config(text: str) -> Controller:
    """``scontrol show config``."""
    values = dict(re.findall(r"(?m)^(\w+)\s*= (.*?)\s*$", text))
    private = values.get("PrivateData", "none")
    preempt = known(values.get("PreemptType", "")).removeprefix("preempt/")
    return Controller(
        cluster=values.get("ClusterName", ""),
        preempt_by="" if preempt == "none" else preempt,
        preempt_mode=values.get("PreemptMode", "OFF"),
        exempt_s=seconds(values.get("PreemptExemptTime", "")) or 0,
        private=frozenset(part for part in private.split(",") if part not in {"none", ""}),
        slurm_user=values.get("SlurmUser", "").split("(")[0],
    )


def parse_qos(text: str) -> dict[str, Qos]:
    """Lines of the call QOS: ``high|normal,low|requeue|00:01:00``."""
    found = {}
    for line in text.splitlines():
        name, preempts, mode, exempt = (line.split("|") + [""] * 4)[:4]
        if name:
            below = frozenset(part for part in preempts.split(",") if part)
            found[name] = Qos(below, mode.upper(), seconds(exempt))
    return found
