"""Where a node publishes its inventory: a folder that all see, or the service's door."""

from __future__ import annotations

import os
import random
import time
from typing import Any, Protocol

from hpcmgr.errors import ServiceError
from hpcmgr.inventory import NodeInventory
from hpcmgr.inventory.packed import digest_of, pack, unpack
from hpcmgr.inventory.store import load, node_path, save
from hpcmgr.service.askdoor import Busy, ask
from hpcmgr.settings import Site

_WAITS = (2.0, 5.0, 10.0)
"""Seconds at most between tries at a door that is full."""


class Place(Protocol):
    """Where inventories go. ``name(node)`` is what people call it."""

    def name(self, node: str) -> str:
        """A file or an address."""
        ...

    def last(self, node: str) -> NodeInventory | None:
        """What the node published last; None: nothing.

        Raises:
            InventoryError: it is there and cannot be read.
            ServiceError, CredentialError: nobody can be asked.
        """
        ...

    def publish(self, inventory: NodeInventory, *, accept: bool) -> None:
        """Publish it; ``accept``: a person takes for true what would be refused.

        Raises:
            InventoryError: it cannot be written.
            ServiceError, CredentialError: refused, or nobody can be asked.
        """
        ...


class SharedFolder:
    """``inventory`` of site.yaml, seen by the nodes and the controller."""

    def __init__(self, site: Site) -> None:
        self._folder = site.inventory

    def name(self, node: str) -> str:
        """The file."""
        return str(node_path(self._folder, node))

    def last(self, node: str) -> NodeInventory | None:
        """From the file."""
        path = node_path(self._folder, node)
        return load(path) if path.exists() else None

    def publish(self, inventory: NodeInventory, *, accept: bool) -> None:
        """Into the file."""
        del accept  # who may write the folder has decided himself
        # An unchanged inventory is not written again: its time says when the node last told it.
        os.utime(save(inventory, self._folder))


class ServiceDoor:
    """``service.door``; the service writes the folder, which lies on the controller."""

    def __init__(self, door: str) -> None:
        self._door = door

    def name(self, node: str) -> str:
        """The address."""
        del node
        return f"the service at {self._door}"

    def last(self, node: str) -> NodeInventory | None:
        """Asks the service."""
        word = self._ask({"op": "inventory", "node": node}).get("inventory")
        if word is None:
            return None
        if not isinstance(word, str):
            raise ServiceError("the service's door answered something else than expected")
        return unpack(word)

    def publish(self, inventory: NodeInventory, *, accept: bool) -> None:
        """Sends it, bound to a credential of this host's root."""
        word = pack(inventory)
        request = {
            "op": "publish", "node": inventory.node, "sha256": digest_of(word), "accept": accept
        }  # fmt: skip
        self._ask(request, word)

    def _ask(self, request: dict[str, object], body: str = "") -> dict[str, Any]:
        for wait in _WAITS:
            try:
                return ask(self._door, request, body=body)
            except Busy:
                # All nodes of a cluster may come at once, when it is switched on.
                time.sleep(random.uniform(0.5, 1) * wait)  # noqa: S311 - to spread them
        return ask(self._door, request, body=body)


def place_of(site: Site) -> Place:
    """As the site says."""
    if site.publish == "push" and site.service.door:
        return ServiceDoor(site.service.door)
    return SharedFolder(site)
