"""Classes: what users may ask for by name."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hpcmgr.settings.fields import NodeWord, Section, Word

RESERVED_CLASS_NAMES = frozenset({"unbound", "each", "compute", "vram"})


class JobClass(Section):
    """What a request may become. Empty lists mean no restriction; ``prefer`` names kinds,
    vendors, runtimes or profiles, best first.

    ``binding`` near: devices and cores on one socket are enforced where the release can do it, and
    the job then stays on the device types for which it holds. ``movable``: never enforced, the job
    may move to every type of its class.
    """

    kinds: tuple[Word, ...] = ()
    """`gpu`, `npu`."""
    runtimes: tuple[Word, ...] = ()
    """`cuda`, `cann`, …"""
    vendors: tuple[Word, ...] = ()
    """`nvidia`, `huawei`, …"""
    profiles: tuple[str, ...] = ()
    """Names of profiles."""
    features: tuple[NodeWord, ...] = ()
    """What the node must have: `rdma`, `roce`, or features of a group."""
    slices: bool = False
    """Whether slices of devices (MIG, vNPU) may serve too; `false`: whole devices only. See
    [slicing.md](slicing.md)."""
    prefer: tuple[str, ...] = ()
    """Kinds, vendors, runtimes or profiles, best first."""
    devices_min: int = Field(1, ge=1)
    """Devices on a node, at least."""
    devices_max: int | None = Field(None, ge=1)
    """Devices on a node, at most."""
    units_per_device_min: int | None = Field(None, ge=1)
    """Smallest device, in units."""
    memory_per_device_gib: int | None = Field(None, ge=1)
    """Smallest device, in GiB of its memory."""
    cpus_per_device: int | None = Field(None, ge=1)
    """CPUs a device, where the user does not say."""
    mem_per_device_mib: int | None = Field(None, ge=1)
    """Memory of the node a device (MiB), where the user does not say."""
    binding: Literal["near", "movable"] = "near"
    """`near`: cores and devices on one socket, enforced where this release can, and the job stays
    on device types for which it holds. `movable`: never enforced; the job may move to every type of
    its class."""
