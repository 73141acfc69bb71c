"""The process that owns a cluster's namespaces and cleans up after it.

    the caller ── supervisor ── init (process 1 of the cluster) ── a holder for each node

The supervisor lives as long as its standard input is open: when the caller stops or dies, it
kills init, with which the kernel kills every process of the cluster and drops its mounts and
network, and removes the control groups. It is its own program, and not a thread or fork of the
caller, so that it outlives whatever kills the caller. Init and the holders only keep the
namespaces; the daemons are started from outside with nsenter.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import NoReturn

from lightcluster import cgroups, linux, mounts, network
from lightcluster.layout import Layout, Member
from lightcluster.state import State, claim

_OWN_NAMESPACES = linux.CLONE_NEWNS | linux.CLONE_NEWUTS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC


def main() -> None:
    """Read a layout from the first line of stdin, report in one line, serve until stdin ends."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    layout = Layout.from_json(sys.stdin.readline())
    try:
        state = claim(layout.name)
    except Exception as error:
        _report({"error": str(error)})
        return
    init = 0
    try:
        init = _start(layout, state)
        _report({"members": state.members})
        _serve(init)
    except Exception as error:
        _report({"error": str(error)})
    finally:
        _end(init, state)


def _report(message: dict[str, object]) -> None:
    print(json.dumps(message), flush=True)


def _start(layout: Layout, state: State) -> int:
    """Make control groups, then init with everything in it; returns init's pid."""
    tree = cgroups.hierarchies()
    directories = cgroups.cluster_dirs(layout.name, tree)
    state.release = layout.release
    state.hwloc = {member.name: member.hwloc for member in layout.members}
    state.cgroups = [str(each) for each in directories]
    state.save()
    for directory, hierarchy in zip(directories, tree, strict=True):
        cgroups.create(directory, hierarchy)
        for member in layout.members:
            cgroups.create(directory / member.name, hierarchy)
    linux.unshare(linux.CLONE_NEWPID)
    ours, theirs = socket.socketpair()
    init = os.fork()
    if init == 0:
        ours.close()
        _init(layout, state, theirs)
    theirs.close()
    try:
        state.members = _receive(ours)
    except OSError:
        _end_process(init)
        raise
    state.save()
    return init


def _serve(init: int) -> None:
    """Wait for the caller to close our stdin, or for init to die."""
    init_ended = os.pidfd_open(init)
    stdin = sys.stdin.fileno()
    while True:
        ready, _, _ = select.select([stdin, init_ended], [], [])
        if init_ended in ready or (stdin in ready and not os.read(stdin, 4096)):
            return


def _end(init: int, state: State) -> None:
    """Kill the cluster and leave nothing behind; further signals must not interrupt this."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if init:
        _end_process(init)
    state.remove()


def _end_process(pid: int) -> None:
    """Killing process 1 of a pid namespace returns when all of its processes are gone."""
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def _init(layout: Layout, state: State, channel: socket.socket) -> NoReturn:
    """Process 1: makes the hosts, then only reaps what daemons leave behind."""
    try:
        linux.die_with_parent()
        _detach()
        linux.unshare(_OWN_NAMESPACES)
        root = mounts.make_root(layout, state.directory / "mnt")
        network.apply(network.controller_commands(layout.members[0]))
        members = _make_members(layout, state, root)
        _send(channel, members)
    except BaseException as error:
        _send_error(channel, error)
        os._exit(1)
    channel.close()
    _reap_for_ever()


def _make_members(layout: Layout, state: State, root: Path) -> dict[str, int]:
    """Fork a holder for each node, wire it up, and furnish the controller, which is init."""
    controller, *nodes = layout.members
    channels = []
    cables: list[str] = []
    for number, node in enumerate(nodes):
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            _hold(node, state, root, theirs)
        theirs.close()
        channels.append(ours)
        cables += network.cable_commands(number, pid)
    for channel in channels:  # each is in its network namespace now
        _receive(channel)
    if cables:
        network.apply(cables)
    for channel in channels:
        _send(channel, {})
    members = {controller.name: _own_pid_outside()}
    for node, channel in zip(nodes, channels, strict=True):
        members[node.name] = _receive(channel)["pid"]
    _become(controller, state, root)
    return members


def _hold(node: Member, state: State, root: Path, channel: socket.socket) -> NoReturn:
    """A node's first process: its namespaces exist as long as it does."""
    try:
        linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWUTS | linux.CLONE_NEWNET)
        _send(channel, {})
        _receive(channel)  # the cable is there
        network.apply(network.node_commands(node))
        pid = _own_pid_outside()
        _become(node, state, root)
        _send(channel, {"pid": pid})
    except BaseException as error:
        _send_error(channel, error)
        os._exit(1)
    channel.close()
    while True:
        signal.pause()


def _become(member: Member, state: State, root: Path) -> None:
    """Turn this process into the host: name, control groups, mounts, root."""
    linux.set_hostname(member.name)
    for directory in state.cgroups:
        cgroups.enter(Path(directory) / member.name)
    tree = cgroups.hierarchies()
    linux.unshare(linux.CLONE_NEWCGROUP)
    mounts.furnish(root, member, tree)
    linux.pivot_root(root)


def _own_pid_outside() -> int:
    """This process' number on the machine: until the root changes, /proc is the machine's."""
    return int(Path("/proc/self").readlink().name)


def _detach() -> None:
    """A session of its own, and no grip on the caller's files: stdin's end must be seen."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _reap_for_ever() -> NoReturn:
    while True:
        try:
            os.wait()
        except ChildProcessError:  # no child now: sleep until there may be one
            time.sleep(0.2)


def _send(channel: socket.socket, message: dict[str, int]) -> None:
    channel.sendall(json.dumps(message).encode() + b"\n")


def _send_error(channel: socket.socket, error: BaseException) -> None:
    channel.sendall(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n")


def _receive(channel: socket.socket) -> dict[str, int]:
    line = channel.makefile().readline()
    message = json.loads(line) if line else {"error": "ended without a word"}
    if "error" in message:
        raise OSError(message["error"])
    return {str(name): int(number) for name, number in message.items()}
