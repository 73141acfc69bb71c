"""Drivers: do driver, firmware and runtimes fit, are they the ones that were installed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmgr.discovery import Host
from hpcmgr.doctor import software as installed
from hpcmgr.doctor.finding import Finding, Layer, Severity, Software
from hpcmgr.inventory import NodeInventory
from hpcmgr.profile import ProfileLibrary, runtimes
from hpcmgr.versions import compare

_TIMEOUT = 60.0


def driver_findings(
    host: Host, inventory: NodeInventory, library: ProfileLibrary, software: list[Software]
) -> Iterator[Finding]:
    """All checks of this layer."""
    vendors = sorted({device.vendor for device in inventory.devices})
    for vendor in vendors:
        yield from _versions(vendor, software)
        yield from _models(vendor, inventory, library, software)
        yield from _pairs(vendor, software)
    if "nvidia" in vendors:
        yield from _persistence(host)
    if "huawei" in vendors:
        yield from _ascend(host, inventory, software)


def _say(severity: Severity, rule: str, subject: str, text: str, why: str, fix: str) -> Finding:
    return Finding(Layer.DRIVER, severity, rule, subject, text, why, fix)


def _versions(vendor: str, software: list[Software]) -> Iterator[Finding]:
    """One driver a maker, and it is known."""
    drivers = [s for s in software if s.vendor == vendor and s.what == "driver"]
    if any(s.version is None for s in drivers):
        where = ", ".join(s.where for s in drivers if s.version is None)
        yield _say(
            Severity.UNKNOWN, "driver-unknown", vendor,
            f"the driver of {vendor} is unknown ({where})",
            "Whether it serves the runtimes cannot be told.", "is the driver loaded?",
        )  # fmt: skip
    known = sorted({s.version for s in drivers if s.version})
    if len(known) > 1:
        yield _say(
            Severity.ERROR, "driver-differs", vendor,
            f"devices of {vendor} have different drivers: {', '.join(known)}",
            "Tool and module are of different releases.", "reboot the node after a driver update",
        )  # fmt: skip
    firmware = sorted({s.version for s in software
                       if s.vendor == vendor and s.what == "firmware" and s.version})  # fmt: skip
    if len(firmware) > 1:
        yield _say(
            Severity.NOTE, "firmware-differs", vendor,
            f"devices of {vendor} have different firmware: {', '.join(firmware)}",
            "Equal devices may behave differently.", "bring them to one release",
        )  # fmt: skip


def _models(
    vendor: str, inventory: NodeInventory, library: ProfileLibrary, software: list[Software]
) -> Iterator[Finding]:
    """The driver drives every model that is here, as the profiles say."""
    driver = installed.driver(software, vendor)
    if driver is None or not driver[:1].isdigit():
        return
    names = {d.profile for d in inventory.devices if d.vendor == vendor and d.profile}
    for profile in filter(None, (library.get(name) for name in sorted(names))):
        wanted = profile.driver.wanted(driver) if profile.driver else ""
        if profile.driver and wanted:
            yield _say(
                Severity.ERROR, "driver-model", profile.name,
                f"driver {driver} does not drive {profile.title}: needs {wanted}",
                "Jobs on it fail when they open the device.",
                f"install a driver that does. Source: {profile.driver.source}",
            )  # fmt: skip


def _pairs(vendor: str, software: list[Software]) -> Iterator[Finding]:
    if not any(rule.vendor == vendor for rule in runtimes.rules()):
        yield _say(
            Severity.NOTE, "no-rule", vendor,
            f"no public rule says which runtime fits which driver of {vendor}: not compared",
            "", "",
        )  # fmt: skip
        return
    kits = installed.toolkits(software, vendor)
    if not kits:
        yield _say(
            Severity.NOTE, "no-runtime", vendor,
            f"no runtime of {vendor} was found on the host: jobs bring their own, in containers or "
            "modules; not compared", "", "",
        )  # fmt: skip
    driver = installed.driver(software, vendor)
    for kit in kits:
        if driver is None or kit.version is None:
            yield _say(
                Severity.UNKNOWN, "pair", vendor,
                f"whether {kit.what} {kit.version or '(version unknown)'} fits the driver is "
                "unknown: the driver's release could not be read",
                "", "look up the maker's table of releases",
            )  # fmt: skip
            continue
        yield from _judged(vendor, kit, driver)


def _judged(vendor: str, kit: Software, driver: str) -> Iterator[Finding]:
    judged = runtimes.judge(vendor, kit.version or "", driver)
    pair = f"{kit.what} {kit.version} ({kit.where})"
    for one in judged:
        sources = f" Source: {', '.join(one.rule.sources)}"
        if one.verdict in ("refused", "doubtful"):
            severity = Severity.ERROR if one.verdict == "refused" else Severity.WARNING
            yield _say(
                severity, "pair", vendor,
                f"{pair} and {one.rule.driver} {driver}: needs {one.wanted}",
                one.rule.why, one.rule.fix + sources,
            )  # fmt: skip
    if all(one.verdict == "unknown" for one in judged):
        yield _say(
            Severity.UNKNOWN, "pair", vendor,
            f"{pair} and {judged[0].rule.driver} {driver}: unknown, no rule here names this pair",
            "", f"look it up: {', '.join(judged[0].rule.sources)}",
        )  # fmt: skip


def _persistence(host: Host) -> Iterator[Finding]:
    text = host.run(("nvidia-smi", "-q", "-x"), _TIMEOUT).stdout
    modes = re.findall(r"<persistence_mode>\s*([A-Za-z]+)\s*</persistence_mode>", text)
    off = sum(mode == "Disabled" for mode in modes)
    if off:
        yield _say(
            Severity.NOTE, "persistence", "nvidia",
            f"persistence mode is off on {off} of {len(modes)} GPUs",
            "The driver lets a GPU go whenever nobody uses it: jobs start seconds later, "
            "nvidia-smi is slow, and its ECC counts are lost.",
            "enable nvidia-persistenced (systemctl enable --now nvidia-persistenced)",
        )  # fmt: skip


def _ascend(host: Host, inventory: NodeInventory, software: list[Software]) -> Iterator[Finding]:
    """What is installed is what runs, and npu-smi calls the two compatible."""
    for part in ("driver", "firmware"):
        here = {s.version for s in software if (s.vendor, s.what) == ("huawei", part)} - {None}
        disk = {s.version for s in software
                if (s.vendor, s.what) == ("huawei", f"installed {part}")} - {None}  # fmt: skip
        for version in sorted(v for v in disk if v):
            if here and all(compare(version, other or "") for other in here):
                running = ", ".join(sorted(v for v in here if v))
                yield _say(
                    Severity.WARNING, "reboot-pending", part,
                    f"{part} {version} is installed, {running} is running",
                    "New firmware takes effect after a reboot; until then commands fail (-8005).",
                    "drain the node and reboot it",
                )  # fmt: skip
    for card in _cards(host):
        text = host.run(("npu-smi", "info", "-t", "board", "-i", card), _TIMEOUT).stdout
        said = re.search(r"^\s*Compatibility\s*:\s*(.+?)\s*$", text, re.MULTILINE)
        if said and said[1].upper() not in ("OK", "NA", "N/A"):
            yield _say(
                Severity.ERROR, "pair", f"NPU {card}",
                f"npu-smi says that driver and firmware of NPU {card} do not fit: {said[1]}",
                "The NPU may not start or fail under load.",
                "install driver and firmware of one HDK release and reboot",
            )  # fmt: skip
    del inventory


def _cards(host: Host) -> list[str]:
    text = host.run(("npu-smi", "info", "-l"), _TIMEOUT).stdout
    return re.findall(r"^\s*NPU ID\s*:\s*([0-9]{1,6})\s*$", text, re.MULTILINE)
