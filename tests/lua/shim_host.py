"""slurmctld as the shim sees it: a `slurm` table, job_desc proxies, sockets on a clock of its own.

Strings cross between Python and Lua byte by byte (latin-1), as they do between C and Lua.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lupa import lua51

LUA = Path(__file__).resolve().parents[2] / "lua"
SUCCESS, ERROR, INVALID_GRES = 0, -1, 2072
NO_VAL16, NO_VAL, NO_VAL64 = 65534, 4294967294, 18446744073709551614

_NO_VALS = {
    NO_VAL16: [
        "cores_per_socket",
        "cpus_per_task",
        "ntasks_per_node",
        "ntasks_per_socket",
        "ntasks_per_tres",
        "pn_min_cpus",
        "shared",
        "sockets_per_node",
        "threads_per_core",
    ],
    NO_VAL: [
        "het_job_offset",
        "max_cpus",
        "max_nodes",
        "min_cpus",
        "min_nodes",
        "num_tasks",
        "req_switch",
        "time_limit",
        "priority",
        "nice",
    ],
}
NUMBERS = {name: value for value, names in _NO_VALS.items() for name in names}
NUMBERS |= {"bitflags": 0, "user_id": 2001}
# These read as nil when unset, numbers though they are.
NUMBERS_OR_NIL = {"min_mem_per_cpu", "min_mem_per_node"}
STRINGS = frozenset(
    [
        "account",
        "admin_comment",
        "array_inx",
        "comment",
        "cpus_per_tres",
        "default_account",
        "exc_nodes",
        "features",
        "licenses",
        "mem_per_tres",
        "name",
        "partition",
        "qos",
        "req_nodes",
        "reservation",
        "script",
        "tres_bind",
        "tres_per_job",
        "tres_per_node",
        "tres_per_socket",
        "tres_per_task",
        "user_name",
        "wckey",
    ]
)
REQUESTS = ("tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task")

Behaviour = Callable[[bytes], Iterator[tuple[float, bytes]]]
"""What comes back for a request: pieces, each after so many seconds; then the end."""


class JobDesc:
    """Unset reads as nil or NO_VAL, writing nil raises, `gres` adds a prefix."""

    def __init__(self, **values: str | int) -> None:
        self.values: dict[str, str | int] = {"user_name": "ann", "script": "#!/bin/sh", **values}
        self.written: list[tuple[str, str | int]] = []
        self.reads: list[str] = []
        self.unknown_writes: list[str] = []
        self.failing_read: str | None = None
        self.failing_write: str | None = None

    def read(self, name: str) -> str | int | None:
        self.reads.append(name)
        if name == self.failing_read:
            raise RuntimeError(f"no {name} today")
        name = "tres_per_node" if name == "gres" else name
        return self.values.get(name, NUMBERS.get(name))

    def write(self, name: str, value: str | int | float | None) -> None:
        if name == self.failing_write:
            raise RuntimeError(f"no {name} today")
        if name not in STRINGS | NUMBERS.keys() | NUMBERS_OR_NIL | {"gres"}:
            self.unknown_writes.append(name)
            return
        is_number = name in NUMBERS or name in NUMBERS_OR_NIL
        if value is None or is_number != isinstance(value, int | float):
            raise TypeError(f"bad argument #3 ({name} = {value!r})")
        stored = int(value) if isinstance(value, int | float) else value
        self.written.append((name, stored))
        if name == "gres":
            name = "tres_per_node"
            stored = ",".join(f"gres/{item}" for item in str(stored).split(",") if item)
        if stored == "":
            self.values.pop(name, None)
        else:
            self.values[name] = stored

    def __getitem__(self, name: str) -> str | int | None:
        return self.values.get(name)


@dataclass
class Service:
    """The other end of the socket; `behaviour` None: nobody listens."""

    behaviour: Behaviour | None = None
    clock: float = 1000.0
    connects: int = 0
    open_sockets: int = 0
    requests: list[bytes] = field(default_factory=list)

    def answers(self, answer: object, delay: float = 0.0) -> None:
        line = answer if isinstance(answer, bytes) else json.dumps(answer).encode() + b"\n"

        def behaviour(_: bytes) -> Iterator[tuple[float, bytes]]:
            yield delay, line

        self.behaviour = behaviour

    @property
    def last_request(self) -> dict[str, Any]:
        request: dict[str, Any] = json.loads(self.requests[-1])
        return request


class Connection:
    """LuaSocket's stream object, as far as its manual says: limits in mode "t" are of one call."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._limit: float | None = None
        self._pieces: Iterator[tuple[float, bytes]] = iter(())
        self._next: tuple[float, bytes] | None = None
        self._buffer = b""
        self._ended = False
        service.open_sockets += 1

    def settimeout(self, limit: float, mode: str = "b") -> int:
        assert mode == "t", "a limit of one step can be stretched by trickling"
        assert limit >= 0, "a negative limit means for ever"
        self._limit = limit
        return 1

    def connect(self, path: str) -> Any:
        self._service.connects += 1
        if self._service.behaviour is None:
            return None, "connection refused"
        return 1

    def send(self, line: str) -> Any:
        self._service.requests.append(line.encode("latin-1"))
        assert self._service.behaviour is not None
        self._pieces = self._service.behaviour(line.encode("latin-1"))
        self._advance()
        return len(line)

    def _advance(self) -> None:
        piece = next(self._pieces, None)
        self._next = None if piece is None else (self._service.clock + piece[0], piece[1])
        self._ended = piece is None

    def _fill(self, wanted: int) -> str | None:
        assert self._limit is not None
        deadline = self._service.clock + self._limit
        while len(self._buffer) < wanted:
            if self._next is None:
                return "closed"
            if self._next[0] > deadline:
                self._service.clock = deadline
                return "timeout"
            self._service.clock = max(self._service.clock, self._next[0])
            self._buffer += self._next[1]
            self._advance()
        return None

    def receive(self, wanted: float) -> Any:
        fault = self._fill(int(wanted))
        got, self._buffer = self._buffer[: int(wanted)], self._buffer[int(wanted) :]
        text = got.decode("latin-1")
        return (None, fault, text) if fault else text

    def close(self) -> int:
        self._service.open_sockets -= 1
        return 1


