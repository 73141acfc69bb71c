"""Bringing rendered files into force: diff, proof, write, reconfigure, check, roll back.

What must never happen here: a job is killed, or a device is in two jobs. Slurm numbers the devices
of a node by position, so a node with jobs on its devices keeps its lines until it is free of them.
"""

from hpcmgr.apply.live import Job, LiveCluster, LiveNode, read_live
from hpcmgr.apply.plan import Change, Waiting, plan_change
from hpcmgr.apply.transaction import Applier, Result
from hpcmgr.apply.workplace import Workplace

__all__ = [
    "Applier",
    "Change",
    "Job",
    "LiveCluster",
    "LiveNode",
    "Result",
    "Waiting",
    "Workplace",
    "plan_change",
    "read_live",
]
