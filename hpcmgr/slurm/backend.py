"""Which reader of the cluster's state a site uses: Slurm's commands, or pyslurm in their place.

A reader is a function of the time that gives the ClusterState. pyslurm has a process of its own:
its import ends the process where no slurm.conf is found, and its calls hold Python's lock while
they wait for slurmctld, which may itself be waiting for the service's answer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from hpcmgr.errors import CommandError, ConfigError, Problem
from hpcmgr.slurm.command import run
from hpcmgr.slurm.reader import read_cluster, read_nodes, read_release
from hpcmgr.slurm.state import ClusterState, NodeState

ReaderName = Literal["commands", "pyslurm"]
ReadCluster = Callable[[float], ClusterState]

HOW_TO_INSTALL = (
    "install the pyslurm of this Slurm's release where hpcmgr is: SLURM_INCLUDE_DIR=… "
    "SLURM_LIB_DIR=… pip install 'hpcmgr[pyslurm]'; or leave slurm.reader at commands"
)


def open_reader(name: ReaderName, conf_dir: Path) -> ReadCluster:
    """The reader of that name; ``conf_dir`` is where slurm.conf lies unless SLURM_CONF says it.

    Raises:
        ConfigError: pyslurm is not installed, cannot be loaded or is of another release than Slurm.
        CommandError: scontrol does not tell Slurm's release.
    """
    if name == "commands":
        return read_cluster
    try:
        installed = version("pyslurm")
    except PackageNotFoundError:
        raise _refused("pyslurm is not installed") from None
    release = read_release()
    why = why_mismatched(installed, release)
    if why:
        raise _refused(why)
    reader = PyslurmReader(release, conf_dir / "slurm.conf")
    try:
        reader.probe()
    except CommandError as error:
        raise _refused(f"pyslurm {installed} cannot be loaded: {error.message}") from error
    return reader


def why_mismatched(installed: str, release: str) -> str:
    """Why pyslurm ``installed`` does not fit Slurm ``release``; "" if it does. They are of one
    release if year and month agree: pyslurm counts its own third number."""
    if installed.split(".")[:2] == [part.lstrip("0") for part in release.split(".")[:2]]:
        return ""
    return f"pyslurm {installed} is not of the release of Slurm {release}"


def _refused(why: str) -> ConfigError:
    return ConfigError([Problem(None, None, f"slurm.reader: {why}")], HOW_TO_INSTALL)


@dataclass(frozen=True, slots=True)
class Told:
    """What pyslurm tells; ``since``: when each node's slurmd started (seconds since 1970)."""

    state: ClusterState
    since: Mapping[str, int]


TOLD = TypeAdapter(Told)


class PyslurmReader:
    """Reads with pyslurm. It does not tell on which sockets a node's devices lie and which of them
    Slurm tells apart; both hold as long as its slurmd runs, and are asked from scontrol once."""

    def __init__(self, release: str, conf: Path) -> None:
        self._release = release
        self._env = {"SLURM_CONF": os.environ.get("SLURM_CONF", str(conf))}
        self._layout: dict[tuple[str, int], NodeState] = {}

    def probe(self) -> None:
        """Import pyslurm once.

        Raises:
            CommandError: it cannot be imported.
        """
        self._ask("probe")

    def __call__(self, now: float) -> ClusterState:
        """The state, as of ``now`` (time.monotonic).

        Raises:
            CommandError: pyslurm failed, or gave no answer in time.
        """
        text = self._ask("read")
        try:
            told = TOLD.validate_json(text)
        except ValidationError as error:
            raise CommandError(("pyslurm",), 0, f"not understood: {error}") from error
        nodes = self._complete(told)
        return replace(told.state, taken=now, release=self._release, nodes=nodes)

    def _ask(self, what: str) -> str:
        return run(sys.executable, "-m", "hpcmgr.slurm.withpyslurm", what, env=self._env).stdout

    def _complete(self, told: Told) -> tuple[NodeState, ...]:
        keys = [(node.name, told.since.get(node.name, 0)) for node in told.state.nodes]
        if any(key not in self._layout for key in keys):
            seen = {node.name: node for node in read_nodes()}
            self._layout = {key: seen[key[0]] for key in keys if key[0] in seen}
        return tuple(
            _with_layout(node, self._layout.get(key))
            for node, key in zip(told.state.nodes, keys, strict=True)
        )


def _with_layout(node: NodeState, layout: NodeState | None) -> NodeState:
    if layout is None:
        return node
    return replace(node, sockets_of=layout.sockets_of, indexed=layout.indexed)
