"""The node itself: do the tools answer, are the cards there, can jobs open them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmgr.discovery import Host
from hpcmgr.doctor.finding import Finding, Layer, Severity
from hpcmgr.inventory import Device, NodeInventory
from hpcmgr.inventory.drift import Drift, named
from hpcmgr.inventory.pci_address import canonical

_TIMEOUT = 20.0

_CARD = (
    "a card does not answer: look for Xid 79 or AER errors in dmesg, power the node off and on, "
    "then seat the card anew or replace it"
)
_ADVICE = {
    r"version mismatch": (
        "the driver was updated while its old module is still loaded: drain the node and reboot "
        "it, or unload and load the module"
    ),
    r"couldn't communicate with the NVIDIA driver|driver.*not loaded|no NVIDIA driver": (
        "load the driver (modprobe nvidia); after a new kernel build its module first (dkms status)"
    ),
    r"fallen off|is lost|requires reset": _CARD,
    r"no answer": (
        "the tool hangs in its driver: look for blocked tasks in dmesg; only a reboot helps where "
        "it cannot be killed"
    ),
    r"permission|not permitted|insufficient": "run it as root",
    r"-8005|-8010": "firmware and driver do not fit, or were updated without a reboot: reboot",
    r"twice|lists no|does not show|says .* attached": (
        "the tool contradicts itself or the kernel: run it by hand; a container may hide devices"
    ),
    r"exit [0-9]|did not start|printed": "the tool fails: run it by hand and look at dmesg",
    r"does not answer for": _CARD,
}
"""What a broken source says → what to do."""

_COMPANIONS = {
    "nvidia": ("/dev/nvidiactl", "/dev/nvidia-uvm"),
    "huawei": ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"),
    "amd": ("/dev/kfd",),
    "iluvatar": ("/dev/itrctl",),
    "cambricon": ("/dev/cambricon_ctl",),
    "kunlunxin": ("/dev/xpuctrl",),
}
"""Device nodes that all devices of a maker share, and without which none of them works."""


def node_findings(host: Host, inventory: NodeInventory) -> Iterator[Finding]:
    """All checks of this layer that need no published inventory."""
    yield from _sources(inventory)
    yield from _lost(host, inventory)
    for device in inventory.devices:
        yield from _device(device)
    yield from _alike(inventory)
    yield from _nodes(host, inventory)
    if not inventory.devices and not inventory.broken_sources:
        yield _say(Severity.NOTE, "no-devices", "", "no accelerator was found here",
                   "", "")  # fmt: skip


def published_findings(drift: Drift | None, problem: str) -> Iterator[Finding]:
    """How the node stands to what it has published; ``problem``: why that cannot be told."""
    if drift is None:
        yield _say(
            Severity.UNKNOWN, "published", "", f"the published inventory was not seen: {problem}",
            "What Slurm is told of this node comes from there.",
            "see 'inventory' in site.yaml; on a compute node run 'hpcmgr sync'",
        )  # fmt: skip
    elif drift.first:
        yield _say(
            Severity.WARNING, "published", "", "this node has not published an inventory",
            "'hpcmgr apply' does not know it.", "run 'hpcmgr sync' here",
        )  # fmt: skip
    elif drift.changes:
        words = "; ".join(str(change) for change in drift.changes[:3])
        more = len(drift.changes) - 3
        yield _say(
            Severity.WARNING, "published", "",
            f"changed since the last sync: {words}" + (f"; and {more} more" if more > 0 else ""),
            "What Slurm is told of this node is out of date.",
            "run 'hpcmgr sync' here, then 'hpcmgr apply' on the controller",
        )  # fmt: skip


def _say(severity: Severity, rule: str, subject: str, text: str, why: str, fix: str) -> Finding:
    return Finding(Layer.NODE, severity, rule, subject, text, why, fix)


def _sources(inventory: NodeInventory) -> Iterator[Finding]:
    for source in inventory.broken_sources:
        advice = next(
            (
                text
                for pattern, text in _ADVICE.items()
                if re.search(pattern, source.detail, re.IGNORECASE)
            ),
            f"run {source.name} by hand and look at dmesg",
        )
        yield _say(
            Severity.ERROR, "source-broken", source.name,
            f"{source.name} is broken: {source.detail}",
            "What it should tell is not known, so 'hpcmgr sync' publishes nothing.", advice,
        )  # fmt: skip


def _lost(host: Host, inventory: NodeInventory) -> Iterator[Finding]:
    """Cards whose configuration space reads as all ones: they do not answer on the bus."""
    places = {device.pci: device for device in inventory.devices if device.pci}
    said = host.run(("lspci", "-Dnn"), _TIMEOUT).stdout
    dead = {
        address
        for line in said.splitlines()
        if "(rev ff)" in line and (address := canonical(line.split()[0])) is not None
    }
    for pci in places:
        head = (host.read_text(f"/sys/bus/pci/devices/{pci}/config") or "")[:4]
        if len(head) == 4 and set(head) == {"\N{REPLACEMENT CHARACTER}"}:
            dead.add(pci)
    for pci in sorted(dead & places.keys()):
        yield _say(
            Severity.ERROR, "card-lost", pci,
            f"{named(places[pci])}: does not answer on the bus (its configuration reads ff)",
            "It has fallen off the bus; the driver may still list it.",
            "drain the node, power it off and on, then seat the card anew or replace it",
        )  # fmt: skip


def _device(device: Device) -> Iterator[Finding]:
    health, name = device.health, named(device)
    if health.state in ("failed", "degraded"):
        severity = Severity.ERROR if health.state == "failed" else Severity.WARNING
        yield _say(
            severity, "health", device.key, f"{name}: {health.state}: {'; '.join(health.reasons)}",
            "Jobs on it may fail or compute wrongly.",
            "drain the node; reset the device or reboot, and replace it where that does not help",
        )  # fmt: skip
    for conflict in device.conflicts:
        yield _say(
            Severity.WARNING, "conflict", device.key, f"{name}: sources differ: {conflict}",
            "One of them is wrong or out of date.", "compare them by hand (hpcmgr discover --json)",
        )  # fmt: skip


def _alike(inventory: NodeInventory) -> Iterator[Finding]:
    """What is often so of many devices is said once for all of them."""
    devices = inventory.devices
    for why in dict.fromkeys(d.health.reasons for d in devices if d.health.state == "unknown"):
        group = [d for d in devices if d.health.state == "unknown" and d.health.reasons == why]
        yield _say(
            Severity.UNKNOWN, "health", group[0].key,
            f"{_all(group)}: health unknown: {'; '.join(why) or 'nobody tells'}",
            "", "install the maker's tool, or see why it does not answer",
        )  # fmt: skip
    for model in dict.fromkeys(d.model for d in devices if d.profile is None):
        group = [d for d in devices if d.profile is None and d.model == model]
        yield _say(
            Severity.WARNING, "no-profile", group[0].key,
            f"{_all(group)}: no device profile matches",
            "Slurm is not told of it: no job can have it.",
            "write a profile for it (hpcmgr profiles show NAME is a pattern), check it with "
            "'hpcmgr profiles check FILE', name its folder in site.yaml: profiles.dirs",
        )  # fmt: skip
    homeless = [d for d in devices if d.numa_node is None]
    if homeless:
        yield _say(
            Severity.NOTE, "numa-unknown", homeless[0].key, f"{_all(homeless)}: NUMA node unknown",
            "Jobs cannot be bound to cores near it.",
            "the firmware tells it (_PXM): look for a BIOS update, or a setting for NUMA",
        )  # fmt: skip


def _all(group: list[Device]) -> str:
    if len(group) == 1:
        return named(group[0])
    models = " and ".join(dict.fromkeys(device.model for device in group))
    return f"{models} at {', '.join(device.key for device in group)}"


def _nodes(host: Host, inventory: NodeInventory) -> Iterator[Finding]:
    nodes = host.device_nodes()
    if nodes is None:
        if inventory.devices:
            yield _say(
                Severity.UNKNOWN, "device-nodes", "",
                "the recording has no dev.txt: device nodes were not looked at", "",
                "record the host with 'hpcmgr record'",
            )  # fmt: skip
        return
    modes = {node.path: node.mode for node in nodes}
    bare = [device for device in inventory.devices if not device.files]
    if bare:
        yield _say(
            Severity.ERROR, "device-nodes", bare[0].key, f"{_all(bare)}: no device node is known",
            "No job can open it, so Slurm is not told of it.",
            "is the driver loaded and udev running? NVIDIA: nvidia-modprobe -c 0 -u makes them",
        )  # fmt: skip
    yield from _closed([file for device in inventory.devices for file in device.files], modes)
    for vendor in sorted({device.vendor for device in inventory.devices}):
        for path in _COMPANIONS.get(vendor, ()):
            if path not in modes:
                yield _say(
                    Severity.ERROR, "device-nodes", path, f"{path} does not exist",
                    f"No device of {vendor} works without it.",
                    "load the driver; NVIDIA: nvidia-modprobe -u; see the driver's own log",
                )  # fmt: skip


def _closed(files: list[str], modes: dict[str, int]) -> Iterator[Finding]:
    """Nodes that jobs of ordinary users cannot open. Programs compute through renderD, and the
    card node beside it is for displays."""
    closed: dict[int, list[str]] = {}
    for file in files:
        mode = modes.get(file, 0o666)
        if mode & 0o006 != 0o006 and not file.startswith("/dev/dri/card"):
            closed.setdefault(mode, []).append(file)
    for mode, group in sorted(closed.items()):
        yield _say(
            Severity.WARNING, "device-closed", group[0], f"mode {mode:04o}: {', '.join(group)}",
            "Only owner and group may open it: jobs of other users fail with 'permission denied'.",
            "put the users into its group, or open it by a udev rule (MODE=\"0666\"): Slurm's "
            "cgroup keeps jobs apart",
        )  # fmt: skip
