"""Inventory files: one ``NODE.json`` a node in one directory.

A file is replaced as a whole (written beside, then renamed), so that a reader never sees half of
it. A broken file is an error with its reason and never counts as a node without devices.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from hpcmgr.errors import InventoryError
from hpcmgr.files import write_atomically
from hpcmgr.inventory.node import SCHEMA, NodeInventory

_MAX_BYTES = 16 << 20
_NODE_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")


def node_path(directory: Path, node: str) -> Path:
    """Where the inventory of ``node`` lies.

    Raises:
        InventoryError: ``node`` is no name of a node (it would name a file elsewhere).
    """
    if not _NODE_NAME.match(node):
        raise InventoryError(f"{node!r} is no node name")
    return directory / f"{node}.json"


def save(inventory: NodeInventory, directory: Path) -> Path:
    """Write ``inventory`` to its file and return the path; the directory is made if missing.

    Raises:
        InventoryError: it cannot be written; the file there stays as it was.
    """
    path = node_path(directory, inventory.node)
    try:
        write_atomically(path, inventory.to_json())
    except OSError as error:
        raise InventoryError(f"{path}: cannot be written: {error.strerror}") from error
    return path


def load(path: Path) -> NodeInventory:
    """Read one inventory file.

    Raises:
        InventoryError: it is missing, unreadable, no inventory, or of another node than its name.
    """
    try:
        with path.open("rb") as file:
            # Room for just that much: 10,000 times 16 MiB is felt.
            data = file.read(min(os.fstat(file.fileno()).st_size, _MAX_BYTES) + 1)
    except OSError as error:
        raise InventoryError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > _MAX_BYTES:
        raise InventoryError(f"{path}: is larger than {_MAX_BYTES >> 20} MiB")
    try:
        inventory = NodeInventory.model_validate_json(data)
    except ValidationError as error:
        raise InventoryError(
            f"{path}: is no {SCHEMA}: {_told(error)}", "publish it again: hpcmgr sync on that node"
        ) from error
    if inventory.node != path.stem:
        raise InventoryError(
            f"{path}: is the inventory of {inventory.node!r}, not of {path.stem!r}"
        )
    return inventory


def load_all(directory: Path) -> dict[str, NodeInventory]:
    """Every inventory of ``directory`` by node name, sorted.

    Raises:
        InventoryError: the directory cannot be read, or files are broken: all of them are named.
    """
    return {inventory.node: inventory for inventory in load_each(directory)}


def load_each(directory: Path) -> Iterator[NodeInventory]:
    """The same one after the other, so that not all need be held: there may be 10,000.

    Raises:
        InventoryError: as above; broken files are told at the end.
    """
    try:
        paths = sorted(p for p in directory.iterdir() if p.suffix == ".json" and p.name[0] != ".")
    except OSError as error:
        raise InventoryError(
            f"{directory}: cannot be read: {error.strerror}",
            "run 'hpcmgr sync' on the nodes, or set 'inventory' in site.yaml",
        ) from error
    broken: list[InventoryError] = []
    for path in paths:
        try:
            yield load(path)
        except InventoryError as error:
            broken.append(error)
    if broken:
        hint = next((error.hint for error in broken if error.hint), "")
        raise InventoryError("\n".join(error.message for error in broken), hint)


def _told(error: ValidationError) -> str:
    items = error.errors(include_url=False, include_context=False)
    shown = [
        f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}".lstrip(": ")
        for item in items[:5]
    ]
    return "; ".join(shown + ([f"and {len(items) - 5} more"] if len(items) > 5 else []))
