"""Fabrics as the tools print them: ibnetdiscover and lldpcli, and inventories that go with them.

A fabric is a list of cables: ``("leaf1", "spine1")`` between switches, ``("n01 mlx5_0", "leaf1")``
from a host's NIC to its switch.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

from hpcmgr.inventory import CpuTopology, Device, DeviceLink, Nic, NodeInventory

Cable = tuple[str, str]


def ibnetdiscover(cables: Iterable[Cable]) -> str:
    """Its plain output."""
    listed = list(cables)
    names = sorted({end for cable in listed for end in cable})
    guid = {name: f"{0x900A84030012_0000 + 0x40 * i:016x}" for i, name in enumerate(names)}
    ends: dict[str, list[str]] = defaultdict(list)
    for a, b in listed:
        ends[a].append(b)
        ends[b].append(a)
    lines = ["#", "# Topology file: generated on Mon Nov  2 09:12:44 2026", "#"]
    for name in sorted(names, key=lambda n: " " in n):
        lines += _block(name, ends[name], guid)
    return "\n".join(lines) + "\n"


def _block(name: str, ends: Sequence[str], guid: dict[str, str]) -> list[str]:
    own = guid[name]
    if " " in name:
        head = [f"caguid=0x{own}", f'Ca\t1 "H-{own}"\t\t# "{name}"']
        return ["", "vendid=0x2c9", "devid=0x1021", *head] + [
            f'[1]({own}) \t"S-{guid[end]}"[{port}]\t\t# lid 9 lmc 0 "{described(end)}" lid 1 4xNDR'
            for port, end in enumerate(ends, start=1)
        ]
    head = [
        f"switchguid=0x{own}({own})",
        f'Switch\t65 "S-{own}"\t\t# "{described(name)}" enhanced port 0 lid 1 lmc 0',
    ]
    return ["", "vendid=0x2c9", "devid=0xd2f2", f"sysimgguid=0x{own}", *head] + [
        f'[{port}]\t"H-{guid[end]}"[1]({guid[end]}) \t\t# "{end}" lid 9 4xNDR'
        if " " in end
        else f'[{port}]\t"S-{guid[end]}"[{port}]\t\t# "{described(end)}" lid 1 4xNDR'
        for port, end in enumerate(ends, start=1)
    ]


def described(switch: str) -> str:
    """A switch's node description; one that nobody named has its maker's."""
    return "Quantum Mellanox Technologies" if switch.startswith("?") else f"MF0;{switch}:MQM9700/U1"


def ports_report(cables: Iterable[Cable]) -> str:
    """``ibnetdiscover -p`` of the same."""
    listed = list(cables)
    names = sorted({end for cable in listed for end in cable})
    lines = ["SW  77 65 0x900a84030012fff0 4x SDR                     'port that nobody uses'"]
    for a, b in listed:
        ends = [
            (f"{'CA' if ' ' in n else 'SW'}  {names.index(n):3} 1 0x900a840300{names.index(n):06x}")
            for n in (a, b)
        ]
        lines.append(f"{ends[0]} 4x NDR - {ends[1]} ( '{a}' - '{b}' )")
    return "\n".join(lines) + "\n"


def lldp(*neighbours: tuple[str, str]) -> str:
    """``lldpcli show neighbors -f json`` of a host: (interface, switch)."""
    bodies = [
        {
            interface: {
                "via": "LLDP",
                "rid": "1",
                "chassis": {
                    switch: {
                        "id": {"type": "mac", "value": mac(switch)},
                        "descr": "Debian GNU/Linux 12 SONiC",
                        "capability": [
                            {"type": "Bridge", "enabled": True},
                            {"type": "Router", "enabled": True},
                        ],
                    }
                },
                "port": {"id": {"type": "local", "value": "Eth1/4"}, "descr": "Ethernet12"},
            }
        }
        for interface, switch in neighbours
    ]
    found: object = bodies[0] if len(bodies) == 1 else bodies
    return json.dumps({"lldp": {"interface": found} if bodies else {}})


def lldp0(*neighbours: tuple[str, str]) -> str:
    """The same with ``-f json0``."""
    found = [
        {
            "name": interface,
            "via": "LLDP",
            "chassis": [
                {
                    "id": [{"type": "mac", "value": mac(switch)}],
                    "name": [{"value": switch}],
                    "capability": [{"type": "Bridge", "enabled": True}],
                }
            ],
            "port": [{"id": [{"type": "local", "value": "Eth1/4"}]}],
        }
        for interface, switch in neighbours
    ]
    return json.dumps({"lldp": [{"interface": found} if found else {}]})


def mac(switch: str) -> str:
    """A chassis id."""
    return "02:00:" + ":".join(f"{b:02x}" for b in (b"\0\0\0\0" + switch.encode())[-4:])


def node(
    name: str,
    near: Sequence[str] = (),
    far: Sequence[str] = (),
    *,
    domain: str | None = None,
    devices: int = 1,
    ethernet: Sequence[str] = (),
) -> NodeInventory:
    """A node with GPUs; ``near`` and ``far``: its InfiniBand NICs by what lies between."""
    gpus = [
        Device(vendor="nvidia", model="H100", kind="gpu", pci=f"0000:{16 + i:02x}:00.0",
               numa_node=0, files=(f"/dev/nvidia{i}",), nvlink_domain=domain)
        for i in range(devices)
    ]  # fmt: skip
    nics = [
        Nic(name=f"ib{n}", pci=f"0000:{64 + i:02x}:00.0", rdma=n, link_layer="InfiniBand")
        for i, n in enumerate((*near, *far))
    ] + [Nic(name=n, link_layer=None) for n in ethernet]
    links = [
        DeviceLink(a=gpus[0].key, b=f"ib{n}", kind="PIX" if n in near else "SYS")
        for n in (*near, *far)
        if gpus
    ]
    cpu = CpuTopology(sockets=1, cores_per_socket=4, threads_per_core=1)
    return NodeInventory(
        node=name, cpu=cpu, memory_mib=1000, devices=tuple(gpus), nics=tuple(nics),
        links=tuple(links),
    )  # fmt: skip
