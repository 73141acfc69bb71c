"""The inventory of one node, ``hpcmgr.node/1``: exactly what ``hpcmgr discover --json`` prints.

Unknown is None (null), never -1, 0 or "unknown". PCI addresses are spelt as sysfs spells them
(``0000:3b:00.0``, domain of four or more digits, lower case). Memory is in MiB as the tool
reports it; the nominal GiB that is matched and booked lives in the device's profile.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA: Literal["hpcmgr.node/1"] = "hpcmgr.node/1"


class Frozen(BaseModel):
    """Base of all facts: immutable, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NumaNode(Frozen):
    """One NUMA node. ``cpus`` are OS CPU ids ("0-15,32-47", may be empty), ``socket`` is the
    socket as Slurm counts it that holds all its CPUs (None: no CPUs, or over several sockets)."""

    id: int
    cpus: str = ""
    memory_mib: int | None = None
    socket: int | None = None


class CpuTopology(Frozen):
    """Processors as ``slurmd -C`` counts them."""

    sockets: int = Field(ge=1)
    cores_per_socket: int = Field(ge=1)
    threads_per_core: int = Field(ge=1)
    numa: tuple[NumaNode, ...] = ()


class Health(Frozen):
    """State of one device, with the tools' reasons when it is not ok."""

    state: Literal["ok", "degraded", "failed", "unknown"] = "unknown"
    reasons: tuple[str, ...] = ()


class Slice(Frozen):
    """A hardware slice of a device (MIG, vNPU), under the name that its tool gives it. ``files`` in
    the order Slurm needs; the last is the one that no other slice has."""

    name: str
    uuid: str | None = None
    memory_mib: int | None = None
    files: tuple[str, ...] = ()


class Device(Frozen):
    """One accelerator.

    ``index`` is its number in its vendor's runtime (what a visible-devices variable counts), which
    need not be the number in the name of its device node. ``chip`` tells devices apart that share
    one PCI address. ``nvlink_domain``: NVIDIA's cluster UUID and clique ("UUID.CLIQUE"); GPUs of
    several nodes that say the same reach each other by NVLink. ``sliced``: it is cut into
    ``slices``, or waits to be, and cannot be used whole.
    """

    vendor: str
    model: str
    profile: str | None = None
    kind: str
    pci: str | None = None
    pci_id: str | None = None
    chip: int | None = None
    index: int | None = None
    numa_node: int | None = None
    files: tuple[str, ...] = ()
    uuid: str | None = None
    serial: str | None = None
    memory_mib: int | None = None
    driver: str | None = None
    firmware: str | None = None
    runtime_version: str | None = None
    nvlink_domain: str | None = None
    health: Health = Health()
    sliced: bool = False
    slices: tuple[Slice, ...] = ()
    shares: int = 0
    conflicts: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Name of this device in ``links``: PCI address, with ``#chip`` where chips share one."""
        place = self.pci or self.uuid or (self.files[0] if self.files else self.model)
        return f"{place}#{self.chip}" if self.chip else place


class Nic(Frozen):
    """A network interface; ``rdma`` is its RDMA device (``mlx5_0``) or None."""

    name: str
    pci: str | None = None
    vendor: str | None = None
    numa_node: int | None = None
    rdma: str | None = None
    link_layer: str | None = None
    state: str | None = None
    speed_mbps: int | None = None


class DeviceLink(Frozen):
    """How two devices (or a device and a NIC) reach each other.

    ``a`` and ``b`` are ``Device.key`` or NIC names, ``a`` < ``b``; ``kind`` is the tool's own word
    ("NV12", "HCCS", "PIX", "SYS"), or in small letters what the PCI tree says ("pix"); ``direct``
    is true for a device-to-device fabric link.
    """

    a: str
    b: str
    kind: str
    direct: bool = False


class SourceReport(Frozen):
    """What one discovery source said. A broken source is never "0 devices"."""

    name: str
    state: Literal["absent", "broken", "present"]
    detail: str = ""


class NodeInventory(Frozen):
    """All that is known of one node."""

    schema_: Literal["hpcmgr.node/1"] = Field(SCHEMA, alias="schema")
    node: str
    digest: str = ""
    cpu: CpuTopology
    memory_mib: int
    devices: tuple[Device, ...] = ()
    nics: tuple[Nic, ...] = ()
    links: tuple[DeviceLink, ...] = ()
    sources: tuple[SourceReport, ...] = ()

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @property
    def broken_sources(self) -> tuple[SourceReport, ...]:
        """Sources that could not tell; the node must not be taken as complete."""
        return tuple(source for source in self.sources if source.state == "broken")

    def with_digest(self) -> NodeInventory:
        """The same with ``digest`` set: sha256 over everything but the digest itself."""
        text = json.dumps(self._plain(digest=""), sort_keys=True, separators=(",", ":"))
        return self.model_copy(update={"digest": hashlib.sha256(text.encode()).hexdigest()[:16]})

    def to_json(self) -> str:
        """Stable text: keys in the order of the model, two spaces, final newline."""
        return json.dumps(self._plain(digest=self.digest), indent=2, ensure_ascii=False) + "\n"

    def _plain(self, digest: str) -> dict[str, Any]:
        plain = self.model_dump(mode="json", by_alias=True)
        for device in plain["devices"]:
            # Few nodes have one; what an older controller does not know, it refuses.
            if device["nvlink_domain"] is None:
                del device["nvlink_domain"]
        return {**plain, "digest": digest}
