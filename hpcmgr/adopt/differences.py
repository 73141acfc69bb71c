"""Where a site's files and the discovered machine disagree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hpcmgr.adopt.meaning import Meaning, WrittenDevice
from hpcmgr.plan import NodePlan, PlannedDevice
from hpcmgr.verify.values import Machine, format_cores, parse_cores, positive

Pair = tuple[WrittenDevice, PlannedDevice]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing. ``kind`` is a stable name; ``danger``: bringing the machine's form into force
    while jobs have devices would give a device to two jobs or kill them (facts 19 and 20)."""

    kind: str
    text: str
    danger: bool = False


def differences(meaning: Meaning, plan: NodePlan, memory_mib: int) -> tuple[Difference, ...]:
    """Every difference of one node; ``memory_mib`` is all that the machine has."""
    pairs, written, planned = _matched(meaning, plan)
    return (
        *_machine(meaning, plan, memory_mib),
        *_lost(written),
        *_new(planned),
        *_types(pairs),
        *_cores(pairs, plan),
        *_counts(meaning, plan, pairs),
        *_order(pairs, plan),
        *(Difference("no-profile", note) for note in plan.notes),
    )


def _matched(
    meaning: Meaning, plan: NodePlan
) -> tuple[list[Pair], list[WrittenDevice], list[PlannedDevice]]:
    """Devices that share a file, those only written, those only found."""
    by_file = {file: device for device in plan.devices for file in device.files}
    pairs, lost = [], []
    for device in meaning.devices:
        found = next((by_file[file] for file in device.files if file in by_file), None)
        if found is None:
            lost.append(device)
        else:
            pairs.append((device, found))
    seen = {id(found) for _, found in pairs}
    return pairs, lost, [device for device in plan.devices if id(device) not in seen]


def _machine(meaning: Meaning, plan: NodePlan, memory_mib: int) -> Iterator[Difference]:
    found = Machine(plan.sockets, plan.cores_per_socket, plan.threads_per_core)
    said = meaning.machine
    if said and said != found:
        yield Difference(
            "machine-differs",
            f"the line says {_told(said)}, the machine has {_told(found)}",
        )
    cpus = positive(meaning.keys.get("cpus") or meaning.keys.get("procs"), 0)
    if cpus and cpus not in {found.cores, found.cores * found.threads_per_core}:
        yield Difference(
            "cpus-differ",
            f"the line says CPUs={cpus}, the machine has {found.cores} cores and "
            f"{found.cores * found.threads_per_core} threads",
        )
    memory = positive(meaning.keys.get("realmemory"), 0)
    if memory > memory_mib:
        yield Difference(
            "memory-differs", f"RealMemory={memory}, but the machine has {memory_mib} MiB"
        )


def _told(machine: Machine) -> str:
    return (
        f"{machine.sockets} sockets x {machine.cores_per_socket} cores x "
        f"{machine.threads_per_core} threads"
    )


def _lost(devices: list[WrittenDevice]) -> Iterator[Difference]:
    for device in devices:
        yield Difference(
            "device-missing",
            f"{','.join(device.files)} ({device.key}, {_line(device)}) is no device that was found",
            danger=True,
        )


def _line(device: WrittenDevice) -> str:
    file = device.place.file
    return f"{file.name if file else '-'}:{device.place.line}"


def _new(devices: list[PlannedDevice]) -> Iterator[Difference]:
    for device in devices:
        yield Difference(
            "device-extra",
            f"{','.join(device.files)} ({device.profile.gres_key}) was found, and no record names "
            "it",
            danger=True,
        )


def _types(pairs: list[Pair]) -> Iterator[Difference]:
    """A whole type by another name, or single files under the wrong type."""
    names: dict[str, set[str]] = {}
    back: dict[str, set[str]] = {}
    for device, found in pairs:
        names.setdefault(device.key, set()).add(found.profile.gres_key)
        back.setdefault(found.profile.gres_key, set()).add(device.key)
    for device, found in pairs:
        key, wanted = device.key, found.profile.gres_key
        if key != wanted and (len(names[key]) > 1 or len(back[wanted]) > 1):
            yield Difference(
                "type-differs",
                f"{','.join(device.files)} is {key} at {_line(device)}, and was found to be a "
                f"{found.profile.title}: {wanted}",
                danger=True,
            )
    for key, keys in names.items():
        wanted = next(iter(keys))
        if len(keys) == 1 and len(back[wanted]) == 1 and key != wanted:
            yield Difference(
                "type-renamed",
                f"{key} would be {wanted}: jobs and limits that name {key} must be changed, or "
                "profiles.override of site.yaml given the old name",
                danger=True,
            )


def _cores(pairs: list[Pair], plan: NodePlan) -> Iterator[Difference]:
    for device, found in pairs:
        if not device.cores or found.socket is None:
            continue
        first = found.socket * plan.cores_per_socket
        near = set(range(first, first + plan.cores_per_socket))
        try:
            cores = parse_cores(device.cores)
        except ValueError:
            continue
        if cores != near:
            yield Difference(
                "cores-differ",
                f"{','.join(device.files)}: Cores={device.cores} at {_line(device)}, but it is "
                f"near socket {found.socket}: {format_cores(near)}",
                danger=True,
            )


def _counts(meaning: Meaning, plan: NodePlan, pairs: list[Pair]) -> Iterator[Difference]:
    """Gres= against the devices that were found under each of its names."""
    for key, count in meaning.gres.items():
        wanted = {found.profile.gres_key for device, found in pairs if _of(device, key)}
        devices = sum(device.profile.gres_key in wanted for device in plan.devices)
        if wanted and devices != count:
            yield Difference(
                "count-differs",
                f"Gres= has {key}:{count}, the machine has {devices}",
                danger=True,
            )


def _of(device: WrittenDevice, key: str) -> bool:
    return device.key == key or device.name == key


def _order(pairs: list[Pair], plan: NodePlan) -> Iterator[Difference]:
    """Slurm knows a device by its place in the list alone."""
    place = {id(device): i for i, device in enumerate(plan.devices)}
    for name in dict.fromkeys(device.name for device, _ in pairs):
        mine = [(device, found) for device, found in pairs if device.name == name]
        order = [place[id(found)] for _, found in mine]
        if order != sorted(order):
            wrong = next(
                i for i, (a, b) in enumerate(zip(order, sorted(order), strict=True)) if a != b
            )
            other = next(d for d, found in mine if place[id(found)] == sorted(order)[wrong])
            yield Difference(
                "order-differs",
                f"{name} number {wrong} is {mine[wrong][0].files[0]} for Slurm now, and would be "
                f"{other.files[0]}: under jobs a device would be handed out twice",
                danger=True,
            )
