"""Every source of devices. Where two know the same, the earlier one is believed and a difference
is named; sysfs is last among equals but the only authority for NUMA nodes."""

from __future__ import annotations

import re

from hpcmgr.discovery.npu_smi import NpuSmi
from hpcmgr.discovery.nvidia_driver import NvidiaDriver
from hpcmgr.discovery.nvidia_smi import NvidiaSmi
from hpcmgr.discovery.nvml import Nvml
from hpcmgr.discovery.source import Source

DEVICE_SOURCES: tuple[Source, ...] = (Nvml(), NvidiaSmi(), NvidiaDriver(), NpuSmi())

TOOLS = {"nvidia": "nvidia-smi", "huawei": "npu-smi"}
"""The source of each vendor that must answer for every card of that vendor."""

ANSWERING = {"nvidia-smi": "nvidia", "nvml": "nvidia", "npu-smi": "huawei"}
"""Vendor of the sources that can tell how a device is."""

NODES = {"nvidia": re.compile(r"/dev/nvidia[0-9]+"), "huawei": re.compile(r"/dev/davinci[0-9]+")}
"""Device nodes that a vendor's card has: where one is, a card is, whatever the tool says."""
