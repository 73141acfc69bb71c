"""tt-smi: Tenstorrent's chips, as JSON after a progress bar.

Its chips are in no order of device nodes: chip 0 may be /dev/tenstorrent/19. The second chip of an
n300 has no PCI function and no node: it belongs to the first.
"""

from __future__ import annotations

from typing import Any

from hpcmgr.discovery import json_answer
from hpcmgr.discovery.findings import Findings
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.node_places import NodePlaces
from hpcmgr.discovery.source import Collected, DeviceFacts, first_line, known, known_serial, whole
from hpcmgr.inventory import Health
from hpcmgr.inventory.pci_address import canonical


class TtSmi:
    """Tenstorrent's tool."""

    name = "tt-smi"
    vendor: str | None = "tenstorrent"

    def collect(self, host: Host) -> Collected:
        """Ask for a snapshot."""
        findings = Findings(host, self.name)
        answer = findings.ask(self.name, "-s")
        if answer.state == "absent":
            return findings.absent(answer.why)
        read = json_answer.parse(answer.text)
        if read.problem:
            said = first_line(read.around)
            findings.problems.append(read.problem + (f" but says {said!r}" if said else ""))
        findings.read_around(read.around)
        top = read.value if isinstance(read.value, dict) else {}
        driver = known(json_answer.texts(top.get("host_info")).get("Driver"))
        places = NodePlaces(host, (r"/dev/tenstorrent/[0-9]+",), ("tenstorrent",))
        chips = json_answer.objects(top.get("device_info"))
        devices = [_facts(n, chip, driver, places) for n, chip in enumerate(chips)]
        own = [device for device in devices if device.pci is not None]
        if len(own) < len(devices):
            findings.notes.append(f"{len(devices) - len(own)} chips have no PCI function")
        return findings.result(own, said=read.around)


def _facts(
    number: int, chip: dict[str, Any], driver: str | None, places: NodePlaces
) -> DeviceFacts:
    board = json_answer.texts(chip.get("board_info"))
    pci = canonical(board.get("bus_id"))
    serial = known_serial(board.get("board_id"))
    firmware = json_answer.texts(chip.get("firmwares")).get("fw_bundle_version")
    files = places.at(pci)
    return DeviceFacts(
        ref=f"chip{number}",
        vendor="tenstorrent",
        kind="npu",
        model=known(board.get("board_type")),
        pci=pci,
        # TT_VISIBLE_DEVICES counts as the nodes do, not as the tool does.
        index=whole(files[0].rpartition("/")[2]) if files else None,
        files=files,
        serial=serial,
        board=serial,
        driver=driver.split()[-1] if driver else None,
        firmware=known(firmware),
        health=_health(chip),
    )


def _health(chip: dict[str, Any]) -> Health | None:
    board = chip.get("board_info")
    trained = board.get("dram_status") if isinstance(board, dict) else None
    if trained is False:
        return Health(state="degraded", reasons=("tt-smi: its DRAM did not train",))
    temperature = json_answer.texts(chip.get("telemetry")).get("asic_temperature")
    if trained is True and known(temperature):
        return Health(state="ok")
    return None
