"""Slices as profiles of their own, made from the slicing tables of their devices.

So all that reads a library (plan, admission, capacity) knows a slice as any device type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hpcmgr.profile.model import DeviceProfile, Peak, SliceKind


def with_slices(profiles: Iterable[DeviceProfile]) -> dict[str, DeviceProfile]:
    """The devices among ``profiles`` and every slice of them, by name."""
    devices = [profile for profile in profiles if profile.slice_of is None]
    every = (*devices, *(piece for device in devices for piece in slices_of(device)))
    return {profile.name: profile for profile in sorted(every, key=lambda p: p.name)}


def slices_of(device: DeviceProfile) -> tuple[DeviceProfile, ...]:
    """A profile for every size of slice that the device can be cut into."""
    if device.slicing is None:
        return ()
    return tuple(_slice(device, name, kind) for name, kind in device.slicing.slices.items())


def _slice(device: DeviceProfile, name: str, kind: SliceKind) -> DeviceProfile:
    """Its name and GRES type are the device's with the vendor's word behind; what the device has
    by number, it has its share of."""
    assert device.slicing is not None  # noqa: S101 - the caller looked

    def share(whole: int | None) -> int | None:
        # Rounded down: all slices together are never worth more than the device.
        return None if whole is None else max(1, whole * kind.parts // parts)

    parts, word = device.slicing.parts, name.replace("+", ".").replace("-", "_")
    type_ = kind.type or f"{device.gres.type}_{word}"
    return device.model_copy(
        update={
            "name": f"{device.name}-{word}",
            "title": f"{device.title}, slice {name}",
            "gres": device.gres.model_copy(update={"type": type_}),
            "memory_gib": kind.memory_gib,
            "units": kind.units or share(device.booked_units),
            "peak": Peak(),
            "link_kind": "",
            "visible": device.slicing.visible,
            "cpus_per_device": share(device.cpus_per_device),
            "mem_per_device_mib": share(device.mem_per_device_mib),
            "slicing": None,
            "slice_of": device.name,
            "slice_name": name,
        }
    )


def wrong_tables(library: Iterable[DeviceProfile]) -> Iterator[str]:
    """Slices or partitions that are together worth more than their device; ``library`` has slices
    too. Small devices are let off: nothing is worth less than one unit."""
    known = {profile.name: profile for profile in library}
    for piece in known.values():
        whole = known.get(piece.slice_of or "")
        if whole is not None and whole.slicing is not None:
            kind = whole.slicing.slices[piece.slice_name or ""]
            yield from _too_much(whole, piece, kind.most, piece.slice_name or "")
        if piece.part_of is not None and piece.slice_of is None:
            whole = known.get(piece.part_of.profile)
            if whole is None:
                yield f"{piece.name}: part_of: there is no profile {piece.part_of.profile!r}"
            else:
                yield from _too_much(whole, piece, piece.part_of.parts, piece.name)


def _too_much(device: DeviceProfile, piece: DeviceProfile, most: int, name: str) -> Iterator[str]:
    for what, whole, each in (
        ("units", device.booked_units, piece.booked_units),
        ("GiB", device.memory_gib, piece.memory_gib),
    ):
        if whole is not None and each is not None and each > 1 and each * most > whole:
            yield (
                f"{device.name}: {most} x {name} have {each * most} {what}, "
                f"the whole device has {whole}"
            )
