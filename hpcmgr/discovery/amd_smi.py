"""amd-smi: ``list`` for places and identities, ``static`` for what a GPU is, ``topology`` for the
links, ``partition`` for how it is divided.

Its number of a GPU is not the one that the runtime counts: that is the order of the driver's nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hpcmgr.discovery import amd_ids, amd_smi_text, kfd_tree
from hpcmgr.discovery.amd_smi_text import Part
from hpcmgr.discovery.findings import Findings, mebibytes
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.json_answer import objects
from hpcmgr.discovery.kfd_tree import KfdTree
from hpcmgr.discovery.node_places import placed
from hpcmgr.discovery.source import Collected, DeviceFacts, LinkFacts, known_serial, whole
from hpcmgr.inventory.pci_address import canonical

_AMD = "1002"
_NUMA_NODES = 1 << 10

Gpu = Mapping[str, Part]
"""What each question told of one GPU."""


class AmdSmi:
    """AMD's tool of today."""

    name = "amd-smi"
    vendor: str | None = "amd"

    def collect(self, host: Host) -> Collected:
        """Ask it; a GPU that only one of its answers knows is listed and makes it broken."""
        findings = Findings(host, self.name)
        answers = _ask(findings)
        if not answers:
            return findings.absent("not installed")
        gpus = _joined(answers)
        for question, told in answers.items():
            findings.read_around(told.around)
            if told.problem and gpus:
                findings.problems.append(f"{question}: {told.problem}")
        _compare(answers, gpus, findings)
        devices = _placed(gpus, host, findings)
        said = next((told.around for told in answers.values() if told.around), "")
        return findings.result(devices, _links(gpus), said)


def _ask(findings: Findings) -> dict[str, amd_smi_text.Parts]:
    """What it answered; older releases know no ``partition``."""
    answers = {}
    for question in ("list", "static"):
        answer = findings.ask("amd-smi", question, "--json")
        if answer.state != "absent":
            answers[question] = amd_smi_text.parse(answer.text)
    for question in ("topology", "partition"):
        text = findings.detail("amd-smi", question, "--json")
        if text:
            answers[question] = amd_smi_text.parse(text)
    return answers


def _joined(answers: Mapping[str, amd_smi_text.Parts]) -> dict[int, dict[str, Part]]:
    found: dict[int, dict[str, Part]] = {}
    for question, told in answers.items():
        for part in told.parts:
            found.setdefault(part.gpu, {}).setdefault(question, part)
    return dict(sorted(found.items()))


def _compare(
    answers: Mapping[str, amd_smi_text.Parts], gpus: Mapping[int, Gpu], findings: Findings
) -> None:
    for question in ("list", "static"):
        lost = [str(number) for number, gpu in gpus.items() if question not in gpu]
        if question in answers and lost:
            findings.problems.append(f"{question} does not show GPU {', '.join(lost)}")


def _placed(gpus: Mapping[int, Gpu], host: Host, findings: Findings) -> tuple[DeviceFacts, ...]:
    tree = kfd_tree.read(host)
    told = {number: _address(gpu, tree) for number, gpu in gpus.items()}
    places = amd_ids.places(address for address in told.values() if address)
    order = {} if tree is not None else _runtime_order(gpus)
    devices, lost = placed(
        host,
        (_AMD,),
        [
            _facts(number, gpu, places.get(told[number] or "", (None, None)), order.get(number))
            for number, gpu in gpus.items()
        ],
    )
    if lost:
        findings.problems.append(lost)
    nowhere = [fact.ref for fact in devices if not fact.pci]
    if nowhere and host.listdir("/sys/bus/pci/devices"):
        # The kernel's own list is here, and nothing says that they are in it.
        findings.problems.append(f"GPU {', '.join(nowhere)} have no address")
        devices = tuple(fact for fact in devices if fact.pci)
    twice = [fact.ref for fact in devices if fact.pci and _same_place(fact, devices) > 1]
    if twice:
        findings.problems.append(f"GPU {', '.join(twice)} have one address")
    modes = {mode for gpu in gpus.values() if (mode := _mode(gpu)) not in (None, "SPX")}
    if modes:
        findings.notes.append(f"compute partition {', '.join(sorted(m for m in modes if m))}")
    return devices


