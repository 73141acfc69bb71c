"""Rules about slurm.conf's Gres= and gres.conf's records of the same node."""

from __future__ import annotations

from collections.abc import Iterator

from hpcmgr.slurm.tres import GresItem
from hpcmgr.verify.configuration import SHARED, Configuration, GresRecord, Shape
from hpcmgr.verify.finding import Finding, Place, error, warning


def counts_agree(c: Configuration) -> Iterator[Finding]:
    """Each name and type of Gres= has as many devices in gres.conf."""
    if not c.gres.exists:
        yield from _no_gres_conf(c)
        return
    for shape in c.shapes:
        if c.detection(shape.names[0]):
            continue  # what is detected is known on the node only
        for name in sorted({item.name for item in shape.node.gres} - SHARED):
            items = [item for item in shape.node.gres if item.name == name]
            records = [r for r in shape.records if r.name == name]
            yield from _typed_and_untyped(shape, items)
            if records:
                yield from _compare(shape, name, items, records)
            elif name == "gpu":
                yield error(
                    "gres-no-record",
                    shape.node.place,
                    f"{shape.label}: Gres=gpu, but gres.conf has no gpu record for it",
                    "slurmd finds no GPU and the node registers as invalid.",
                    "add the records to gres.conf, or take gpu out of Gres=",
                )


def _no_gres_conf(c: Configuration) -> Iterator[Finding]:
    shape = next((s for s in c.shapes if any(i.name == "gpu" for i in s.node.gres)), None)
    if shape:
        yield error(
            "gres-no-record",
            Place(c.gres.path),
            f"gres.conf is missing, but {shape.label} has Gres=gpu ({shape.node.place})",
            "slurmd finds no GPU and the node registers as invalid.",
            "add gres.conf, or let 'hpcmgr render' write it",
        )


def _typed_and_untyped(shape: Shape, items: list[GresItem]) -> Iterator[Finding]:
    if any(i.type for i in items) and not all(i.type for i in items):
        yield error(
            "mixed-type",
            shape.node.place,
            f"{shape.label}: Gres= has {items[0].name} with and without a type",
            "Slurm refuses a mixture of typed and untyped devices of one name on a node.",
            f"give every {items[0].name} of Gres= a type, or none",
        )


def _compare(
    shape: Shape, name: str, items: list[GresItem], records: list[GresRecord]
) -> Iterator[Finding]:
    for item in items:
        same = [r for r in records if (r.type or "") == (item.type or "")]
        if not same and item.type is not None:
            yield _other_type(shape, item, records)
            continue
        if not same:  # untyped in slurm.conf, typed in gres.conf: all of them count
            same = records
        yield from _numbers(shape, item, same)
    wanted = {item.type for item in items}
    for record in records:
        if None not in wanted and record.type not in wanted and record.type is not None:
            key = f"{name}:{record.type}"
            if not any(i.type and _no_record(i, records) for i in items):
                yield warning(
                    "gres-extra-type",
                    record.place,
                    f"{shape.label}: {key} is not in Gres= of {shape.node.place}",
                    "Slurm ignores these devices.",
                    f"add {key} to Gres= of the node",
                )


def _no_record(item: GresItem, records: list[GresRecord]) -> bool:
    return all(r.type != item.type for r in records)


def _other_type(shape: Shape, item: GresItem, records: list[GresRecord]) -> Finding:
    types = sorted({r.type or "(no type)" for r in records})
    effect = (
        "slurmd drops the devices and the node registers as invalid."
        if item.name == "gpu"
        else "Slurm only warns and drops File=: every job could open these devices, and none "
        "would be told which are its own."
    )
    return error(
        "type-mismatch",
        records[0].place,
        f"{shape.label}: Gres= of {shape.node.place} has {item.name}:{item.type}, gres.conf has "
        f"{', '.join(types)}",
        effect,
        "write the same Type in both files",
    )


def _numbers(shape: Shape, item: GresItem, records: list[GresRecord]) -> Iterator[Finding]:
    counts = [record.count for record in records]
    if None in counts or item.number is None:
        return
    present = sum(count for count in counts if count is not None)
    key = item.name if item.type is None else f"{item.name}:{item.type}"
    if present < item.number:
        yield error(
            "count-low",
            shape.node.place,
            f"{shape.label}: Gres={key}:{item.number}, but gres.conf has {present}",
            "The node registers as invalid and takes no new jobs: "
            f"count reported lower than configured ({present} < {item.number}).",
            f"write {key}:{present}, or add the missing devices to gres.conf ({records[0].place})",
        )
    elif present > item.number:
        yield warning(
            "count-high",
            shape.node.place,
            f"{shape.label}: Gres={key}:{item.number}, but gres.conf has {present}",
            f"Slurm leaves {present - item.number} of them unused.",
            f"write {key}:{present}, or remove records from gres.conf",
        )


def records_are_scheduled(c: Configuration) -> Iterator[Finding]:
    """Devices that Gres= does not name cannot be asked for."""
    for shape in c.shapes:
        names = {item.name for item in shape.node.gres}
        for record in shape.records:
            if record.nodes is not None and record.name not in names:
                yield warning(
                    "gres-not-in-node",
                    shape.node.place,
                    f"{shape.label}: gres.conf has {record.name} ({record.place}), Gres= has not",
                    "Slurm schedules only what Gres= names.",
                    f"add {record.name} to Gres= of the node",
                )


RULES = (counts_agree, records_are_scheduled)
