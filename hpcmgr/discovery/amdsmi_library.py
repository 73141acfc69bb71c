"""AMD SMI, AMD's library, through its Python package ``amdsmi``. Read on a live host only.

AMD ships the package with ROCm, not always where Python looks. Importing it loads the library, and
talks on stdout where that is missing. Every query is optional: what a GPU does not support is
unknown. A GPU that tells no address makes the source broken, the others are still listed.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpcmgr.discovery import amd_ids, kfd_tree
from hpcmgr.discovery.findings import Findings
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.kfd_tree import KfdTree
from hpcmgr.discovery.source import Collected, DeviceFacts, first_line, known, known_serial

SHIPPED = Path("/opt/rocm/share/amd_smi")
"""Where ROCm puts the package, for its own tool."""


def load() -> Any:
    """The package's module.

    Raises:
        ModuleNotFoundError: it is not there.
        Exception: whatever it raises where its library cannot be loaded.
    """
    found = importlib.util.find_spec("amdsmi") is not None
    if not found and not (SHIPPED / "amdsmi").is_dir():
        raise ModuleNotFoundError("no package amdsmi")
    with contextlib.redirect_stdout(sys.stderr):
        if found:
            return importlib.import_module("amdsmi")
        sys.path.append(os.fspath(SHIPPED))
        try:
            return importlib.import_module("amdsmi")
        finally:
            sys.path.remove(os.fspath(SHIPPED))


class AmdSmiLibrary:
    """The library. ``load`` gives the package's module."""

    name = "amdsmi"
    vendor: str | None = "amd"

    def __init__(self, load: Callable[[], Any] = load) -> None:
        self._load = load

    def collect(self, host: Host) -> Collected:
        """Ask the library about every GPU and partition."""
        findings = Findings(host, self.name)
        if not host.live:
            return findings.absent("a recorded host has no library")
        try:
            library = self._load()
        except ModuleNotFoundError as error:
            return findings.absent(str(error))
        except Exception as error:
            # A package without its library fails in the middle of its import, as it happens to.
            findings.problems.append(f"amdsmi cannot be imported: {_words(error)}")
            return findings.result(())
        try:
            library.amdsmi_init()
        except library.AmdSmiException as error:
            findings.problems.append(f"amdsmi_init: {_words(error)}")
            return findings.result(())
        try:
            return findings.result(_devices(library, host, findings))
        except library.AmdSmiException as error:
            findings.problems.append(_words(error))
            return findings.result(())
        finally:
            _Query(library, None).ask("shut_down")


class _Query:
    """Questions about one GPU; None for what it or this release does not answer."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library, self._handle = library, handle

    def ask(self, name: str) -> Any:
        function = getattr(self._library, f"amdsmi_{name}", None)
        if function is None:
            return None
        try:
            return function() if self._handle is None else function(self._handle)
        except self._library.AmdSmiException:
            return None

    def text(self, name: str) -> str | None:
        """An answer that is one text."""
        told = self.ask(name)
        return known(told) if isinstance(told, str) else None

    def table(self, name: str) -> Mapping[str, Any]:
        """An answer that is a dictionary."""
        told = self.ask(name)
        return told if isinstance(told, dict) else {}


def _devices(library: Any, host: Host, findings: Findings) -> tuple[DeviceFacts, ...]:
    tree = kfd_tree.read(host)
    queries = [_Query(library, handle) for handle in library.amdsmi_get_processor_handles()]
    told = {number: _address(query, tree) for number, query in enumerate(queries)}
    lost = [str(number) for number, address in told.items() if address is None]
    if lost:
        findings.problems.append(f"GPU {', '.join(lost)}: no address")
    places = amd_ids.places(address for address in told.values() if address)
    devices = []
    for number, query in enumerate(queries):
        pci, chip = places.get(told[number] or "", (None, None))
        if pci is not None:
            devices.append(replace(_facts(query, number), pci=pci, chip=chip, board=pci))
    modes = {query.text("get_gpu_compute_partition") for query in queries} - {None, "SPX"}
    if modes:
        findings.notes.append(f"compute partition {', '.join(sorted(m for m in modes if m))}")
    return tuple(devices)


def _address(query: _Query, tree: KfdTree | None) -> str | None:
    """As told; a partition is found by its KFD id, where it is told its parent's address."""
    kfd_id = query.table("get_gpu_kfd_info").get("kfd_id")
    node = tree.at(gpu_id=str(kfd_id)) if tree is not None and kfd_id else None
    if node is not None and node.pci is not None and node.partition is not None:
        return f"{node.pci[:-1]}{node.partition}"
    return query.text("get_gpu_device_bdf")


def _facts(query: _Query, number: int) -> DeviceFacts:
    """All but the place."""
    asic, board = query.table("get_gpu_asic_info"), query.table("get_gpu_board_info")
    return DeviceFacts(
        ref=f"GPU{number}",
        vendor="amd",
        kind="gpu",
        model=_name(asic.get("market_name")) or _name(board.get("product_name")),
        pci_id=_pci_id(asic),
        uuid=query.text("get_gpu_device_uuid"),
        serial=known_serial(_text(board.get("product_serial")))
        or amd_ids.nonzero(_text(asic.get("asic_serial"))),
        memory_mib=_mebibytes(query.table("get_gpu_vram_info").get("vram_size")),
        driver=known(_text(query.table("get_gpu_driver_info").get("driver_version"))),
        firmware=known(_text(query.table("get_gpu_vbios_info").get("version"))),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _name(value: Any) -> str | None:
    """A model whose name the library does not know is told as its number."""
    name = known(_text(value))
    return None if name is None or name.lower().startswith("0x") else name


def _pci_id(asic: Mapping[str, Any]) -> str | None:
    """``0x1002`` and ``0x74a1``; older releases give numbers."""
    parts = []
    for key in ("vendor_id", "device_id"):
        try:
            value = asic.get(key)
            parts.append(value if isinstance(value, int) else int(str(value), 16))
        except ValueError:
            return None
    return ":".join(f"{part:04x}" for part in parts) if max(parts) <= 0xFFFF else None


def _mebibytes(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 < value < 1 << 30 else None


def _words(error: Exception) -> str:
    """The library's messages have several lines."""
    return f"{type(error).__name__}: {first_line(' '.join(str(error).split()))}"
