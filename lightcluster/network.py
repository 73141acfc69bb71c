"""The cluster's network: a bridge in its own namespace and a cable from it to every node."""

from __future__ import annotations

import subprocess

from lightcluster.layout import Member

_BRIDGE = "br0"
_PREFIX = 16


def controller_commands(controller: Member) -> list[str]:
    """The controller sits on the bridge itself."""
    return [
        "link set lo up",
        f"link add {_BRIDGE} type bridge",
        f"addr add {controller.address}/{_PREFIX} dev {_BRIDGE}",
        f"link set {_BRIDGE} up",
    ]


def cable_commands(number: int, pid: int) -> list[str]:
    """A cable with one end on the bridge, the other in the namespace of process ``pid``."""
    cable = f"port{number}"
    return [
        f"link add {cable} type veth peer name eth0 netns {pid}",
        f"link set {cable} master {_BRIDGE} up",
    ]


def node_commands(node: Member) -> list[str]:
    """A node has lo and eth0, as a real one."""
    return [
        "link set lo up",
        f"addr add {node.address}/{_PREFIX} dev eth0",
        "link set eth0 up",
    ]


def apply(commands: list[str]) -> None:
    """Run them with one ``ip`` process."""
    done = subprocess.run(
        ["ip", "-batch", "-"],
        input="\n".join(commands),
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise OSError(f"ip could not set up the network: {done.stderr.strip()}")
