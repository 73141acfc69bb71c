"""The ledger: every device ever seen, where it was, what changed about it and when.

It is filled on the controller from the inventories that nodes publish. Nodes never write to it:
SQLite's locks are not to be trusted on a network file system.
"""

from hpcmgr.ledger.query import FIELDS, Condition, matches, parse
from hpcmgr.ledger.record import Event, Record
from hpcmgr.ledger.store import Ledger
from hpcmgr.ledger.update import Reading, Summary, read_inventories, take_in

__all__ = [
    "FIELDS",
    "Condition",
    "Event",
    "Ledger",
    "Reading",
    "Record",
    "Summary",
    "matches",
    "parse",
    "read_inventories",
    "take_in",
]
