"""NVIDIA's driver in /proc: model, uuid and device minor without asking any tool."""

from __future__ import annotations

from hpcmgr.discovery.host import Host
from hpcmgr.discovery.source import Collected, DeviceFacts, key_values, known, whole
from hpcmgr.inventory import SourceReport
from hpcmgr.inventory.pci_address import canonical

ROOT = "/proc/driver/nvidia/gpus"


class NvidiaDriver:
    """The driver's own list of GPUs."""

    name = "nvidia-driver"
    vendor: str | None = "nvidia"

    def collect(self, host: Host) -> Collected:
        """Read every GPU's information file."""
        if not host.exists("/proc/driver/nvidia"):
            return Collected(SourceReport(name=self.name, state="absent", detail="not loaded"))
        devices = []
        for name in host.listdir(ROOT):
            pci = canonical(name)
            text = host.read_text(f"{ROOT}/{name}/information")
            if pci is not None and text is not None:
                devices.append(_facts(pci, dict(key_values(text)), self._version(host)))
        return Collected(SourceReport(name=self.name, state="present", detail=""), tuple(devices))

    def _version(self, host: Host) -> str | None:
        return known(host.read_text("/sys/module/nvidia/version"))


def _facts(pci: str, values: dict[str, str], version: str | None) -> DeviceFacts:
    minor = whole(values.get("Device Minor"))
    return DeviceFacts(
        ref=pci,
        vendor="nvidia",
        kind="gpu",
        model=known(values.get("Model")),
        pci=pci,
        files=() if minor is None else (f"/dev/nvidia{minor}",),
        uuid=known(values.get("GPU UUID")),
        firmware=known(values.get("Video BIOS")),
        driver=version,
    )
