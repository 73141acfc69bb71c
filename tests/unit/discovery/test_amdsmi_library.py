"""The amdsmi source against a stand-in for AMD's package, which needs an AMD GPU to load."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from hpcmgr.discovery import RecordedHost, amdsmi_library
from hpcmgr.discovery.amdsmi_library import AmdSmiLibrary, load
from hpcmgr.discovery.host import CommandResult, DeviceNode, LiveHost
from tests.unit.discovery.conftest import Recording


class AmdSmiException(Exception):
    """As the package's own, with its message over two lines."""

    def __str__(self) -> str:
        return "Error code:\n\t34 | AMDSMI_STATUS_DRIVER_NOT_LOADED - Driver not loaded"


class Package:
    """``amdsmi`` 7.0.2 as its Python reads: the types that its functions return, for two GPUs.

    ``modes``: the compute partition of each handle; ``lost``: handles that answer nothing.
    """

    AmdSmiException = AmdSmiException

    def __init__(
        self,
        bdfs: tuple[str, ...] = ("0000:05:00.0", "0000:26:00.0"),
        mode: str = "SPX",
        lost: tuple[int, ...] = (),
        loaded: bool = True,
    ) -> None:
        self.bdfs, self.mode, self.lost, self.loaded = bdfs, mode, lost, loaded
        self.open = False

    def amdsmi_init(self, flag: int = 1) -> None:
        if not self.loaded:
            raise AmdSmiException
        self.open = True

    def amdsmi_shut_down(self) -> None:
        self.open = False

    def amdsmi_get_processor_handles(self) -> list[int]:
        return list(range(len(self.bdfs)))

    def _check(self, handle: int) -> None:
        if handle in self.lost:
            raise AmdSmiException

    def amdsmi_get_gpu_device_bdf(self, handle: int) -> str:
        self._check(handle)
        return self.bdfs[handle]

    def amdsmi_get_gpu_device_uuid(self, handle: int) -> str:
        self._check(handle)
        return f"{handle + 1:02x}ff74a1-0000-1000-8000-0000000000{handle + 1:02x}"

    def amdsmi_get_gpu_asic_info(self, handle: int) -> dict[str, object]:
        self._check(handle)
        return {
            "market_name": "AMD Instinct MI300X",
            "vendor_id": "0x1002",
            "vendor_name": "Advanced Micro Devices Inc. [AMD/ATI]",
            "subvendor_id": "0x1002",
            "device_id": "0x74a1",
            "rev_id": "0x00",
            "asic_serial": f"0x{handle + 1:016X}",
            "oam_id": handle,
            "num_compute_units": 304,
            "target_graphics_version": "gfx942",
            "subsystem_id": "0x74a1",
        }

    def amdsmi_get_gpu_board_info(self, handle: int) -> dict[str, str]:
        return {
            "model_number": "102-G30211-0C",
            "product_serial": "N/A" if handle else "692432007771",
            "fru_id": "113-AMDG302110C03",
            "product_name": "AMD Instinct MI300X OAM",
            "manufacturer_name": "AMD",
        }

    def amdsmi_get_gpu_vram_info(self, handle: int) -> dict[str, object]:
        return {"vram_type": 9, "vram_vendor": "HYNIX", "vram_size": 196592,
                "vram_bit_width": 8192, "vram_max_bandwidth": "N/A"}  # fmt: skip

    def amdsmi_get_gpu_driver_info(self, handle: int) -> dict[str, str]:
        return {"driver_name": "amdgpu", "driver_version": "6.10.5", "driver_date": "2015/01/01"}

    def amdsmi_get_gpu_vbios_info(self, handle: int) -> dict[str, str]:
        raise AmdSmiException

    def amdsmi_get_gpu_compute_partition(self, handle: int) -> str:
        return self.mode


class AmdNode(LiveHost):
    """This machine as a node whose kernel tells nothing."""

    def listdir(self, path: str) -> tuple[str, ...]:
        return ()

    def read_text(self, path: str) -> str | None:
        return None

    def device_nodes(self) -> tuple[DeviceNode, ...] | None:
        return ()

    def run(self, argv: object, timeout: float) -> CommandResult:
        raise AssertionError("a library asks no tool")


