"""Recording a host: discovery runs once on a host that notes all questions, then every tool of the
table is asked. What was asked and answered is the recording.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import yaml

from hpcmgr.discovery import discover, recorded_tree
from hpcmgr.discovery.host import CommandResult, DeviceNode, Host
from hpcmgr.discovery.questions import FILES, QUESTIONS, Argv, follow_ups
from hpcmgr.discovery.recorded_files import Entry, RecordedFiles
from hpcmgr.discovery.recorded_host import RecordedHost
from hpcmgr.discovery.source import TOOL_TIMEOUT, first_line
from hpcmgr.discovery.watched_host import WatchedHost
from hpcmgr.inventory import NodeInventory
from hpcmgr.profile import ProfileLibrary

_MOST_TEXT = 4 << 20
"""Bytes of one answer; a kernel's log can be longer than anybody reads."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded host in memory.

    ``unread``: files that are there but could not be read. ``inventory``: what discovery made of
    the host; the recording must give the same.
    """

    hostname: str
    recorded: date
    commands: Mapping[Argv, CommandResult]
    tree: Mapping[str, Entry]
    nodes: tuple[DeviceNode, ...] | None
    inventory: NodeInventory
    unread: tuple[str, ...] = ()
    anonymized: bool = False

    @property
    def hung(self) -> tuple[Argv, ...]:
        """Questions that got no answer in time."""
        return tuple(argv for argv, r in self.commands.items() if r.state == "timed_out")

    @property
    def failed(self) -> Mapping[Argv, str]:
        """Questions that were answered with an error, and what was said."""
        return {
            argv: first_line(result.stderr) or first_line(result.stdout) or f"exit {result.exit}"
            for argv, result in self.commands.items()
            if result.state == "done" and result.exit != 0
        }


def record(host: Host, library: ProfileLibrary, today: date) -> Recording:
    """All of ``host`` that discovery reads, and the answers of all tools that are installed."""
    watched = WatchedHost(host)
    inventory = discover(watched, library)
    unread = _unread(watched) if host.live else ()
    for path in FILES:
        watched.read_text(path)
    _ask(watched, QUESTIONS)
    _ask(watched, follow_ups(watched.commands))
    answered = {a: _shortened(a, r) for a, r in watched.commands.items() if r.state != "absent"}
    return Recording(
        hostname=host.hostname,
        recorded=today,
        commands=answered,
        tree=recorded_tree.collect(watched),
        nodes=watched.device_nodes(),
        inventory=inventory,
        unread=unread,
    )


def files(recording: Recording) -> dict[str, Entry]:
    """All files of the recording, host.yaml first."""
    entries: dict[str, Entry] = {}
    listed: list[dict[str, object]] = []
    for argv, result in recording.commands.items():
        if result.state == "timed_out":
            listed.append({"argv": list(argv), "timed_out": True})
            continue
        name = _file_name(argv, entries)
        entries[name] = result.stdout.encode()
        if result.stderr:
            entries[f"{name}.stderr"] = result.stderr.encode()
        listed.append({"argv": list(argv), "stdout": name, "exit": result.exit})
    if recording.nodes is not None:
        entries["dev.txt"] = "".join(_node_line(node) for node in recording.nodes).encode()
    return {"host.yaml": _host_yaml(recording, listed), **entries, **recording.tree}


def differences(recording: Recording, library: ProfileLibrary) -> tuple[str, ...]:
    """What the recording tells otherwise than the host itself did: fields of the inventory."""
    name = Path("recording")
    host = RecordedHost(name, RecordedFiles(name, files(recording)))
    there, here = (
        inventory.model_dump(exclude={"digest", "node"})
        for inventory in (recording.inventory, discover(host, library))
    )
    return tuple(name for name in there if there[name] != here[name])


def _ask(watched: WatchedHost, questions: Iterable[Argv]) -> None:
    """Put the questions; a tool that hung once is not waited for again."""
    for argv in questions:
        if watched.inner.live and argv not in watched.commands and _hung(watched, argv[0]):
            watched.commands[argv] = CommandResult("timed_out")
        watched.run(argv, TOOL_TIMEOUT)


def _hung(watched: WatchedHost, tool: str) -> bool:
    return any(a[0] == tool and r.state == "timed_out" for a, r in watched.commands.items())


def _unread(watched: WatchedHost) -> tuple[str, ...]:
    """Files that exist and are closed to this user; the kernel's own errors are no matter."""
    asked = [path for path, text in watched.texts.items() if text is None]
    asked += [path for path, names in watched.listings.items() if not names]
    return tuple(
        sorted(path for path in asked if os.path.lexists(path) and not os.access(path, os.R_OK))
    )


def _shortened(argv: Argv, result: CommandResult) -> CommandResult:
    if len(result.stdout) <= _MOST_TEXT // 4:
        return result
    data = result.stdout.encode()
    kept = data[-_MOST_TEXT:] if argv == ("dmesg",) else data[:_MOST_TEXT]
    return replace(result, stdout=kept.decode(errors="ignore"))


def _file_name(argv: Argv, taken: Mapping[str, object]) -> str:
    """``nvidia-smi -q -x`` → ``commands/nvidia-smi-q-x.txt``."""
    words = re.sub(r"[^A-Za-z0-9._]+", "-", " ".join(argv)).strip("-.")[:100]
    name, number = f"commands/{words}.txt", 1
    while name in taken:
        number += 1
        name = f"commands/{words}-{number}.txt"
    return name


def _node_line(node: DeviceNode) -> str:
    return f"{node.path} {node.type} {node.major} {node.minor} {node.mode:04o}\n"


def _host_yaml(recording: Recording, commands: list[dict[str, object]]) -> bytes:
    head: dict[str, object] = {
        "schema": "hpcmgr.host/1",
        "hostname": recording.hostname,
        "recorded": recording.recorded,
    }
    if recording.anonymized:
        head["anonymized"] = True
    if recording.unread:
        head["unread"] = list(recording.unread)
    text = yaml.safe_dump(head, sort_keys=False)
    text += "commands:\n" if commands else "commands: []\n"
    for entry in commands:
        line = yaml.safe_dump(entry, default_flow_style=True, sort_keys=False, width=10_000)
        text += f"  - {line.strip()}\n"
    return text.encode()
