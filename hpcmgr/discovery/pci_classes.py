"""Which PCI functions are accelerators, and whose.

Vendor and device ids: the public PCI id database; Huawei's from the driver's own headers.
"""

from __future__ import annotations

ACCELERATOR_CLASSES = ("0300", "0302", "0380", "1200", "0b40")
"""VGA, 3D controller, other display, processing accelerator, co-processor."""

VENDORS = {
    "10de": ("nvidia", "gpu"),
    "1002": ("amd", "gpu"),
    "8086": ("intel", "gpu"),
    "1da3": ("habana", "npu"),
    "1d0f": ("aws", "npu"),
    "19e5": ("huawei", "npu"),
    "cabc": ("cambricon", "npu"),
    "1d94": ("hygon", "gpu"),
    "9999": ("metax", "gpu"),
    "1e3e": ("iluvatar", "gpu"),
    "1ed5": ("mthreads", "gpu"),
    "1e36": ("enflame", "npu"),
    "1d22": ("kunlunxin", "npu"),
    "1e52": ("tenstorrent", "npu"),
    "1eff": ("rebellions", "npu"),
    "1ed2": ("furiosaai", "npu"),
}
"""Word and usual kind of the vendors of accelerators."""

DISPLAY_ONLY_VENDORS = frozenset(
    {
        "1a03",  # ASPEED BMC
        "102b",  # Matrox G200 BMC
        "126f",  # Silicon Motion
        "1234",  # QEMU
        "1af4",  # virtio
        "1b36",  # QXL
        "1013",  # Cirrus Logic
        "15ad",  # VMware
        "1414",  # Hyper-V
        "18ca",  # XGI
        "5333",  # S3
    }
)

NOT_ACCELERATORS = frozenset(
    {
        "19e5:1711",  # HiSilicon BMC display
        "1d0f:1111",  # display of an AWS instance
        # NPUs of laptops' processors (intel_vpu): one user's, not for jobs
        *(f"8086:{device}" for device in ("643e", "7d1d", "ad1d", "b03e", "d71d", "fd3e")),
        # Kunpeng's on-chip ZIP, SEC, HPRE and RDE engines: same vendor and class as an NPU
        *(f"19e5:a25{digit}" for digit in "0123456789ab"),
        # ATI's BMC displays: ES1000, Rage XL
        "1002:515e",
        "1002:5969",
        "1002:4752",
        # Graphics inside of AMD's processors
        *(f"1002:{device}" for device in ("15d8", "15dd", "1636", "1638", "164c", "164d", "164e")),
        *(f"1002:{device}" for device in ("1681", "15bf", "15c8", "1900", "1901", "1506", "150e")),
        *(f"1002:{device}" for device in ("13c0", "1114", "163f", "1435")),
        # AMD's NPUs of laptops' processors
        "1022:1502",
        "1022:17f0",
        # Intel QuickAssist
        *(f"8086:{device}" for device in ("0435", "0443", "18a0", "18ee", "19e2", "19e3", "37c8")),
        *(f"8086:{device}" for device in ("37c9", "4940", "4941", "4942", "4943", "4944", "4945")),
        *(f"8086:{device}" for device in ("4946", "4947", "6f54", "6f55")),
    }
)

OTHER_CLASSES = frozenset(
    # AWS Neuron devices are "system peripherals".
    f"1d0f:{device}"
    for device in ("7064", "7164", "7264", "7364", "7564", "7565")
)
"""Accelerators that have no accelerator's class."""

PASSTHROUGH_DRIVERS = frozenset(
    {"vfio-pci", "pci-stub", "uio_pci_generic", "igb_uio", "xen-pciback"}
)
"""Drivers that hand a function to a virtual machine or a user-space program."""


def is_accelerator(pci: str, pci_id: str, pci_class: str) -> bool:
    """Whether a function of this class and id is (or may be) an accelerator.

    A VGA controller of an unknown vendor is a display; the processor's own graphics are no
    accelerator either. Any other class of an unknown vendor is reported.
    """
    vendor = pci_id[:4]
    if pci_id in OTHER_CLASSES:
        return True
    if pci_class[:4] not in ACCELERATOR_CLASSES:
        return False
    if vendor in DISPLAY_ONLY_VENDORS or pci_id in NOT_ACCELERATORS:
        return False
    if vendor == "8086" and pci.endswith(":00:02.0"):
        return False
    return pci_class[:4] != "0300" or vendor in VENDORS
