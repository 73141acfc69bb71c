"""The NVML source against a stand-in for the library."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hpcmgr.discovery.host import LiveHost
from hpcmgr.discovery.nvml import Nvml


class NvmlError(Exception):
    """As the binding's own."""


class Library:
    """Two GPUs; the second may be lost. Everything that is not defined does not exist."""

    NVMLError = NvmlError

    def __init__(self, lost: bool = False, init: str = "") -> None:
        self.lost, self.init, self.open = lost, init, False

    def nvmlInit(self) -> None:  # noqa: N802
        if self.init:
            raise NvmlError(self.init)
        self.open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open = False

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        return b"550.90.07"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:  # noqa: N802
        return 12040

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if self.lost and index == 1:
            raise NvmlError("GPU is lost")
        return index

    def nvmlDeviceGetPciInfo(self, handle: int) -> object:  # noqa: N802
        return SimpleNamespace(busId=f"0000000{handle}:3B:00.0", pciDeviceId=0x1EB810DE)

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> object:  # noqa: N802
        raise NvmlError("Not Supported")

    def nvmlDeviceGetMinorNumber(self, handle: int) -> int:  # noqa: N802
        return 1 - handle

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return "Tesla T4"


@pytest.mark.parametrize("lost", [False, True])
def test_gpus_are_described_and_a_lost_one_makes_it_broken(lost: bool) -> None:
    """What a GPU does not support is unknown, and the library is closed again."""
    library = Library(lost)
    collected = Nvml(lambda: library).collect(LiveHost())
    first = collected.devices[0]

    assert collected.report.state == ("broken" if lost else "present")
    assert len(collected.devices) == (1 if lost else 2)
    assert (first.pci, first.pci_id, first.files) == (
        "0000:3b:00.0",
        "10de:1eb8",
        ("/dev/nvidia1",),
    )
    assert (first.memory_mib, first.uuid, first.runtime_version) == (None, None, "12.4")
    assert not library.open


def test_another_vendors_cards_are_not_nvidias() -> None:
    """Iluvatar's library has the same name and the same functions."""
    library = Library()
    library.nvmlDeviceGetPciInfo = lambda handle: SimpleNamespace(  # type: ignore[method-assign]
        busId="00000000:8A:00.0", pciDeviceId=0x00011E3E
    )

    assert Nvml(lambda: library).collect(LiveHost()).devices == ()


def test_a_library_that_cannot_start_is_broken_with_its_reason() -> None:
    """Driver and library of different versions, for one."""
    collected = Nvml(lambda: Library(init="Driver/library version mismatch")).collect(LiveHost())

    assert collected.report.state == "broken"
    assert "mismatch" in collected.report.detail
    assert collected.failed_empty


def test_a_missing_binding_is_absent() -> None:
    """The tool stands in for it."""

    def load() -> object:
        raise ImportError("no pynvml")

    assert Nvml(load).collect(LiveHost()).report.state == "absent"
