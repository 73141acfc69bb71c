"""Network interfaces with hardware behind them, and the RDMA devices among them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpcmgr.discovery.host import Host
from hpcmgr.discovery.source import known
from hpcmgr.discovery.sysfs_pci import id_of, numa_node
from hpcmgr.inventory import Nic, SourceReport
from hpcmgr.inventory.pci_address import canonical

NAME = "nics"
_NET = "/sys/class/net"
_RDMA = "/sys/class/infiniband"
_MAKERS = {
    "15b3": "mellanox",
    "8086": "intel",
    "14e4": "broadcom",
    "19e5": "huawei",
    "1d0f": "aws",
    "1077": "qlogic",
    "1dd8": "amd",
    "1425": "chelsio",
    "1af4": "virtio",
    "434e": "cornelis",
    "17db": "cray",
    "1590": "hpe",
}


@dataclass(frozen=True, slots=True)
class NicFacts:
    """All interfaces of the host."""

    report: SourceReport
    nics: tuple[Nic, ...]


def collect(host: Host, only_node: int | None) -> NicFacts:
    """Read sysfs. An RDMA device without an interface of its own stands under its own name."""
    nics: dict[str, Nic] = {}
    for name in host.listdir(_NET):
        if host.readlink(f"{_NET}/{name}/device") is None:
            continue
        pci = _pci(host, f"{_NET}/{name}")
        speed = (host.read_text(f"{_NET}/{name}/speed") or "").strip()
        nics[name] = Nic(
            name=name,
            pci=pci,
            vendor=_maker(host, pci),
            numa_node=numa_node(host, pci, only_node) if pci else None,
            state=known(host.read_text(f"{_NET}/{name}/operstate")),
            speed_mbps=int(speed) if re.fullmatch(r"[1-9][0-9]{0,8}", speed) else None,
        )
    for rdma in host.listdir(_RDMA):
        _add_rdma(host, rdma, nics, only_node)
    state = "present" if host.listdir(_NET) or nics else "absent"
    detail = "" if state == "present" else f"no {_NET}"
    ordered = tuple(nics[name] for name in sorted(nics))
    return NicFacts(SourceReport(name=NAME, state=state, detail=detail), ordered)


def _add_rdma(host: Host, rdma: str, nics: dict[str, Nic], only_node: int | None) -> None:
    """Join an RDMA device to the interface of the same PCI function."""
    pci = _pci(host, f"{_RDMA}/{rdma}")
    port = f"{_RDMA}/{rdma}/ports/1"
    name = next(
        (n for n, nic in sorted(nics.items()) if pci and nic.pci == pci and nic.rdma is None), rdma
    )
    nic = nics.get(name) or Nic(
        name=rdma,
        pci=pci,
        vendor=_maker(host, pci),
        numa_node=numa_node(host, pci, only_node) if pci else None,
    )
    rate = re.match(
        r"\s*([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*Gb/sec", host.read_text(f"{port}/rate") or ""
    )
    # ib interfaces print no speed of their own; the state of the port is what RDMA needs.
    nics[name] = nic.model_copy(
        update={
            "rdma": rdma,
            "link_layer": known(host.read_text(f"{port}/link_layer")),
            "state": _port_state(host.read_text(f"{port}/state")) or nic.state,
            "speed_mbps": round(float(rate[1]) * 1000) if rate else nic.speed_mbps,
        }
    )


def _port_state(text: str | None) -> str | None:
    """``"4: ACTIVE"`` → ``"active"``."""
    value = known((text or "").partition(":")[2])
    return value.lower() if value else None


def _pci(host: Host, path: str) -> str | None:
    """Address of the function behind an interface.

    Its device may be of a bus in between (``virtio0``, ``mlx5_core.sf.4``); then the last address
    on the way to the interface counts.
    """
    device = canonical((host.readlink(f"{path}/device") or "").rstrip("/").rpartition("/")[2])
    if device is not None:
        return device
    way = (canonical(part) for part in reversed((host.readlink(path) or "").split("/")))
    return next((address for address in way if address), None)


def _maker(host: Host, pci: str | None) -> str | None:
    pci_id = id_of(host, pci) if pci else None
    return _MAKERS.get(pci_id[:4], f"pci-{pci_id[:4]}") if pci_id else None