def test_gpus_are_described() -> None:
    """Each with what its own answers say; a question that is not supported is unknown."""
    package = Package()
    collected = AmdSmiLibrary(lambda: package).collect(AmdNode())
    first, second = collected.devices

    assert (collected.report.state, collected.report.detail) == ("present", "")
    assert (first.pci, first.chip, first.pci_id) == ("0000:05:00.0", None, "1002:74a1")
    assert (first.model, first.memory_mib) == ("AMD Instinct MI300X", 196592)
    assert (first.serial, second.serial) == ("692432007771", "0x0000000000000002")
    assert (first.driver, first.firmware) == ("6.10.5", None)
    assert first.uuid == "01ff74a1-0000-1000-8000-000000000001"
    assert (first.index, first.numa_node, first.files, first.health) == (None, None, (), None)
    assert not package.open


def test_partitions_are_chips_of_their_gpu() -> None:
    """The second is told as function 1, which is none."""
    package = Package(bdfs=("0000:05:00.0", "0000:05:00.1", "0000:26:00.0"), mode="CPX")
    collected = AmdSmiLibrary(lambda: package).collect(AmdNode())

    assert [(d.pci, d.chip) for d in collected.devices] == [
        ("0000:05:00.0", 0), ("0000:05:00.0", 1), ("0000:26:00.0", None)
    ]  # fmt: skip
    assert collected.report.detail == "compute partition CPX"


def test_a_lost_gpu_makes_it_broken() -> None:
    """The other is still listed."""
    collected = AmdSmiLibrary(lambda: Package(lost=(1,))).collect(AmdNode())

    assert collected.report.state == "broken"
    assert collected.report.detail == "GPU 1: no address"
    assert [d.pci for d in collected.devices] == ["0000:05:00.0"]


def test_a_driver_that_is_not_loaded_is_broken() -> None:
    """In the library's words, in one line."""
    collected = AmdSmiLibrary(lambda: Package(loaded=False)).collect(AmdNode())

    assert collected.report.state == "broken"
    assert "Driver not loaded" in collected.report.detail
    assert "\n" not in collected.report.detail
    assert collected.failed_empty


def test_a_library_without_gpus_is_broken() -> None:
    """Coverage makes it absent where the kernel lists no AMD card."""
    collected = AmdSmiLibrary(lambda: Package(bdfs=())).collect(AmdNode())

    assert (collected.report.state, collected.failed_empty) == ("broken", True)


def test_a_recorded_host_has_no_library(recording: Callable[[str], Recording]) -> None:
    """amd-smi's output stands in for it."""

    def never() -> NoReturn:
        raise AssertionError("not asked")

    host = RecordedHost(recording("").folder)
    assert AmdSmiLibrary(never).collect(host).report.state == "absent"


@pytest.fixture(name="site")
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages that stands for ROCm's."""
    monkeypatch.setattr(amdsmi_library, "SHIPPED", tmp_path)
    monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
    yield tmp_path
    sys.modules.pop("amdsmi", None)


def test_without_the_package_it_is_absent(site: Path) -> None:
    """It is no dependency: AMD ships it with ROCm."""
    assert AmdSmiLibrary().collect(AmdNode()).report.state == "absent"


def test_it_is_found_where_rocm_puts_it(site: Path) -> None:
    """Which is no place where Python looks, and stays none."""
    (site / "amdsmi").mkdir()
    (site / "amdsmi" / "__init__.py").write_text("here = True\n")

    assert load().here
    assert str(site) not in sys.path


def test_a_package_without_its_library_is_broken(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It talks and fails in the middle of its import; stdout is ours."""
    (site / "amdsmi").mkdir()
    text = "print('Unable to find libamd_smi.so')\nraise KeyError('libamd_smi.so')\n"
    (site / "amdsmi" / "__init__.py").write_text(text)
    collected = AmdSmiLibrary().collect(AmdNode())

    assert collected.report.state == "broken"
    assert "KeyError: 'libamd_smi.so'" in collected.report.detail
    assert collected.failed_empty
    assert capsys.readouterr().out == ""
