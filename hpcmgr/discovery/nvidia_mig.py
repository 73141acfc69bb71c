"""MIG slices of a GPU: names and uuids from ``nvidia-smi -L``, files from the driver's minors.

Slurm wants three files for a slice: the GPU, its GPU instance and its compute instance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree.ElementTree import Element

from hpcmgr.discovery.host import Host
from hpcmgr.discovery.source import leading_number, whole
from hpcmgr.inventory import Slice

MINORS = "/proc/driver/nvidia-caps/mig-minors"
_GPU = re.compile(r"^GPU [0-9]+: .*\(UUID: (GPU-[^)\s]+)\)\s*$")
_MIG = re.compile(r"^\s+MIG (\S+)\s+Device\s+([0-9]{1,4}):\s+\(UUID: (MIG-[^)\s]+)\)\s*$")
_MINOR = re.compile(r"^gpu([0-9]{1,5})/gi([0-9]{1,5})/(?:ci([0-9]{1,5})/)?access ([0-9]{1,7})$")

Listed = Mapping[str, Mapping[int, tuple[str, str]]]
"""By uuid of the GPU, then by number of the slice: (name, uuid)."""


def parse_list(text: str) -> Listed:
    """The slices of ``nvidia-smi -L``."""
    found: dict[str, dict[int, tuple[str, str]]] = {}
    current: dict[int, tuple[str, str]] | None = None
    for line in text.splitlines():
        gpu = _GPU.match(line)
        mig = _MIG.match(line)
        if gpu:
            current = found.setdefault(gpu[1], {})
        elif mig and current is not None:
            current[int(mig[2])] = (mig[1], mig[3])
    return found


def read_minors(host: Host) -> dict[tuple[int, ...], int]:
    """Minor numbers of /dev/nvidia-caps by (GPU, GPU instance[, compute instance])."""
    found = {}
    for line in (host.read_text(MINORS) or "").splitlines():
        entry = _MINOR.match(line.strip())
        if entry:
            key = tuple(int(part) for part in entry.groups()[:3] if part is not None)
            found[key] = int(entry[4])
    return found


def is_enabled(gpu: Element) -> bool:
    """Whether the GPU is cut into slices now."""
    return (gpu.findtext("mig_mode/current_mig") or "").strip() == "Enabled"


def slices(
    gpu: Element, listed: Listed, minors: Mapping[tuple[int, ...], int]
) -> tuple[Slice, ...]:
    """The slices of one ``<gpu>``."""
    names = listed.get((gpu.findtext("uuid") or "").strip(), {})
    minor = whole(gpu.findtext("minor_number"))
    found = []
    for device in gpu.findall("mig_devices/mig_device"):
        number = whole(device.findtext("index"))
        name, uuid = names.get(-1 if number is None else number, (None, None))
        place = tuple(
            whole(device.findtext(tag)) for tag in ("gpu_instance_id", "compute_instance_id")
        )
        found.append(
            Slice(
                name=name or "mig",
                uuid=uuid,
                memory_mib=leading_number(device.findtext("fb_memory_usage/total")),
                files=_files(minor, place, minors),
            )
        )
    return tuple(found)


def _files(
    minor: int | None, place: tuple[int | None, ...], minors: Mapping[tuple[int, ...], int]
) -> tuple[str, ...]:
    gi, ci = place
    if minor is None or gi is None or ci is None:
        return ()
    caps = (minors.get((minor, gi)), minors.get((minor, gi, ci)))
    if None in caps:
        return ()
    return (f"/dev/nvidia{minor}", *(f"/dev/nvidia-caps/nvidia-cap{cap}" for cap in caps))
