"""Every source of devices. Where two know the same, the earlier one is believed and a difference
is named; sysfs is last among equals but the only authority for NUMA nodes."""

from __future__ import annotations

import re

from hpcmgr.discovery.accel import Accel
from hpcmgr.discovery.amd_smi import AmdSmi
from hpcmgr.discovery.amdsmi_library import AmdSmiLibrary
from hpcmgr.discovery.cdi import Cdi
from hpcmgr.discovery.cnmon import Cnmon
from hpcmgr.discovery.drm import Drm
from hpcmgr.discovery.efsmi import EfSmi
from hpcmgr.discovery.furiosa_smi import FuriosaSmi
from hpcmgr.discovery.hl_smi import HlSmi
from hpcmgr.discovery.hy_smi import HySmi
from hpcmgr.discovery.ixsmi import IxSmi
from hpcmgr.discovery.kfd import Kfd
from hpcmgr.discovery.kunlun_smi import KunlunSmi
from hpcmgr.discovery.mthreads_gmi import MthreadsGmi
from hpcmgr.discovery.mx_smi import MxSmi
from hpcmgr.discovery.neuron_ls import NeuronLs
from hpcmgr.discovery.npu_smi import NpuSmi
from hpcmgr.discovery.nvidia_driver import NvidiaDriver
from hpcmgr.discovery.nvidia_smi import NvidiaSmi
from hpcmgr.discovery.nvml import Nvml
from hpcmgr.discovery.ppu_smi import PpuSmi
from hpcmgr.discovery.rbln_smi import RblnSmi
from hpcmgr.discovery.rocm_smi import RocmSmi
from hpcmgr.discovery.source import Source
from hpcmgr.discovery.tt_smi import TtSmi
from hpcmgr.discovery.xpu_smi import XpuSmi

DEVICE_SOURCES: tuple[Source, ...] = (
    Nvml(),
    NvidiaSmi(),
    NvidiaDriver(),
    NpuSmi(),
    AmdSmiLibrary(),
    AmdSmi(),
    Kfd(),
    RocmSmi(),
    XpuSmi(),
    HlSmi(),
    HySmi(),
    Cnmon(),
    MxSmi(),
    IxSmi(),
    MthreadsGmi(),
    EfSmi(),
    KunlunSmi(),
    NeuronLs(),
    TtSmi(),
    FuriosaSmi(),
    RblnSmi(),
    PpuSmi(),
    Drm(),
    Accel(),
    Cdi(),
)

TOOLS = {
    "nvidia": "nvidia-smi",
    "huawei": "npu-smi",
    "amd": "amd-smi",
    "intel": "xpu-smi",
    "habana": "hl-smi",
    "hygon": "hy-smi",
    "cambricon": "cnmon",
    "metax": "mx-smi",
    "iluvatar": "ixsmi",
    "mthreads": "mthreads-gmi",
    "enflame": "efsmi",
    "kunlunxin": "xpu_smi",
    "aws": "neuron-ls",
    "tenstorrent": "tt-smi",
    "furiosaai": "furiosa-smi",
    "rebellions": "rbln-smi",
    "thead": "ppu-smi",
}
"""The source of each vendor that must answer for every card of that vendor."""

ANSWERING = {tool: vendor for vendor, tool in TOOLS.items()} | {
    "nvml": "nvidia",
    "amdsmi": "amd",
    "rocm-smi": "amd",
}
"""Vendor of the sources that can tell how a device is."""

NODES = {
    vendor: re.compile(f"/dev/{pattern}")
    for vendor, pattern in {
        "nvidia": "nvidia[0-9]+",
        "huawei": "davinci[0-9]+",
        # /dev/dri and /dev/kfd are not theirs alone.
        "amd": "(?!)",
        "intel": "(?!)",
        "habana": "hl[0-9]+",
        "hygon": "mkfd",
        "cambricon": "cambricon_dev[0-9]+",
        "metax": "mxcd",
        "iluvatar": "iluvatar[0-9]+",
        "mthreads": r"mtgpu\.[0-9]+",
        "enflame": "gcu[0-9]+",
        "kunlunxin": "xpu[0-9]+",
        "aws": "neuron[0-9]+",
        "tenstorrent": "tenstorrent/[0-9]+",
        "furiosaai": r"(?:npu[0-9]+|rngd/npu[0-9]+mgmt)",
        "rebellions": "rbln[0-9]+",
        "thead": "alixpu_ppu[0-9]+",
    }.items()
}
"""Device nodes that a vendor's card has: where one is, a card is, whatever the tool says."""
