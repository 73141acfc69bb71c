"""A good site and ways to break it, for the rules alone and for the proof with real Slurm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

GOOD = {
    "slurm.conf": """\
# The site's own file
ClusterName=mixed
SlurmctldHost=ctl(10.0.0.1)
AuthType=auth/munge
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity,task/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobSubmitPlugins=lua
AccountingStorageType=accounting_storage/slurmdbd
PriorityType=priority/multifactor
Include hpcmgr.conf
PartitionName=all Nodes=ALL Default=YES MaxTime=1-0 State=UP
""",
    "hpcmgr.conf": """\
GresTypes=compute,gpu,npu,vram
AccountingStorageTRES=gres/compute,gres/vram,gres/gpu,gres/gpu:a100,gres/npu,gres/npu:ascend910b
TaskProlog=/etc/hpcmgr/task_prolog.sh

NodeName=g[01-40] Sockets=2 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=1031000 \
Gres=gpu:a100:4,compute:32,vram:320 Features=a100,cuda,gpu,nvidia
NodeName=n[1-2] Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=1540000 \
Gres=npu:ascend910b:4,compute:24,vram:256 Features=ascend910b,cann,npu,huawei

PartitionName=DEFAULT TRESBillingWeights="CPU=0.0,Mem=0.0,gres/compute=1.0"
""",
    "gres.conf": """\
NodeName=g[01-40] Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=0-7
NodeName=g[01-40] Name=gpu Type=a100 File=/dev/nvidia[2-3] Cores=8-15
NodeName=g[01-40] Name=compute Count=32 Flags=CountOnly
NodeName=g[01-40] Name=vram Count=320 Flags=CountOnly

NodeName=n[1-2] Name=npu Type=ascend910b File=/dev/davinci[0-1] Cores=0-7
NodeName=n[1-2] Name=npu Type=ascend910b File=/dev/davinci[2-3] Cores=8-15
NodeName=n[1-2] Name=compute Count=24 Flags=CountOnly
NodeName=n[1-2] Name=vram Count=256 Flags=CountOnly
""",
    "cgroup.conf": "ConstrainDevices=yes\nConstrainCores=yes\nConstrainRAMSpace=yes\n",
}

DEVICES = "".join(
    f"/dev/{name}{i} c {major} {i} 0666\n"
    for name, major in (("nvidia", 195), ("davinci", 236))
    for i in range(4)
)


@dataclass(frozen=True)
class Broken:
    """One fault: ``old`` becomes ``new`` in ``file``; an error must be told at ``at``."""

    name: str
    file: str
    old: str
    new: str
    at: tuple[str, int]
    rule: str
    needs_slurm: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, str]:
        """All files of the broken site."""
        assert self.old in GOOD[self.file], f"{self.name}: {self.old!r} is not in the good site"
        changed = GOOD[self.file].replace(self.old, self.new, 1)
        return {**GOOD, self.file: changed, **self.extra}


BROKEN = (
    Broken(
        "a misspelt key in gres.conf",
        "gres.conf",
        "Type=ascend910b File=/dev/davinci[0-1]",
        "Typ=ascend910b File=/dev/davinci[0-1]",
        ("gres.conf", 6),
        "unknown-key",
        needs_slurm=True,
    ),
    Broken(
        "a misspelt key in slurm.conf",
        "slurm.conf",
        "SelectTypeParameters=",
        "SelectTypeParameter=",
        ("slurm.conf", 11),
        "unknown-key",
        needs_slurm=True,
    ),
    Broken(
        "a misspelt key of a node, in an included file",
        "hpcmgr.conf",
        "CoresPerSocket=8 ThreadsPerCore=1",
        "CoresPerSocket=8 ThreadPerCore=1",
        ("hpcmgr.conf", 6),
        "unknown-key",
        needs_slurm=True,
    ),
    Broken(
        "a device in two records",
        "gres.conf",
        "/dev/davinci[2-3]",
        "/dev/davinci[1-2]",
        ("gres.conf", 7),
        "file-twice",
    ),
    Broken(
        "fewer devices than Gres= says",
        "hpcmgr.conf",
        "gpu:a100:4",
        "gpu:a100:6",
        ("hpcmgr.conf", 5),
        "count-low",
    ),
    Broken(
        "wrong sockets in the node line",
        "hpcmgr.conf",
        "Sockets=2 CoresPerSocket=8 ThreadsPerCore=1",
        "Sockets=1 CoresPerSocket=16 ThreadsPerCore=1",
        ("gres.conf", 6),
        "cores-socket",
    ),
    Broken(
        "an npu type that differs",
        "gres.conf",
        "Type=ascend910b File=/dev/davinci[0-1] Cores=0-7\n"
        "NodeName=n[1-2] Name=npu Type=ascend910b",
        "Type=ascend910 File=/dev/davinci[0-1] Cores=0-7\nNodeName=n[1-2] Name=npu Type=ascend910",
        ("gres.conf", 6),
        "type-mismatch",
    ),
    Broken(
        "a GRES that GresTypes does not name",
        "hpcmgr.conf",
        "GresTypes=compute,gpu,npu,vram",
        "GresTypes=compute,gpu,vram",
        ("hpcmgr.conf", 6),
        "gres-types",
    ),
    Broken(
        "Cores across sockets",
        "gres.conf",
        "File=/dev/nvidia[0-1] Cores=0-7",
        "File=/dev/nvidia[0-1] Cores=4-11",
        ("gres.conf", 1),
        "cores-socket",
    ),
    Broken(
        "thread siblings in Cores",
        "gres.conf",
        "File=/dev/nvidia[0-1] Cores=0-7",
        "File=/dev/nvidia[0-1] Cores=0-7,16-23",
        ("gres.conf", 1),
        "cores-siblings",
    ),
    Broken(
        "a device node that is not there",
        "gres.conf",
        "File=/dev/nvidia[2-3] Cores=8-15",
        "File=/dev/nvidia[2,4] Cores=8-15",
        ("gres.conf", 2),
        "file-missing",
        extra={"dev.txt": DEVICES},
    ),
    Broken(
        "two AutoDetects of one node",
        "gres.conf",
        "NodeName=g[01-40] Name=vram Count=320 Flags=CountOnly\n",
        "NodeName=g[01-40] Name=vram Count=320 Flags=CountOnly\n"
        "NodeName=g07 AutoDetect=nvml Name=gpu Type=a100\nNodeName=g07 AutoDetect=rsmi\n",
        ("gres.conf", 6),
        "autodetect-two",
    ),
    Broken(
        "an included file that is not there",
        "slurm.conf",
        "Include hpcmgr.conf",
        "Include hpcmgr.conf\nInclude partitions.conf",
        ("slurm.conf", 16),
        "include-missing",
    ),
)


def lay_out(files: Mapping[str, str], directory: Path) -> Path:
    """Write the files into ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory
