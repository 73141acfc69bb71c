"""Classes: what users may ask for by name."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

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


class DeviceGroup(DeviceChoice):
    """One of several groups of devices that a template puts on one node."""

    devices: int = Field(1, ge=1)
    """Devices of one set."""


class JobClass(DeviceChoice):
    """What a request may become. ``prefer`` names kinds, vendors, runtimes or profiles, best first.

    ``binding`` near: devices and cores on one socket are enforced where the release can do it, and
    the job then stays on the device types for which it holds. ``movable``: never enforced, the job
    may move to every type of its class.
    """

    groups: tuple[DeviceGroup, ...] = ()
    """Makes the class a template: several groups of devices on one node, and the count asked for
    is the number of sets (`compute:NAME:1`). What the class itself says holds for every group."""
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
    topology: Literal["same_socket", "same_switch", "spread"] | None = None
    """Where the devices of a job lie. `same_socket`: on each node on one socket, beside its cores,
    enforced; `same_switch`: all nodes below one switch; `spread`: anywhere."""
    fallback: Literal["same_switch", "spread", "refuse"] = "same_switch"
    """What becomes of a job for which no device type can have that topology: the next that is
    tried, with a note to the user, or `refuse`. For a template that no node can hold:
    `same_switch`: the user gets the line that asks for the groups on different nodes below one
    switch; `spread`: below several, if need be; `refuse`: he is told why."""
    fallback_note: str = ""
    """What the user is told besides when the fallback is taken."""

    @property
    def node_features(self) -> tuple[str, ...]:
        """What a node must have for all of it: the class's features and its groups'."""
        groups = (feature for group in self.groups for feature in group.features)
        return tuple(dict.fromkeys([*self.features, *groups]))

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.groups and (self.devices_max or self.devices_min > 1):
            raise ValueError("a template counts devices in its groups, not by devices_min and _max")
        if self.groups and self.topology == "same_socket":
            raise ValueError("the groups of a template may lie on different sockets")
        if self.topology == "same_socket" and self.binding == "movable":
            raise ValueError("same_socket is enforced, and a movable job is never bound so")
        return self