def _same_place(fact: DeviceFacts, devices: Sequence[DeviceFacts]) -> int:
    return sum(1 for other in devices if (other.pci, other.chip) == (fact.pci, fact.chip))


def _address(gpu: Gpu, tree: KfdTree | None) -> str | None:
    """As told; a partition that is told none, or its parent's, is found by its KFD id."""
    listed, static = gpu.get("list"), gpu.get("static")
    address = (
        (listed.get("bdf") if listed else None)
        or (static.get("bus", "bdf") if static else None)
        or (gpu["topology"].get("bdf") if "topology" in gpu else None)
    )
    node = (
        tree.at(gpu_id=listed.get("kfd_id")) if tree and listed and listed.get("kfd_id") else None
    )
    if node is not None and node.pci is not None and node.partition is not None:
        return f"{node.pci[:-1]}{node.partition}"
    return address if canonical(address) else None


def _runtime_order(gpus: Mapping[int, Gpu]) -> dict[int, int]:
    """Place in the order of the driver's nodes, if all of the nodes are listed."""
    nodes = {
        number: whole(gpu["list"].get("node_id")) for number, gpu in gpus.items() if "list" in gpu
    }
    known = sorted(node for node in nodes.values() if node is not None)
    if not known or len(known) != len(gpus) or known[-1] - known[0] != len(set(known)) - 1:
        return {}
    return {number: node - known[0] for number, node in nodes.items() if node is not None}


def _facts(
    number: int, gpu: Gpu, place: tuple[str | None, int | None], index: int | None
) -> DeviceFacts:
    listed, static = gpu.get("list") or Part(number, {}), gpu.get("static") or Part(number, {})
    pci, chip = place
    return DeviceFacts(
        ref=str(number),
        vendor="amd",
        kind="gpu",
        model=static.get("asic", "market_name") or static.get("board", "product_name"),
        pci=pci,
        pci_id=_pci_id(static),
        chip=chip,
        index=index,
        numa_node=_numa(static),
        uuid=listed.get("uuid"),
        serial=known_serial(static.get("board", "product_serial"))
        or amd_ids.nonzero(static.get("asic", "asic_serial")),
        board=pci,
        memory_mib=mebibytes(static.get("vram", "size")),
        driver=static.get("driver", "version") or static.get("driver", "driver_version"),
        firmware=static.get("ifwi", "version") or static.get("vbios", "version"),
    )


def _pci_id(static: Part) -> str | None:
    words = [static.get("asic", key) or "" for key in ("vendor_id", "device_id")]
    numbers = [word.lower().removeprefix("0x") for word in words]
    if all(number.isalnum() and 1 <= len(number) <= 4 for number in numbers):
        return ":".join(number.zfill(4) for number in numbers)
    return None


def _numa(static: Part) -> int | None:
    """The node; what stands under ``affinity`` may differ from it, or be 4294967295."""
    node = whole(static.get("numa", "node"))
    return node if node is not None and node < _NUMA_NODES else None


def _mode(gpu: Gpu) -> str | None:
    static, partition = gpu.get("static"), gpu.get("partition")
    told = (
        static.get("partition", "compute_partition") if static else None,
        static.get("partition", "accelerator_partition") if static else None,
        partition.get("accelerator_type") if partition else None,
    )
    return next((mode.upper() for mode in told if mode), None)


def _links(gpus: Mapping[int, Gpu]) -> list[LinkFacts]:
    found = []
    for number, gpu in gpus.items():
        values = gpu["topology"].values if "topology" in gpu else {}
        kinds = values.get("link_type")
        pairs = (
            [(str(key).rpartition("_")[2], kind) for key, kind in kinds.items()]
            if isinstance(kinds, dict)
            else [
                (str(link.get("gpu")), link.get("link_type"))
                for link in objects(values.get("links"))
            ]
        )
        found += [
            LinkFacts(str(number), other, str(kind), direct=kind == "XGMI")
            for other, kind in pairs
            if kind in ("XGMI", "PCIE") and other != str(number)
        ]
    return found
