"""Rules about devices that are cut, shared or linked: MIG, shard and MPS, Links."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcmgr.slurm.tres import parse_count
from hpcmgr.verify.configuration import SHARED, Configuration, GresRecord, Shape
from hpcmgr.verify.finding import Finding, error, warning

_CAP = re.compile(r"/dev/nvidia-caps/nvidia-cap\d+")
_GPU = re.compile(r"/dev/nvidia\d+")


def slices_have_three_files(c: Configuration) -> Iterator[Finding]:
    """A MIG slice is the GPU, its GPU instance and its compute instance, in one record."""
    for record in c.records:
        files = record.files or ()
        caps = sum(1 for file in files if _CAP.fullmatch(file))
        if not caps or record.name in SHARED:
            continue
        gpus = sum(1 for file in files if _GPU.fullmatch(file))
        if not record.multiple:
            text = "capabilities of MIG stand in File=, as devices of their own"
        elif (gpus, caps) != (1, 2) or len(files) != 3:
            text = f"a slice of {gpus} GPUs and {caps} capabilities of MIG"
        else:
            continue
        yield error(
            "mig-files",
            record.place,
            text,
            "A job could open what it cannot use, or not open what it needs.",
            "write MultipleFiles=/dev/nvidiaN,/dev/nvidia-caps/nvidia-cap…,… with the "
            "capabilities of the GPU instance and of the compute instance",
        )


def shares_of_one_sort(c: Configuration) -> Iterator[Finding]:
    """shard and mps on one node: a GPU is given whole to a job though others have shares of it
    (seen on 24.11.5 and 26.05.5)."""
    for shape in c.shapes:
        names = {i.name for i in shape.node.gres} | {r.name for r in shape.records}
        if names >= SHARED:
            yield error(
                "two-shares",
                shape.node.place,
                f"{shape.label}: mps and shard on one node",
                "Slurm then gives a GPU whole to a job while other jobs have shares of it.",
                "keep one of them on this node",
            )


def shares_have_gpus(c: Configuration) -> Iterator[Finding]:
    """Shares are shares of GPUs: without a gpu record slurmd does not start."""
    types = set(c.words("grestypes"))
    if types & SHARED and "gpu" not in types:
        yield error(
            "shares-without-gpu",
            c.place_of("grestypes"),
            f"GresTypes has {', '.join(sorted(types & SHARED))} but not gpu",
            "slurmctld and slurmd refuse to start.",
            "add gpu to GresTypes",
        )
    for shape in c.shapes:
        if c.detection(shape.names[0]):
            continue
        gpus = [r for r in shape.records if r.name == "gpu"]
        files = {file for record in gpus for file in record.files or ()}
        for record in (r for r in shape.records if r.name in SHARED):
            if not gpus:
                text = f"{shape.label}: {record.name}, but no gpu record"
            elif record.files and not files.issuperset(record.files):
                other = next(file for file in record.files if file not in files)
                text = f"{shape.label}: {record.name} of {other}, which no gpu record has"
            else:
                continue
            yield error(
                "shares-without-gpu",
                record.place,
                text,
                "slurmd does not start: shares must be shares of GPUs on that node.",
                "add the gpu record, or remove this one",
            )


def shares_are_counted_alike(c: Configuration) -> Iterator[Finding]:
    """As many shares in Gres= as in gres.conf, and no remainder over the devices."""
    for shape in c.shapes:
        for name in sorted(SHARED):
            records = [r for r in shape.records if r.name == name]
            items = [i for i in shape.node.gres if i.name == name]
            counts = [_shares(record) for record in records]
            if not records or not items or None in counts:
                continue
            wanted = sum(item.number or 0 for item in items)
            present = sum(count for count in counts if count is not None)
            if present != wanted:
                yield _count_differs(shape, name, wanted, present, records[0])
            for record in records:
                devices, count = len(record.files or ()), _shares(record) or 0
                if devices and count % devices:
                    yield warning(
                        "shares-remainder",
                        record.place,
                        f"{shape.label}: {count} {name} on {devices} devices",
                        "Slurm spreads them unevenly.",
                        f"write a multiple of {devices}",
                    )


def _shares(record: GresRecord) -> int | None:
    text = record.entry.get("count")
    return None if text is None else parse_count(text)


def _count_differs(
    shape: Shape, name: str, wanted: int, present: int, record: GresRecord
) -> Finding:
    text = f"{shape.label}: Gres={name}:{wanted}, but gres.conf has {present}"
    fix = f"write {name}:{present} ({record.place})"
    if present < wanted:
        why = f"The node registers as invalid: {name} count reported lower than configured."
        return error("count-low", shape.node.place, text, why, fix)
    return warning("count-high", shape.node.place, text, "Slurm leaves the others unused.", fix)


def links_are_square(c: Configuration) -> Iterator[Finding]:
    """One row a device, one number for each device of the name, -1 at itself. With more numbers the
    node registers as invalid; all else Slurm takes as it comes (seen on 24.11.5 and 26.05.5)."""
    for shape in c.shapes:
        if c.detection(shape.names[0]):
            continue  # there may be more devices than records
        for name in sorted({r.name for r in shape.records} - SHARED):
            records = [r for r in shape.records if r.name == name]
            if not any(_links(r) for r in records):
                continue
            first = next(r for r in records if _links(r))
            yield warning(
                "links-avoided",
                first.place,
                f"{shape.label}: {name} has Links=",
                "Slurm gives a request per node or task (--gres=gpu:2) the devices with the fewest "
                "links to each other; only --gpus=2 takes linked ones (24.11.5, 26.05.5).",
                "leave Links out",
            )
            devices = sum(r.count or 0 for r in records)
            taken: set[int] = set()
            for record in records:
                wrong = _row_problem(record, devices, taken)
                if wrong:
                    invalid = _links(record).count(",") >= devices
                    yield (error if invalid else warning)(
                        "links",
                        record.place,
                        f"{shape.label}: {wrong}",
                        "The node registers as invalid."
                        if invalid
                        else "Slurm ignores these links, or picks devices by wrong ones.",
                        f"give each of the {devices} {name} devices a record of its own with "
                        f"{devices} numbers: links to each device in the order of the records, "
                        "-1 for itself",
                    )


def _links(record: GresRecord) -> str:
    return record.entry.get("links", "link") or ""


def _row_problem(record: GresRecord, devices: int, taken: set[int]) -> str:
    """What is wrong with the links of a record; ``taken`` gets the place of its own -1. The order
    of GPUs follows these places, so any order of records is good."""
    text = _links(record)
    if not text:
        return f"some records of {record.name} have Links= and this one has not"
    if (record.count or 0) != 1:
        return f"Links= on a record of {record.count} devices"
    if not re.fullmatch(r"-?\d{1,6}(,-?\d{1,6})*", text):
        return f"Links={text[:60]} is no list of whole numbers"
    row = [int(number) for number in text.split(",")]
    if len(row) != devices:
        return f"Links= has {len(row)} numbers for {devices} devices of {record.name}"
    if row.count(-1) != 1 or min(row) < -1:
        return f"Links={text} has not one -1, for the device itself"
    if row.index(-1) in taken:
        return f"Links={text} has its -1 where another device has it"
    taken.add(row.index(-1))
    return ""


RULES = (
    slices_have_three_files,
    shares_of_one_sort,
    shares_have_gpus,
    shares_are_counted_alike,
    links_are_square,
)
