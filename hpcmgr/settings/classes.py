"""Classes: what users may ask for by name."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from hpcmgr.settings.fields import NodeWord, Section, Word
from hpcmgr.versions import Range

RESERVED_CLASS_NAMES = frozenset({"unbound", "each", "compute", "vram"})


def _range(text: str) -> str:
    Range.parse(text)
    return text


VersionRange = Annotated[str, AfterValidator(_range)]


class DeviceChoice(Section):
    """Which devices may serve. Empty lists mean no restriction."""

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
    needs: dict[Word, VersionRange] = {}
    """Versions that the programs need, by runtime: `{cuda: ">=12.4", cann: ">=8.0,<9"}`. Nodes
    whose driver cannot serve them are left out; of a driver that nobody knows the user is told."""
    units_per_device_min: int | None = Field(None, ge=1)
    """Smallest device, in units."""
    memory_per_device_gib: int | None = Field(None, ge=1)
    """Smallest device, in GiB of its memory."""


class JobClass(DeviceChoice):
    """What a request may become. ``prefer`` names kinds, vendors, runtimes or profiles, best first.

    ``binding`` near: devices and cores on one socket are enforced where the release can do it, and
    the job then stays on the device types for which it holds. ``movable``: never enforced, the job
    may move to every type of its class.
    """

    prefer: tuple[str, ...] = ()
    """Kinds, vendors, runtimes or profiles, best first."""
    slices: bool = False
    """Whether slices of devices (MIG, vNPU) may serve too; `false`: whole devices only. See
    [slicing.md](slicing.md)."""
    workload: Word | None = None
    """Workload of the performance table ([performance.md](performance.md)) by which device types
    are compared; without it their speed does not count."""
    devices_min: int = Field(1, ge=1)
    """Devices on a node, at least."""
    devices_max: int | None = Field(None, ge=1)
    """Devices on a node, at most."""
    cpus_per_device: int | None = Field(None, ge=1)
    """CPUs a device, where the user does not say."""
    mem_per_device_mib: int | None = Field(None, ge=1)
    """Memory of the node a device (MiB), where the user does not say."""
    binding: Literal["near", "movable"] = "near"
    """`near`: cores and devices on one socket, enforced where this release can, and the job stays
    on device types for which it holds. `movable`: never enforced; the job may move to every type of
    its class."""
