"""The XML of ``nvidia-smi -q -x``: GPUs out of a text that may be cut or have words before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from hpcmgr.discovery.source import (
    DeviceFacts,
    first_line,
    known,
    known_serial,
    leading_number,
    whole,
)
from hpcmgr.inventory import Health
from hpcmgr.inventory.pci_address import canonical, sort_key

_END = "</nvidia_smi_log>"
_LOST = ("gpu is lost", "gpu requires reset")
_BEYOND_REPAIR = frozenset({"row remapping failed", "memory that cannot be repaired"})


@dataclass(frozen=True, slots=True)
class SmiLog:
    """GPUs as elements in the order of their PCI addresses, and what was wrong with the text.

    ``around``: what was said before and after the XML.
    """

    gpus: tuple[Element, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    attached: int | None = None
    around: str = ""
    problem: str = ""


def parse(text: str) -> SmiLog:
    """Every complete ``<gpu>`` of the text; never raises."""
    starts = [at for at in (text.find("<?xml"), text.find("<nvidia_smi_log")) if at >= 0]
    if not starts:
        said = first_line(text)
        return SmiLog(problem="printed no XML" + (f" but {said!r}" if said else ""))
    before, xml = text[: min(starts)], text[min(starts) :]
    if "<!ENTITY" in xml:
        return SmiLog(problem="printed XML with entities, which nvidia-smi never does")
    xml, end, after = xml.partition(_END)
    gpus, values, problem = _elements(xml + end)
    gpus.sort(key=lambda gpu: sort_key(address(gpu)))
    return SmiLog(
        tuple(gpus),
        known(values.get("driver_version")),
        known(values.get("cuda_version")),
        whole(values.get("attached_gpus")),
        "\n".join(part.strip() for part in (before, after) if part.strip()),
        problem,
    )


def _elements(text: str) -> tuple[list[Element], dict[str, str], str]:
    # Fed piece by piece, so that what stands before a fault is kept.
    parser: XMLPullParser[Any] = XMLPullParser(("end",))
    gpus: list[Element] = []
    values: dict[str, str] = {}
    problem = ""
    try:
        parser.feed(text)
        parser.close()
    except (ParseError, ValueError) as error:
        problem = f"printed broken XML: {error}"
    try:
        for event in parser.read_events():
            element = cast(tuple[str, object], event)[1]
            if not isinstance(element, Element):
                continue
            if element.tag == "gpu":
                gpus.append(element)
            elif element.tag in ("driver_version", "cuda_version", "attached_gpus"):
                values.setdefault(element.tag, element.text or "")
    except (ParseError, ValueError) as error:
        problem = problem or f"printed broken XML: {error}"
    return gpus, values, problem


def address(gpu: Element) -> str | None:
    """PCI address of a GPU."""
    return canonical(gpu.get("id")) or canonical(gpu.findtext("pci/pci_bus_id"))


def is_nvidia(gpu: Element) -> bool:
    """Whether it is NVIDIA's: other vendors ship a tool of that name that prints the same."""
    pci_id = _pci_id(gpu.findtext("pci/pci_device_id"))
    return pci_id is None or pci_id.startswith("10de:")


def facts(gpu: Element, log: SmiLog, index: int) -> DeviceFacts:
    """What one element says; its minor number names the device node, ``index`` is CUDA's."""
    minor = whole(gpu.findtext("minor_number"))
    shared_board = (gpu.findtext("multigpu_board") or "").strip().lower() == "yes"
    serial = known_serial(gpu.findtext("serial"))
    return DeviceFacts(
        ref=f"GPU{index}",
        vendor="nvidia",
        kind="gpu",
        model=known(gpu.findtext("product_name")),
        pci=address(gpu),
        pci_id=_pci_id(gpu.findtext("pci/pci_device_id")),
        index=index,
        files=() if minor is None else (f"/dev/nvidia{minor}",),
        uuid=known(gpu.findtext("uuid")),
        serial=serial,
        board=serial if shared_board else None,
        memory_mib=leading_number(gpu.findtext("fb_memory_usage/total")),
        driver=log.driver,
        firmware=known(gpu.findtext("vbios_version")),
        runtime_version=log.cuda,
        nvlink_domain=_domain(gpu),
        health=_health(gpu),
    )


def _domain(gpu: Element) -> str | None:
    """Cluster and clique, once the fabric manager has let the GPU in. The NVLink of one machine is
    a cluster of zeros: no other node is in it."""
    cluster = known_serial(gpu.findtext("fabric/clusterUuid"))
    clique = whole(gpu.findtext("fabric/cliqueId"))
    state = (gpu.findtext("fabric/state") or "").strip().lower()
    return (
        f"{cluster}.{clique}" if cluster and clique is not None and state == "completed" else None
    )


def _pci_id(text: str | None) -> str | None:
    """``20B210DE`` (device, vendor) → ``10de:20b2``."""
    value = (text or "").strip().lower().removeprefix("0x")
    if len(value) != 8 or any(c not in "0123456789abcdef" for c in value):
        return None
    return f"{value[4:]}:{value[:4]}"


def _health(gpu: Element) -> Health:
    """From remapped rows, retired pages, ECC errors and recovery actions.

    Reasons hold no counts: an inventory must not change with every corrected bit.
    """
    lost = [word for word in _LOST if any(word in (e.text or "").lower() for e in gpu.iter())]
    if lost:
        return Health(state="failed", reasons=tuple(lost))
    checks = (
        (_yes(gpu, "remapped_rows/remapped_row_failure"), "row remapping failed"),
        (_yes(gpu, "ecc_errors/unrepairable_memory"), "memory that cannot be repaired"),
        (_yes(gpu, "ecc_errors/channel_repair_pending"), "channel repair pending, needs a reset"),
        (_yes(gpu, "ecc_errors/tpc_repair_pending"), "TPC repair pending, needs a reset"),
        (_yes(gpu, "remapped_rows/remapped_row_pending"), "row remapping pending, needs a reset"),
        (_yes(gpu, "retired_pages/pending_blacklist"), "page retirement pending, needs a reset"),
        (_yes(gpu, "retired_pages/pending_retirement"), "page retirement pending, needs a reset"),
        (_yes(gpu, "gpu_reset_status/reset_required"), "reset required"),
        (_uncorrectable(gpu), "uncorrectable ECC errors since the driver was loaded"),
        (_recovery(gpu) is not None, f"recovery action: {_recovery(gpu)}"),
    )
    reasons = list(dict.fromkeys(reason for bad, reason in checks if bad))
    if reasons:
        failed = _BEYOND_REPAIR.intersection(reasons)
        return Health(state="failed" if failed else "degraded", reasons=tuple(reasons))
    if not any(known(gpu.findtext(tag)) for tag in ("performance_state", "temperature/gpu_temp")):
        return Health(state="unknown", reasons=("nvidia-smi tells nothing of its state",))
    return Health(state="ok")


def _yes(gpu: Element, path: str) -> bool:
    return (gpu.findtext(path) or "").strip().lower() == "yes"


def _recovery(gpu: Element) -> str | None:
    return known(gpu.findtext("gpu_recovery_action"))


def _uncorrectable(gpu: Element) -> bool:
    volatile = gpu.find("ecc_errors/volatile")
    if volatile is None:
        return False
    # Older releases call them double_bit, with one count a part of the chip.
    counts = [element for element in volatile.iter() if "uncorrectable" in element.tag]
    return any((whole(e.text) or 0) > 0 for e in (*counts, *volatile.findall("double_bit/*")))
