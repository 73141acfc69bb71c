"""Gaudi's device nodes and states, from sysfs.

/dev/accel is shared by everything that calls itself an accelerator, the NPUs of laptops too: a
node is Gaudi's only if it hangs below a PCI function of that vendor. Older drivers have /dev/hlN.
The control node beside each (accel_controlD) is not listed: it starts no work, and tools need it.
"""

from __future__ import annotations

from hpcmgr.discovery.host import Host
from hpcmgr.discovery.node_places import NodePlaces, cards
from hpcmgr.discovery.source import Collected, DeviceFacts, first_line, known, whole
from hpcmgr.discovery.sysfs_pci import ROOT
from hpcmgr.inventory import Health, SourceReport
from hpcmgr.inventory.pci_address import canonical

_HABANA = "1da3"
_NODES = (r"/dev/accel/accel[0-9]+", r"/dev/hl[0-9]+")
_CLASSES = ("accel", "habanalabs")
_STATES = {
    "operational": "ok",
    "in reset": "degraded",
    "needs reset": "degraded",
    "in device creation": "degraded",
    "in reset after device release": "degraded",
    "disabled": "failed",
    "malfunction": "failed",
}


class Accel:
    """The accelerator classes of sysfs."""

    name = "accel"
    vendor: str | None = "habana"

    def collect(self, host: Host) -> Collected:
        """Look at each Gaudi that the kernel lists."""
        found = cards(host, (_HABANA,))
        if not found:
            return Collected(SourceReport(name=self.name, state="absent", detail="no Gaudi here"))
        entries = _entries(host)
        places = NodePlaces(host, _NODES, ())
        driver = known(first_line(host.read_text("/sys/module/habanalabs/version") or ""))
        facts = []
        for pci in found:
            node, folder = entries.get(pci, (None, None))
            files = (node,) if node else places.at(pci)
            facts.append(_facts(host, pci, files, folder, driver))
        return Collected(SourceReport(name=self.name, state="present"), tuple(facts))


def _entries(host: Host) -> dict[str, tuple[str, str]]:
    """Address → device node and folder of its values."""
    found: dict[str, tuple[str, str]] = {}
    for name in _CLASSES:
        for entry in host.listdir(f"/sys/class/{name}"):
            folder = f"/sys/class/{name}/{entry}"
            node = f"/dev/accel/{entry}" if name == "accel" else f"/dev/{entry}"
            prefix = "accel" if name == "accel" else "hl"
            pci = _place(host, folder)
            if pci and entry.removeprefix(prefix).isdigit():
                found.setdefault(pci, (node, f"{folder}/device" if name == "accel" else folder))
    return found


def _place(host: Host, folder: str) -> str | None:
    target = (host.readlink(f"{folder}/device") or "").rstrip("/").rpartition("/")[2]
    told = (host.read_text(f"{folder}/{name}") for name in ("device/pci_addr", "pci_addr"))
    way = (host.readlink(folder) or "").split("/")
    return (
        canonical(target)
        or next((p for text in told if (p := canonical(text))), None)
        or next((pci for part in reversed(way) if (pci := canonical(part))), None)
    )


def _facts(
    host: Host, pci: str, files: tuple[str, ...], folder: str | None, driver: str | None
) -> DeviceFacts:
    base = folder or f"{ROOT}/{pci}"
    return DeviceFacts(
        ref=pci,
        vendor="habana",
        kind="npu",
        pci=pci,
        index=whole(host.read_text(f"{base}/module_id")),
        files=files,
        driver=driver,
        health=_health(host.read_text(f"{base}/status")),
    )


def _health(text: str | None) -> Health | None:
    said = first_line(text or "")
    state = _STATES.get(said.lower())
    if state is None:
        return None
    if state == "ok":
        return Health(state="ok")
    return Health.model_validate({"state": state, "reasons": (f"driver: {said}",)})
