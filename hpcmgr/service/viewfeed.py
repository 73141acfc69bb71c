"""A view of the cluster on its way to the process that answers: in small pieces, what is new only.

That process reads one piece between two answers, and slurmctld waits behind it; a view of
thousands of nodes read at once would take it tens of milliseconds. What is large (nodes, accounts,
which switch a node hangs on) is sent when it has changed, and known by its name from then on.
"""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from hpcmgr.profile import DeviceProfile, ProfileLibrary
from hpcmgr.slurm.accounts import Accounts
from hpcmgr.slurm.state import NodeState
from hpcmgr.submit.pool import Pool
from hpcmgr.submit.view import ClusterView

_STATES, _NAMES = 8, 200
"""In one piece: some tenths of a millisecond to read."""

Names = dict[int, tuple[str, object]]
"""Identity of an object → its kind and key, by which the other end knows it."""


def dumps(message: tuple[str, object], names: Names | None = None) -> bytes:
    """A piece; what has a name goes by it."""
    buffer = io.BytesIO()
    _Pickler(buffer, names or {}).dump(message)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, names: Names) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._names = names

    def persistent_id(self, obj: object) -> tuple[str, object] | None:
        return self._names.get(id(obj))


class ViewWriter:
    """The sending end."""

    def __init__(self, library: ProfileLibrary) -> None:
        self._profiles: Names = {id(p): ("profile", p.name) for p in library.profiles}
        self._sent: dict[str, Mapping[Any, object]] = {}

    def pieces(self, view: ClusterView) -> Iterator[bytes]:
        """All that the other end lacks of ``view``, its last piece last."""
        names, state = dict(self._profiles), view.state
        yield from self._changed("node", {node.name: node for node in state.nodes}, names)
        yield from self._accounts(state.accounts, names)
        pools = [pool for _, pools in view.types for pool in pools]
        if pools:
            yield from self._changed("leaves", {"": pools[0].leaf_of}, names)
        for profile, pools_of_it in view.types:
            for pool in pools_of_it:
                yield from _pool(pool, names)
            yield dumps(("type", profile), names)
        bare_state = replace(state, nodes=(), pending=())
        bare = replace(view, state=bare_state, types=(), expected=None, memo={})
        yield dumps(("view", bare), names)

    def _accounts(self, accounts: Accounts | None, names: Names) -> Iterator[bytes]:
        if accounts is not None:
            yield from self._changed("association", accounts.associations, names)
            yield from self._changed("accounts", {"": accounts}, names)

    def _changed(self, kind: str, things: Mapping[Any, object], names: Names) -> Iterator[bytes]:
        """Pieces with those that the other end does not have so; all have names from now on."""
        sent = self._sent.get(kind, {})
        changed = [item for item in things.items() if sent.get(item[0]) != item[1]]
        for part in _parts(changed, _STATES):
            yield dumps(("put", (kind, part)), names)
        for part in _parts(list(sent.keys() - things.keys()), _NAMES):
            yield dumps(("drop", (kind, part)))
        self._sent[kind] = things
        names.update({id(thing): (kind, key) for key, thing in things.items()})


def _pool(pool: Pool, names: Names) -> Iterator[bytes]:
    for part in _parts([node.name for node in pool.nodes], _NAMES):
        yield dumps(("members", part))
    yield dumps(("pool", replace(pool, nodes=())), names)


def _parts(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part


class ViewReader:
    """The receiving end. Pieces come in their order; half a view is never seen."""

    def __init__(self, library: ProfileLibrary) -> None:
        self._known: defaultdict[str, dict[Any, Any]] = defaultdict(dict)
        self._known["profile"] = {p.name: p for p in library.profiles}
        self._members: list[NodeState] = []
        self._pools: list[Pool] = []
        self._types: list[tuple[DeviceProfile, tuple[Pool, ...]]] = []
        self.halfway = False
        """Whether pieces of the next view are here already."""

    def take(self, piece: bytes) -> tuple[str, Any] | None:
        """A message, such as ``("view", view)``; None for a piece of a view that is to come."""
        kind, value = _Unpickler(io.BytesIO(piece), self._known).load()
        if kind == "put":
            self._known[value[0]].update(value[1])
        elif kind == "drop":
            for key in value[1]:
                self._known[value[0]].pop(key, None)
        elif kind == "members":
            self._members += map(self._known["node"].__getitem__, value)
        elif kind == "pool":
            self._pools.append(replace(value, nodes=tuple(self._members)))
            self._members = []
        elif kind == "type":
            self._types.append((value, tuple(self._pools)))
            self._pools = []
        elif kind == "view":
            return kind, self._whole(value)
        else:
            return kind, value
        self.halfway = True
        return None

    def _whole(self, bare: ClusterView) -> ClusterView:
        nodes = tuple(self._known["node"].values())
        types, self._types = tuple(self._types), []
        self.halfway = False
        return replace(bare, state=replace(bare.state, nodes=nodes), types=types)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, known: Mapping[str, Mapping[Any, Any]]) -> None:
        super().__init__(file)
        self._known = known

    def persistent_load(self, pid: tuple[str, Any]) -> Any:
        return self._known[pid[0]][pid[1]]
