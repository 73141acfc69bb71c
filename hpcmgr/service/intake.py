"""Inventories that nodes send: what is taken in, what is refused, and the last one of a node.

Who sends is proven before (root or SlurmUser, by his credential). The address he comes from proves
nothing (NAT, several networks, munge's own idea of a host name), so what is looked at is what is
sent: an inventory whose devices are another node's comes from that node under a wrong name.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hpcmgr.errors import InventoryError, WireError
from hpcmgr.inventory import NodeInventory
from hpcmgr.inventory.packed import pack, unpack
from hpcmgr.inventory.store import load, node_path, save

Answer = dict[str, object]
Card = tuple[str, str]
"""Vendor, and uuid or else serial number."""

_ACCEPT = "if it is true, run 'hpcmgr sync --accept' there"


class Refused(InventoryError):
    """It is not taken in; the inventory that is there stays."""


class Intake:
    """The folder of inventories, as nodes see it through the door. Nobody else writes it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writing = threading.Lock()
        self._owners: dict[Card, str] | None = None

    def last(self, node: str) -> Answer:
        """The inventory that ``node`` published last; null if it never did.

        Raises:
            InventoryError: it cannot be read, or that is no node's name.
        """
        path = node_path(self._folder, node)
        return {"inventory": pack(load(path)) if path.exists() else None}

    def take(self, node: str, word: str, *, accept: bool) -> Answer:
        """Take in the inventory of ``node``, whole or not at all.

        Raises:
            WireError: it is none, or another node's.
            Refused: a person must look first; ``accept`` says that one has.
            InventoryError: it cannot be written.
        """
        try:
            sent = unpack(word)
        except InventoryError as error:
            raise WireError(error.message) from error
        if sent.node != node:
            raise WireError(f"the inventory is of {sent.node!r}, the credential for {node!r}")
        if sent.broken_sources:
            broken = ", ".join(source.name for source in sent.broken_sources)
            raise Refused(f"{broken} is broken on {node}: it keeps its last inventory")
        with self._writing:
            if not accept:
                self._refuse_surprises(sent)
            # An unchanged inventory is not written again: its time says when the node last told it.
            os.utime(save(sent, self._folder))
            if self._owners is not None:
                self._owners.update(dict.fromkeys(_cards(sent), node))
        return {"published": node, "devices": len(sent.devices)}

    def _refuse_surprises(self, sent: NodeInventory) -> None:
        path = node_path(self._folder, sent.node)
        before: NodeInventory | None = None
        try:
            before = load(path) if path.exists() else None
        except InventoryError as error:
            if not sent.devices:
                raise Refused(
                    f"{sent.node} has no devices, and what it had before cannot be read",
                    f"look at its driver; {_ACCEPT}",
                ) from error
        if before and before.devices and not sent.devices:
            raise Refused(
                f"all {len(before.devices)} devices of {sent.node} are gone since the last sync",
                f"look at its driver; {_ACCEPT}",
            )
        cards = _cards(sent)
        if cards and not (before and cards & _cards(before)):
            self._refuse_anothers(sent.node, cards)

    def _refuse_anothers(self, node: str, cards: set[Card]) -> None:
        if self._owners is None:
            self._owners = dict(_owners(self._folder))
        others = {self._owners.get(card, node) for card in cards}
        other = others.pop()
        if not others and other != node:
            raise Refused(
                f"what came as the inventory of {node} has the devices of {other}",
                f"does the host have its right name? Were the cards moved: {_ACCEPT}",
            )


def _cards(inventory: NodeInventory) -> set[Card]:
    """Those that can be told from all others."""
    return {(d.vendor, known) for d in inventory.devices if (known := d.uuid or d.serial)}


def _owners(folder: Path) -> Iterable[tuple[Card, str]]:
    """Which node has which card, by all files. Read loosely: thousands of them are read at once."""
    for path in folder.glob("[!.]*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            devices: list[dict[str, Any]] = json.loads(path.read_bytes())["devices"]
            for device in devices:
                known = device["uuid"] or device["serial"]
                if known:
                    yield (device["vendor"], known), path.stem
