"""What a node has: canonical, free of vendor layouts, versioned JSON."""

from hpcmgr.inventory.node import (
    CpuTopology,
    Device,
    DeviceLink,
    Health,
    Nic,
    NodeInventory,
    NumaNode,
    Slice,
    SourceReport,
)

__all__ = [
    "CpuTopology",
    "Device",
    "DeviceLink",
    "Health",
    "Nic",
    "NodeInventory",
    "NumaNode",
    "Slice",
    "SourceReport",
]
