"""A recorded host that tests change before it is read."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml

from hpcmgr.discovery import RecordedHost, discover
from hpcmgr.inventory import Device, NodeInventory, SourceReport
from hpcmgr.profile import load_library

LIBRARY = load_library()


class Recording:
    """An editable copy of a recorded host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def answers(
        self,
        argv: Sequence[str],
        text: str,
        exit: int = 0,  # noqa: A002
        stderr: str = "",
    ) -> Recording:
        """The tool prints this."""
        commands = [entry for entry in self._commands() if entry["argv"] != list(argv)]
        folder = self.folder / "commands"
        folder.mkdir(exist_ok=True)
        name = f"commands/changed-{len(list(folder.iterdir()))}.txt"
        (self.folder / name).write_text(text)
        (self.folder / f"{name}.stderr").write_text(stderr)
        commands.append({"argv": list(argv), "stdout": name, "exit": exit})
        return self._store(commands)

    def hangs(self, *argv: str) -> Recording:
        """The tool gives no answer to this question."""
        commands = [entry for entry in self._commands() if entry["argv"] != list(argv)]
        return self._store([*commands, {"argv": list(argv), "timed_out": True}])

    def without(self, tool: str) -> Recording:
        """The tool is not installed."""
        return self._store([entry for entry in self._commands() if entry["argv"][0] != tool])

    def file(self, path: str, text: str) -> Recording:
        """A file of the machine has this text."""
        place = self.folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return self

    def removed(self, path: str) -> Recording:
        """The machine has no such file or directory."""
        place = self.folder / path.lstrip("/")
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        return self

    def text(self, *argv: str) -> str:
        """What the tool prints now."""
        entry = next(entry for entry in self._commands() if entry["argv"] == list(argv))
        return (self.folder / entry["stdout"]).read_text()

    def discover(self) -> NodeInventory:
        """What hpcmgr makes of it."""
        return discover(RecordedHost(self.folder), LIBRARY)

    def _commands(self) -> list[dict]:
        return yaml.safe_load((self.folder / "host.yaml").read_text())["commands"]

    def _store(self, commands: list[dict]) -> Recording:
        head = {"schema": "hpcmgr.host/1", "hostname": "changed"}
        (self.folder / "host.yaml").write_text(yaml.safe_dump({**head, "commands": commands}))
        return self


@pytest.fixture(name="recording")
def _recording(tmp_path: Path, hosts: Path) -> Callable[[str], Recording]:
    """``recording("mixed")``: an editable copy of that host; ``recording("")`` has nothing."""

    def make(name: str) -> Recording:
        folder = tmp_path / f"{name or 'empty'}-{len(list(tmp_path.iterdir()))}"
        if name:
            shutil.copytree(hosts / name, folder)
        else:
            folder.mkdir()
            Recording(folder)._store([])
        return Recording(folder)

    return make


def source(inventory: NodeInventory, name: str) -> SourceReport:
    """What one source said."""
    return next(report for report in inventory.sources if report.name == name)


def at(inventory: NodeInventory, pci: str) -> Device:
    """The device at a PCI address."""
    return next(device for device in inventory.devices if device.pci == pci)