_HOST = """
local host, is_there = ...
slurm = {
    SUCCESS = 0, ERROR = -1, ESLURM_INVALID_GRES = 2072, GRES_ENFORCE_BIND = 16,
    NO_VAL = 4294967294, NO_VAL16 = 65534, NO_VAL64 = 18446744073709551614,
    log_user = function(...) host.log("user", string.format(...)) end,
    log_info = function(...) host.log("info", string.format(...)) end,
    log_verbose = function(...) host.log("verbose", string.format(...)) end,
    log_error = function(...) host.log("error", string.format(...)) end,
}
local function connection()
    local conn, object = host.connection(), {}
    for _, name in ipairs({ "settimeout", "connect", "send", "receive", "close" }) do
        object[name] = function(_, ...) return conn[name](...) end
    end
    return object
end
local null = {}
if is_there("socket") then
    package.preload["socket"] = function()
        return { gettime = function() return host.clock() end }
    end
    package.preload["socket.unix"] = function() return { stream = connection } end
end
if is_there("cjson") then
    package.preload["cjson"] = function()
        return { null = null, decode = function(text) return host.decode(text, null) end }
    end
end
"""

_PROXY = """
local read, write = ...
return setmetatable({}, {
    __index = function(_, name) return read(name) end,
    __newindex = function(_, name, value) write(name, value) end,
})
"""


class Slurmctld:
    """One Lua state with the shim in it, and what it logs and tells the user."""

    def __init__(self, *, without: str = "", **settings: Any) -> None:
        self.service = Service()
        self.logs: list[tuple[str, str]] = []
        self.lua = lua51.LuaRuntime(encoding="latin-1", unpack_returned_tuples=True)
        host = self.lua.table_from(
            {
                "log": lambda level, text: self.logs.append((level, text)),
                "connection": self._connection,
                "clock": lambda: self.service.clock,
                "decode": self._decode,
            }
        )
        self.lua.execute(_HOST, host, lambda name: name != without)
        self.lua.execute(f'package.path = "{LUA}/?.lua"')
        # A module that lies on this machine is none of the test's.
        self.lua.execute('package.cpath = ""')
        self.hpcmgr = self.lua.require("hpcmgr.submit")
        if isinstance(self.hpcmgr, tuple):
            self.hpcmgr = self.hpcmgr[0]
        # By number: which users this machine has is none of the test's either.
        self.configure(**({"slurm_user": 64030} | settings))

    def configure(self, **settings: Any) -> None:
        self.hpcmgr.configure(self.lua.table_from(settings, recursive=True))

    def _connection(self) -> Any:
        conn = Connection(self.service)
        return self.lua.table_from(
            {
                name: getattr(conn, name)
                for name in ("settimeout", "connect", "send", "receive", "close")
            }
        )

    def _to_lua(self, value: Any, null: Any) -> Any:
        if value is None:
            return null
        if isinstance(value, dict):
            return self.lua.table_from(
                {self._to_lua(k, null): self._to_lua(v, null) for k, v in value.items()}
            )
        if isinstance(value, list):
            return self.lua.table_from([self._to_lua(item, null) for item in value])
        if isinstance(value, str):
            return value.encode("utf-8", "replace").decode("latin-1")
        if isinstance(value, int) and not isinstance(value, bool):
            return float(value) if abs(value) < 2**1023 else float("inf")
        return value

    def _decode(self, text: str, null: Any) -> Any:
        return self._to_lua(json.loads(text.encode("latin-1").decode("utf-8", "replace")), null)

    def submit(self, job: JobDesc, uid: int = 2001) -> int:
        return int(self.hpcmgr.submit(self.lua.execute(_PROXY, job.read, job.write), None, uid))

    def modify(self, update: JobDesc, record: dict[str, str], uid: int = 2001) -> int:
        proxy = self.lua.execute(_PROXY, update.read, update.write)
        return int(self.hpcmgr.modify(proxy, self.lua.table_from(record), None, uid))

    def lines(self, level: str) -> list[str]:
        return [text for at, text in self.logs if at == level]


def update_of(**values: str | int) -> JobDesc:
    """The job_desc of an update: nothing but what is changed."""
    update = JobDesc(**values)
    del update.values["script"]
    return update
