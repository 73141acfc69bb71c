"""A host that was recorded into a folder or a .tar.gz.

    host.yaml      schema, hostname, recorded, commands: argv, stdout (a file), exit, timed_out
    commands/      outputs as the tools printed them; stderr beside them as NAME.stderr
    sys/ proc/ …   file trees as on the machine
    dev.txt        one device node a line: path type major minor mode

A command that is not listed behaves as not installed; one with ``timed_out: true`` as one that
hangs. Unknown keys are left alone: a newer recorder may say more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from hpcmgr.discovery.host import ABSENT, CommandResult, DeviceNode
from hpcmgr.discovery.recorded_files import RecordedFiles
from hpcmgr.errors import ConfigError, HostError
from hpcmgr.yamlfile import parse_model


class RecordedCommand(BaseModel):
    """One command that was run; ``stdout`` names a file of the recording.

    A number in ``argv`` may stand without quotes, and the tool with its directory. ``exit: null``
    is a tool that is there but did not start.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    argv: tuple[str, ...] = Field(min_length=1)
    stdout: str | None = None
    exit: int | None = 0
    timed_out: bool = False

    @model_validator(mode="after")
    def _files_inside(self) -> RecordedCommand:
        if self.stdout is None and not self.timed_out:
            raise ValueError("stdout: names the file with the output")
        if self.stdout and (self.stdout.startswith("/") or ".." in self.stdout.split("/")):
            raise ValueError(f"stdout: {self.stdout!r} leads out of the recording")
        return self


class HostFile(BaseModel):
    """host.yaml."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_: Literal["hpcmgr.host/1"] = Field(alias="schema")
    hostname: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    commands: tuple[RecordedCommand, ...] = ()


class RecordedHost:
    """The machine that ``place`` holds (or ``files``, which lie nowhere yet).

    Raises:
        HostError: host.yaml or dev.txt is missing or wrong, with file and line.
    """

    live = False

    def __init__(self, place: Path, files: RecordedFiles | None = None) -> None:
        self._files = files or RecordedFiles(place)
        self._place = place
        text = self._files.read("host.yaml")
        if text is None:
            raise HostError(f"{place}: has no host.yaml", "is this a recording of hpcmgr record?")
        try:
            self._host = parse_model(text, place / "host.yaml", HostFile)
        except ConfigError as error:
            raise HostError(error.message, error.hint) from error
        self._commands: dict[tuple[str, ...], CommandResult] = {}
        for number, entry in enumerate(self._host.commands):
            tool = entry.argv[0].rpartition("/")[2]
            self._commands[tool, *entry.argv[1:]] = self._result(entry, number, text)
        self._nodes = self._read_nodes()

    @property
    def hostname(self) -> str:
        """Short name of the recorded machine."""
        return self._host.hostname.split(".")[0]

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """What the tool answered when the host was recorded."""
        del timeout
        return self._commands.get(tuple(argv), ABSENT)

    def read_text(self, path: str) -> str | None:
        """Text of a recorded file."""
        data = self._files.read(path)
        return None if data is None else data.decode(errors="replace")

    def listdir(self, path: str) -> tuple[str, ...]:
        """Sorted names in a recorded directory."""
        return self._files.listdir(path)

    def readlink(self, path: str) -> str | None:
        """Target of a recorded link."""
        return self._files.readlink(path)

    def exists(self, path: str) -> bool:
        """Whether the recording has it."""
        return self._files.exists(path)

    def device_nodes(self) -> tuple[DeviceNode, ...] | None:
        """The nodes of dev.txt, None without it."""
        return self._nodes

    def _result(self, entry: RecordedCommand, number: int, text: bytes) -> CommandResult:
        if entry.timed_out:
            return CommandResult("timed_out")
        stdout = self._files.read(entry.stdout or "")
        if stdout is None:
            place = f"{self._place / 'host.yaml'}:{_line_of_command(text, number)}"
            raise HostError(f"{place}: the recording has no file {entry.stdout!r}")
        stderr = self._files.read(f"{entry.stdout}.stderr") or b""
        return CommandResult(
            "done", entry.exit, stdout.decode(errors="replace"), stderr.decode(errors="replace")
        )

    def _read_nodes(self) -> tuple[DeviceNode, ...] | None:
        data = self._files.read("dev.txt")
        if data is None:
            return None
        nodes = []
        for number, line in enumerate(data.decode(errors="replace").splitlines(), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            try:
                nodes.append(_parse_node(line))
            except ValueError as error:
                raise HostError(
                    f"{self._place / 'dev.txt'}:{number}: {line.strip()!r} is not "
                    "'path type major minor mode' (as in /dev/nvidia0 c 195 0 0666)"
                ) from error
        return tuple(sorted(nodes, key=lambda node: node.path))


def _parse_node(line: str) -> DeviceNode:
    path, type_, major, minor, mode = line.split()
    if not path.startswith("/dev/") or type_ not in ("c", "b"):
        raise ValueError(line)
    return DeviceNode(path, "c" if type_ == "c" else "b", int(major), int(minor), int(mode, 8))


def _line_of_command(text: bytes, number: int) -> int:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if isinstance(root, yaml.MappingNode):
        for key, value in root.value:
            if key.value == "commands" and isinstance(value, yaml.SequenceNode):
                return int(value.value[number].start_mark.line) + 1
    return 1
