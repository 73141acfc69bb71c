"""nvidia-smi: ``-q -x`` for the facts, ``topo -m`` for the links, ``-L`` for names of slices."""

from __future__ import annotations

import re
from dataclasses import replace

from hpcmgr.discovery import nvidia_mig, nvidia_xml, topo_matrix
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.source import Answer, Collected, DeviceFacts, LinkFacts, ask, first_line
from hpcmgr.inventory import Health, SourceReport
from hpcmgr.inventory.pci_address import canonical

_ADDRESS = re.compile(r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
_INFOROM = "exit 14"
"""nvidia-smi's status where all data is there but the infoROM of a GPU is corrupted."""


class NvidiaSmi:
    """NVIDIA's own tool."""

    name = "nvidia-smi"
    vendor: str | None = "nvidia"

    def collect(self, host: Host) -> Collected:
        """Ask it; a GPU that it cannot reach makes it broken, the others are still listed."""
        answer = ask(host, ("nvidia-smi", "-q", "-x"))
        if answer.state == "absent":
            return Collected(SourceReport(name=self.name, state="absent", detail=answer.why))
        log = nvidia_xml.parse(answer.text)
        if log.gpus and not any(nvidia_xml.is_nvidia(gpu) for gpu in log.gpus):
            why = "nvidia-smi is not NVIDIA's: it describes other vendors' cards"
            return Collected(SourceReport(name=self.name, state="absent", detail=why))
        if not log.gpus:
            why = answer.why or log.problem or first_line(log.around) or "lists no GPU"
            report = SourceReport(name=self.name, state="broken", detail=why)
            return Collected(report, failed_empty="no answer" not in why)
        devices = [nvidia_xml.facts(gpu, log, number) for number, gpu in enumerate(log.gpus)]
        devices = [_warned(device, log.around) for device in devices]
        devices = self._with_slices(host, log, devices)
        problems, notes = _judge(answer, log)
        links, said = _links(host, devices)
        notes += said
        report = SourceReport(
            name=self.name,
            state="broken" if problems else "present",
            detail="; ".join(problems + notes),
        )
        return Collected(report, tuple(devices), links)

    def _with_slices(
        self, host: Host, log: nvidia_xml.SmiLog, devices: list[DeviceFacts]
    ) -> list[DeviceFacts]:
        if not any(nvidia_mig.is_enabled(gpu) for gpu in log.gpus):
            return devices
        listed = nvidia_mig.parse_list(ask(host, ("nvidia-smi", "-L")).text)
        minors = nvidia_mig.read_minors(host)
        return [
            replace(device, sliced=True, slices=nvidia_mig.slices(gpu, listed, minors))
            if nvidia_mig.is_enabled(gpu)
            else device
            for gpu, device in zip(log.gpus, devices, strict=True)
        ]


def _judge(answer: Answer, log: nvidia_xml.SmiLog) -> tuple[list[str], list[str]]:
    """What makes the answer incomplete, and what is only worth saying."""
    problems: list[str] = []
    notes: list[str] = []
    if answer.state == "broken":
        (notes if _INFOROM in answer.why and not log.problem else problems).append(answer.why)
    if log.problem:
        problems.append(log.problem)
    if log.attached is not None and log.attached != len(log.gpus):
        problems.append(f"says {log.attached} GPUs attached but describes {len(log.gpus)}")
    if log.around:
        lost = re.search(r"unable|error|fail|lost|fallen", log.around, re.IGNORECASE)
        (problems if lost else notes).append(f"said beside its data: {first_line(log.around)}")
    return problems, notes


def _warned(device: DeviceFacts, around: str) -> DeviceFacts:
    """A warning beside the data that names this GPU is a reason against its health."""
    warnings = [
        first_line(line)
        for line in around.splitlines()
        if device.pci in [canonical(word) for word in _ADDRESS.findall(line)]
    ]
    if not warnings:
        return device
    reasons = device.health.reasons if device.health else ()
    return replace(device, health=Health(state="degraded", reasons=(*reasons, *warnings)))


def _links(host: Host, devices: list[DeviceFacts]) -> tuple[tuple[LinkFacts, ...], list[str]]:
    """The matrix numbers GPUs by PCI order, as the facts do."""
    answer = ask(host, ("nvidia-smi", "topo", "-m"))
    matrix = topo_matrix.parse(answer.text, "GPU")
    if matrix is None:
        return (), [] if answer.state == "absent" else [f"no links: {answer.why or 'topo -m'}"]
    if sum(1 for label in matrix.labels if label.startswith("GPU")) != len(devices):
        return (), ["no links: topo -m shows another number of GPUs"]
    return (
        tuple(
            LinkFacts(
                matrix.nics.get(a, a), matrix.nics.get(b, b), kind, topo_matrix.is_direct(kind)
            )
            for (a, b), kind in matrix.links.items()
        ),
        [],
    )
