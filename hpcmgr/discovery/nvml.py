"""NVML, NVIDIA's library, through nvidia-ml-py. Read on a live host only.

Every query is optional: what a GPU does not support is unknown. A GPU that cannot be opened makes
the source broken, the others are still listed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from hpcmgr.discovery.host import Host
from hpcmgr.discovery.source import Collected, DeviceFacts, known, known_serial
from hpcmgr.inventory import SourceReport
from hpcmgr.inventory.pci_address import canonical


class Nvml:
    """The library. ``load`` gives the binding's module."""

    name = "nvml"
    vendor: str | None = "nvidia"

    def __init__(self, load: Callable[[], Any] = lambda: importlib.import_module("pynvml")) -> None:
        self._load = load

    def collect(self, host: Host) -> Collected:
        """Ask the library about every GPU."""
        if not host.live:
            return self._told("absent", "a recorded host has no library")
        try:
            lib = self._load()
        except ImportError as error:
            return self._told("absent", f"nvidia-ml-py: {error}")
        try:
            lib.nvmlInit()
        except lib.NVMLError as error:
            return self._told("broken", f"NVML: {error}", failed_empty=True)
        try:
            return self._ask(lib)
        except lib.NVMLError as error:
            return self._told("broken", f"NVML: {error}")
        finally:
            _try(lib, lib.nvmlShutdown)

    def _ask(self, lib: Any) -> Collected:
        driver = _text(_try(lib, lib.nvmlSystemGetDriverVersion))
        cuda = _try(lib, lib.nvmlSystemGetCudaDriverVersion_v2)
        runtime = f"{cuda // 1000}.{cuda % 1000 // 10}" if isinstance(cuda, int) else None
        devices, lost = [], []
        for number in range(lib.nvmlDeviceGetCount()):
            try:
                handle = lib.nvmlDeviceGetHandleByIndex(number)
            except lib.NVMLError as error:
                lost.append(f"GPU {number}: {error}")
                continue
            facts = _facts(lib, handle, number, driver, runtime)
            # Other vendors have a library of that name for their own cards.
            if facts.pci_id is None or facts.pci_id.startswith("10de:"):
                devices.append(facts)
        state = "broken" if lost else "present"
        return Collected(
            SourceReport(name=self.name, state=state, detail="; ".join(lost)), tuple(devices)
        )

    def _told(self, state: Any, detail: str, *, failed_empty: bool = False) -> Collected:
        report = SourceReport(name=self.name, state=state, detail=detail)
        return Collected(report, failed_empty=failed_empty)


def _facts(
    lib: Any, handle: Any, number: int, driver: str | None, runtime: str | None
) -> DeviceFacts:
    def query(name: str) -> Any:
        function = getattr(lib, name, None)
        return None if function is None else _try(lib, lambda: function(handle))

    pci = query("nvmlDeviceGetPciInfo")
    memory = query("nvmlDeviceGetMemoryInfo")
    minor = query("nvmlDeviceGetMinorNumber")
    serial = known_serial(_text(query("nvmlDeviceGetSerial")))
    return DeviceFacts(
        ref=f"GPU{number}",
        vendor="nvidia",
        kind="gpu",
        model=known(_text(query("nvmlDeviceGetName"))),
        pci=canonical(_text(getattr(pci, "busId", None))),
        pci_id=_pci_id(getattr(pci, "pciDeviceId", None)),
        index=number,
        files=(f"/dev/nvidia{minor}",) if isinstance(minor, int) else (),
        uuid=known(_text(query("nvmlDeviceGetUUID"))),
        serial=serial,
        board=serial if query("nvmlDeviceGetMultiGpuBoard") else None,
        memory_mib=memory.total >> 20 if memory is not None else None,
        driver=driver,
        firmware=known(_text(query("nvmlDeviceGetVbiosVersion"))),
        runtime_version=runtime,
    )


def _try(lib: Any, question: Callable[[], Any]) -> Any:
    """The answer, None where the driver or the GPU does not support the question."""
    try:
        return question()
    except (lib.NVMLError, AttributeError):
        return None


def _text(value: Any) -> str | None:
    """Older bindings give bytes."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, str) else None


def _pci_id(value: Any) -> str | None:
    """0x20B210DE → ``10de:20b2``."""
    return f"{value & 0xFFFF:04x}:{value >> 16 & 0xFFFF:04x}" if isinstance(value, int) else None
