"""Which device is which: the same card before and after, wherever it stands now.

By uuid, then by serial number, then by place, and never by a number of the vendor's tool. A uuid
or serial number that stands on several devices of one side tells nothing and is passed over. A
place is believed only where nothing contradicts it: another uuid or serial number there is
another card.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Protocol, TypeVar


class Known(Protocol):
    """What is known of one device. ``place``: where it stands, None if nobody knows."""

    @property
    def vendor(self) -> str:
        """Its brand."""
        ...

    @property
    def model(self) -> str:
        """Its model."""
        ...

    @property
    def chip(self) -> int | None:
        """Which of several devices on one card."""
        ...

    @property
    def uuid(self) -> str | None:
        """The device's own, if known."""
        ...

    @property
    def serial(self) -> str | None:
        """The card's, if known; devices on one card share it."""
        ...

    @property
    def place(self) -> Hashable:
        """Node, PCI address and chip."""
        ...


_Known = TypeVar("_Known", bound=Known)
_Key = Callable[[Known], Hashable]
Pair = tuple[_Known, _Known]


def pair_up(
    before: Sequence[_Known], after: Sequence[_Known]
) -> tuple[list[Pair[_Known]], list[_Known], list[_Known]]:
    """The same devices before and after; those that are gone; those that are new."""
    pairs: list[Pair[_Known]] = []
    left, new = list(before), list(after)
    for key, same in ((_uuid, _always), (_serial, _same_chip), (_placed, _same_card)):
        found = _matched(left, new, key, same)
        pairs += found
        done = {id(one) for pair in found for one in pair}
        left = [one for one in left if id(one) not in done]
        new = [one for one in new if id(one) not in done]
    return pairs, left, new


def doubles(known: Iterable[_Known]) -> list[tuple[str, list[_Known]]]:
    """uuids (and else serial numbers, per chip) that several devices have, with the devices."""
    found = []
    devices = list(known)
    for key in (_uuid, _serial):
        groups: dict[Hashable, list[_Known]] = defaultdict(list)
        for device in devices:
            value = key(device)
            if value is not None:
                groups[value].append(device)
        for group in groups.values():
            if len(group) > 1 and not (key is _serial and _one_card(group)):
                name = "uuid" if key is _uuid else "serial"
                found.append((name, group))
    return found


def contradicts(one: Known, other: Known) -> bool:
    """Whether two descriptions cannot be of one device."""
    return one.vendor != other.vendor or any(
        mine is not None and theirs is not None and mine != theirs
        for mine, theirs in ((one.uuid, other.uuid), (one.serial, other.serial))
    )


def _matched(
    before: Sequence[_Known],
    after: Sequence[_Known],
    key: _Key,
    same: Callable[[Known, Known], bool],
) -> list[Pair[_Known]]:
    """Pairs with a key that is the only one of its kind on both sides."""
    old, new = _single(before, key), _single(after, key)
    return [
        (device, new[value])
        for value, device in old.items()
        if value in new and same(device, new[value])
    ]


def _single(devices: Sequence[_Known], key: _Key) -> dict[Hashable, _Known]:
    found: dict[Hashable, _Known] = {}
    often: set[Hashable] = set()
    for device in devices:
        value = key(device)
        if value is None:
            continue
        if value in found:
            often.add(value)
        found[value] = device
    return {value: device for value, device in found.items() if value not in often}


def _always(one: Known, other: Known) -> bool:
    del one, other
    return True


def _same_chip(one: Known, other: Known) -> bool:
    """Of one card, and not two chips of it: those differ in uuid and place."""
    return None in (one.uuid, other.uuid) or one.place == other.place


def _same_card(one: Known, other: Known) -> bool:
    if contradicts(one, other):
        return False
    proven = (one.uuid and one.uuid == other.uuid) or (one.serial and one.serial == other.serial)
    return bool(proven) or one.model == other.model


def _one_card(group: Sequence[Known]) -> bool:
    """Devices with one serial number and different uuids are chips of one card, if they stand in
    one node."""
    uuids = {one.uuid for one in group}
    nodes = {one.place[0] for one in group if isinstance(one.place, tuple) and one.place}
    return None not in uuids and len(uuids) == len(group) and len(nodes) == 1


def _uuid(device: Known) -> Hashable:
    return (device.vendor, device.uuid) if device.uuid else None


def _serial(device: Known) -> Hashable:
    return (device.vendor, device.serial, device.chip) if device.serial else None


def _placed(device: Known) -> Hashable:
    return device.place
