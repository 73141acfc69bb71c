"""An inventory as one word of text, small enough to travel beside a credential."""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib

from pydantic import ValidationError

from hpcmgr.errors import InventoryError
from hpcmgr.inventory.node import SCHEMA, NodeInventory

MOST_BYTES = 1 << 20
"""The longest text of an inventory that is unpacked (one of 16 devices has a tenth of it): a small
word may stand for a flood, and reading it must not hold up the service's other work."""


def pack(inventory: NodeInventory) -> str:
    """Its JSON, compressed, in base64."""
    return base64.b64encode(zlib.compress(inventory.to_json().encode(), 9)).decode()


def unpack(word: str) -> NodeInventory:
    """The inventory in the word.

    Raises:
        InventoryError: none is.
    """
    try:
        packed = base64.b64decode(word, validate=True)
        stream = zlib.decompressobj()
        text = stream.decompress(packed, MOST_BYTES)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise InventoryError("no packed inventory") from error
    if not stream.eof:
        # Cut short, or longer than any inventory.
        raise InventoryError(f"no packed inventory of at most {MOST_BYTES >> 20} MiB")
    try:
        return NodeInventory.model_validate_json(text)
    except ValidationError as error:
        raise InventoryError(f"is no {SCHEMA}: {error.error_count()} wrong values") from error


def digest_of(word: str) -> str:
    """What binds the word to the credential beside it."""
    return hashlib.sha256(word.encode()).hexdigest()
