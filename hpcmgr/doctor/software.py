"""Which drivers, firmware and runtimes a host has, read where each maker writes them down."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from hpcmgr.discovery import Host
from hpcmgr.discovery.source import known
from hpcmgr.doctor.finding import Software
from hpcmgr.inventory import NodeInventory
from hpcmgr.profile import runtimes

_TIMEOUT = 20.0
_VERSION = re.compile(r"[vV]?([0-9]+\.[0-9][0-9A-Za-z._~+-]*)")
_PACKAGE = re.compile(r"(?:[0-9]+:)?([0-9]+\.[0-9]+\.[0-9]+)\.([0-9]{5,8})")
_ASCEND = "/usr/local/Ascend"


def found(host: Host, inventory: NodeInventory) -> list[Software]:
    """Versions of the makers whose devices are here; one that nobody could read is None."""
    vendors = sorted({device.vendor for device in inventory.devices})
    software = list(_of_devices(inventory, vendors))
    for vendor in vendors:
        more = _MORE.get(vendor)
        software += more(host) if more else ()
    return software


def toolkits(software: list[Software], vendor: str) -> list[Software]:
    """What the maker's rules are about among them."""
    names = {rule.runtime for rule in runtimes.rules() if rule.vendor == vendor}
    return [s for s in software if s.vendor == vendor and s.what in names]


def driver(software: list[Software], vendor: str) -> str | None:
    """The driver's release, in the count that the maker's rules use."""
    wanted = {"amd": "amdgpu driver release"}.get(vendor, "driver")
    versions = {s.version for s in software if s.vendor == vendor and s.what == wanted}
    return versions.pop() if len(versions) == 1 else None


_FIELDS = {
    "driver": "driver",
    "firmware": "firmware",
    "newest runtime that the driver serves": "runtime_version",
}


def _of_devices(inventory: NodeInventory, vendors: list[str]) -> Iterator[Software]:
    """What the devices' own tools say; different values of one maker stand side by side."""
    for vendor in vendors:
        devices = [device for device in inventory.devices if device.vendor == vendor]
        for what, name in _FIELDS.items():
            versions = {getattr(device, name) for device in devices}
            if name == "runtime_version" and versions == {None}:
                continue
            for version in sorted(versions, key=str):
                count = sum(getattr(device, name) == version for device in devices)
                yield Software(vendor, what, version, f"{count} of {len(devices)} devices")


def _nvidia(host: Host) -> Iterator[Software]:
    names = [name for name in host.listdir("/usr/local") if re.fullmatch(r"cuda(-[0-9.]+)?", name)]
    seen: set[str] = set()
    for name in sorted(names, reverse=True):
        path = f"/usr/local/{name}/version.json"
        text = host.read_text(path)
        version = _cuda_version(text) if text is not None else None
        if text is None:
            path = f"/usr/local/{name}/version.txt"
            version = _first(host.read_text(path))
        # /usr/local/cuda is a link to one of the others.
        if version and version not in seen:
            seen.add(version)
            yield Software("nvidia", "CUDA toolkit", version, path)


def _cuda_version(text: str) -> str | None:
    try:
        return known(str(json.loads(text)["cuda"]["version"]))
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _amd(host: Host) -> Iterator[Software]:
    module = known(host.read_text("/sys/module/amdgpu/version"))
    release, where = _amdgpu_release(host, module), "package amdgpu-dkms"
    if release is None and module is not None:
        release, where = runtimes.release("amd", module), f"number {module} of the module"
    yield Software("amd", "amdgpu driver release", release, where)
    seen: set[str] = set()
    for name in host.listdir("/opt"):
        if re.fullmatch(r"rocm(-[0-9.]+)?", name):
            path = f"/opt/{name}/.info/version"
            version = _first(host.read_text(path))
            if version and version not in seen:
                seen.add(version)
                yield Software("amd", "ROCm", version, path)


def _amdgpu_release(host: Host, module: str | None) -> str | None:
    """``6.10.5.60300-2084815`` → 6.3.0, if the loaded module is the package's 6.10.5.

    The number of the module itself is none of the release: 6.3.6 came with ROCm 6.0.
    """
    for argv in AMDGPU_PACKAGE:
        package = _PACKAGE.match(host.run(argv, _TIMEOUT).stdout.strip())
        if package and package[1] == module:
            digits = package[2]
            middle = -4 if len(digits) < 8 else -6
            head, rest = digits[:middle], digits[middle:]
            return ".".join(str(int(part)) for part in (head, rest[:2], rest[2:4]))
    return None


AMDGPU_PACKAGE = (
    ("dpkg-query", "-W", "-f=${Version}", "amdgpu-dkms"),
    ("rpm", "-q", "--qf=%{VERSION}", "amdgpu-dkms"),
)


def _huawei(host: Host) -> Iterator[Software]:
    for part in ("driver", "firmware"):
        path = f"{_ASCEND}/{part}/version.info"
        version = _value(host.read_text(path), "Version")
        if version:
            yield Software("huawei", f"installed {part}", version, path)
    for kit in ("ascend-toolkit", "nnae", "nnrt"):
        for arch in ("x86_64-linux", "aarch64-linux", "arm64-linux"):
            word = kit.replace("ascend-", "")
            path = f"{_ASCEND}/{kit}/latest/{arch}/ascend_{word}_install.info"
            version = _value(host.read_text(path), "version")
            if version:
                yield Software("huawei", "CANN", version, path)


def _habana(host: Host) -> Iterator[Software]:
    text = host.run(("hl-smi",), _TIMEOUT).stdout
    tool = re.search(r"HL-SMI Version:\s*hl-([0-9][0-9.]*)", text)
    if tool:
        yield Software("habana", "SynapseAI tools", tool[1].rstrip("."), "hl-smi")


_MORE = {"nvidia": _nvidia, "amd": _amd, "huawei": _huawei, "habana": _habana}


def _first(text: str | None) -> str | None:
    found_ = _VERSION.search(text or "")
    return found_[1].rstrip(".-") if found_ else None


def _value(text: str | None, key: str) -> str | None:
    """``Version=24.1.rc1`` of a version.info."""
    for line in (text or "").splitlines():
        name, equals, value = line.partition("=")
        if equals and name.strip() == key:
            return known(value.strip().strip("[]\"'"))
    return None
