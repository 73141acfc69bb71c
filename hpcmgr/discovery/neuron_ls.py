"""neuron-ls: AWS's Inferentia and Trainium, as JSON or, from old releases, as a table.

Its number is that of /dev/neuronN: the driver's class has no PCI parent, so nothing else tells. A
NUMA node of "-1" is unknown. What the chips are it does not say; their PCI ids do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hpcmgr.discovery import grid_table, json_answer
from hpcmgr.discovery.findings import Findings, mebibytes
from hpcmgr.discovery.host import Host
from hpcmgr.discovery.source import Answer, Collected, DeviceFacts, LinkFacts, ask, whole
from hpcmgr.inventory.pci_address import canonical

_TABLES = (frozenset({"neuron device", "pci bdf"}), frozenset({"logical id", "pci bdf"}))
_LINK = "NeuronLink"

Record = tuple[DeviceFacts, tuple[int, ...]]
"""A device, and the numbers of those that it is linked to."""


class NeuronLs:
    """AWS's tool."""

    name = "neuron-ls"
    vendor: str | None = "aws"

    def collect(self, host: Host) -> Collected:
        """Ask for JSON; a release that does not know the option prints its table."""
        findings = Findings(host, self.name)
        answer = ask(host, (self.name, "--json-output"))
        read = json_answer.parse(answer.text)
        records = list(_from_json(read.value))
        if records:
            findings.problems += [why for why in (answer.why, read.problem) if why]
            findings.read_around(read.around)
        else:
            answer, records = _from_tables(host, answer, findings)
        if answer.state == "absent":
            return findings.absent(answer.why)
        cards: dict[int, Record] = {}
        for facts, peers in records:
            if facts.index is not None:
                cards.setdefault(facts.index, (facts, peers))
        devices = [facts for _, (facts, _) in sorted(cards.items())]
        return findings.result(devices, _links(cards), answer.text)


def _from_tables(host: Host, first: Answer, findings: Findings) -> tuple[Answer, list[Record]]:
    """Devices of the answer itself, which may be a table, or of the tool's plain answer."""
    if first.why.endswith("in time"):
        findings.problems, findings.hung = [first.why], True
        return first, []
    plain = first if _table(first.text) else ask(host, ("neuron-ls",))
    records = _table(plain.text)
    answer = plain if records or first.state == "absent" else first
    if answer.state == "broken" and not (records and answer is first):
        findings.problems.append(answer.why)
    if records:
        findings.notes.append("read from its table")
    return answer, records


def _from_json(value: object) -> Iterator[Record]:
    for item in json_answer.objects(value):
        values = json_answer.texts(item)
        index, size = whole(values.get("neuron_device")), whole(values.get("memory_size"))
        peers = item.get("connected_to")
        if index is not None:
            yield (
                _facts(index, values.get("bdf"), values.get("numa_node"), (size or 0) >> 20),
                tuple(p for p in peers if isinstance(p, int)) if isinstance(peers, list) else (),
            )


def _table(text: str) -> list[Record]:
    """Rows of a device that follow its first one are its processes."""
    found = []
    for labels in _TABLES:
        for row in grid_table.parse(text, labels) or ():
            index = whole(row.get("neuron device") or row.get("logical id"))
            if index is not None:
                memory = mebibytes(row.get("neuron memory")) or 0
                peers = re.findall(r"[0-9]+", row.get("connected devices", ""))
                facts = _facts(index, row.get("pci bdf"), row.get("numa node"), memory)
                found.append((facts, tuple(int(peer) for peer in peers)))
    return found


def _facts(index: int, bdf: str | None, numa: str | None, memory: int) -> DeviceFacts:
    return DeviceFacts(
        ref=f"ND{index}",
        vendor="aws",
        kind="npu",
        pci=canonical(bdf),
        index=index,
        numa_node=whole(numa),
        files=(f"/dev/neuron{index}",),
        memory_mib=memory or None,
    )


def _links(cards: dict[int, Record]) -> Iterable[LinkFacts]:
    pairs = {
        (min(index, peer), max(index, peer))
        for index, (_, peers) in cards.items()
        for peer in peers
        if peer in cards and peer != index
    }
    return [LinkFacts(f"ND{a}", f"ND{b}", _LINK, direct=True) for a, b in sorted(pairs)]
