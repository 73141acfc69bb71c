"""Rules about AutoDetect, which Slurm reads by substring and allows once for each node."""

from __future__ import annotations

from collections.abc import Iterator

from hpcmgr.slurm.capability import has
from hpcmgr.verify.conf import Entry
from hpcmgr.verify.configuration import Configuration, hosts
from hpcmgr.verify.finding import Finding, Place, error, warning

VALUES = {
    "nvml": "",
    "rsmi": "",
    "oneapi": "",
    "off": "",
    "nrt": "AUTODETECT_NRT",
    "nvidia": "AUTODETECT_NVIDIA",
    "full": "AUTODETECT_FULL",
}
"""Value → entry of the capability table, empty if every release has it."""


def values_are_known(c: Configuration) -> Iterator[Finding]:
    """A value is one of Slurm's own, whole, and known to this release."""
    known = ", ".join(v for v, entry in VALUES.items() if not entry or has(c.release, entry))
    for entry in c.gres.entries:
        value = (entry.get("autodetect") or "").lower()
        if not value or (value in VALUES and _available(c, value)):
            continue
        inside = next((v for v in VALUES if v in value and _available(c, v)), None)
        if inside and value not in VALUES:
            yield warning(
                "autodetect-value",
                entry.place,
                f"AutoDetect={value} is taken for {inside}",
                "Slurm looks for its values anywhere in the text.",
                f"write AutoDetect={inside}",
            )
        else:
            yield error(
                "autodetect-value",
                entry.place,
                f"Slurm {c.release} knows no AutoDetect={value}",
                "slurmd logs an error and detects nothing.",
                f"use one of {known} (rsmi is AMD, oneapi is Intel, nrt is AWS Neuron); there is "
                "none for other brands: write records with File=",
            )


def inline_needs_node_name(c: Configuration) -> Iterator[Finding]:
    """AutoDetect inside a record without NodeName is not used."""
    for entry in c.gres.entries:
        if (
            entry.head == "name"
            and entry.get("autodetect") is not None
            and entry.get("nodename") is None
        ):
            yield error(
                "autodetect-inline",
                entry.place,
                "AutoDetect in a record without NodeName",
                'slurmd logs "In-line AutoDetect requires NodeName to take effect" and ignores it.',
                "give AutoDetect a line of its own, or add NodeName= in front",
            )


def one_for_each_node(c: Configuration) -> Iterator[Finding]:
    """Two different values for one node: slurmd does not start."""
    everywhere: tuple[str, Place] | None = None
    own: dict[str, tuple[str, Place]] = {}
    for entry in c.gres.entries:
        value = (entry.get("autodetect") or "").lower()
        if not value:
            continue
        nodes = entry.get("nodename")
        if nodes is None and entry.head == "autodetect":
            if everywhere and everywhere[0] != value:
                yield _second(entry, value, everywhere, "the cluster")
            everywhere = everywhere or (value, entry.place)
        for name in hosts(nodes, entry.place, []) if nodes else ():
            first = own.setdefault(name, (value, entry.place))
            if first[0] != value:
                yield _second(entry, value, first, name)
                break


def _second(entry: Entry, value: str, first: tuple[str, Place], whose: str) -> Finding:
    return error(
        "autodetect-two",
        entry.place,
        f"AutoDetect={value}, but {first[1]} says AutoDetect={first[0]} for {whose}",
        "Only one mechanism works on a node; slurmd refuses a second one.",
        "keep one, or write AutoDetect=off and records with File= for all devices",
    )


def not_beside_records(c: Configuration) -> Iterator[Finding]:
    """Detected and written devices must match in every detail, or a device is lost."""
    for record in c.records:
        if record.name == "gpu" and record.has_file and c.detecting(record):
            yield warning(
                "autodetect-records",
                record.place,
                "a gpu record with File= while AutoDetect is on",
                "A device whose Type, Cores or Links differ from what is detected is dropped, and "
                "devices of other brands are not detected at all.",
                "write AutoDetect=off where the devices are written by hand",
            )


def _available(c: Configuration, value: str) -> bool:
    return not VALUES[value] or has(c.release, VALUES[value])


RULES = (values_are_known, inline_needs_node_name, one_for_each_node, not_beside_records)
