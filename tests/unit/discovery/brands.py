"""Machines with cards of one brand, built up from what the kernel and the tools say."""

from __future__ import annotations

from collections.abc import Callable

from hpcmgr.inventory import Device, NodeInventory
from tests.outputs import OUTPUTS, output
from tests.unit.discovery.conftest import Recording

Make = Callable[[str], Recording]


def says(host: Recording, *names: str, **changed: str) -> Recording:
    """The tools print these outputs; ``old="new"`` pairs are replaced in each."""
    for name in names:
        text = output(name)
        for old, new in changed.items():
            text = text.replace(old, new)
        host.answers(OUTPUTS[name], text)
    return host


def card(
    host: Recording, pci: str, pci_id: str, pci_class: str = "0x120000", numa: int = 0
) -> Recording:
    """The kernel lists a function, with a driver bound to it."""
    vendor, device = pci_id.split(":")
    for name, text in (
        ("vendor", f"0x{vendor}"),
        ("device", f"0x{device}"),
        ("class", pci_class),
        ("numa_node", str(numa)),
        ("driver", "../../../bus/pci/drivers/some"),
    ):
        host.file(f"/sys/bus/pci/devices/{pci}/{name}", f"{text}\n")
    return host


def nodes(host: Recording, *paths: str, **places: str) -> Recording:
    """The machine has these device nodes; ``major:minor`` follows their order.

    ``places``: PCI address by number of the node in ``paths``, as in ``n1="0000:3b:00.0"``, where
    the kernel hung the node below the function.
    """
    lines = [f"{path} c 240 {minor} 0666\n" for minor, path in enumerate(paths)]
    host.file("/dev.txt", "".join(lines))
    for number, pci in places.items():
        link = f"../../devices/pci0000:00/0000:00:01.0/{pci}/some/node{number}"
        host.file(f"/sys/dev/char/240:{number[1:]}", link)
    return host


def told(device: Device) -> tuple[object, ...]:
    """model, place, number, files and memory of a device."""
    return (device.model, device.pci, device.index, device.files, device.memory_mib)


def broken(inventory: NodeInventory) -> dict[str, str]:
    """Broken sources and what they say; the processors, which such a machine lacks, left out."""
    return {r.name: r.detail for r in inventory.broken_sources if r.name != "cpu"}
