"""The reference site, telling what it does while it comes up."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from lightcluster.demo.screen import Screen
from lightcluster.enter import Spawned
from lightcluster.site import ReferenceSite


class DemoSite(ReferenceSite):
    """Each step of the start is one line with its seconds."""

    def __init__(
        self, release: str, machines: Mapping[str, str], name: str, screen: Screen
    ) -> None:
        super().__init__(release, machines, accounting=True, name=name)
        self._screen = screen
        self._syncing = 0.0

    def sync(self, node: str) -> None:
        """Told once for all nodes, when the files are rendered."""
        began = time.monotonic()
        super().sync(node)
        self._syncing += time.monotonic() - began

    def render(self) -> None:
        """The same, told."""
        self._screen.fact(f"{self._syncing:5.1f} s", f"hpcmgr sync on {len(self.nodes)} nodes")
        with timed(self._screen, "hpcmgr render on the controller"):
            super().render()

    def restart_slurm(self) -> None:
        """The same, told."""
        with timed(self._screen, "Slurm reads the files, every node is idle"):
            super().restart_slurm()

    def start_service(self) -> Spawned:
        """The same, told."""
        with timed(self._screen, "hpcmgr serve answers"):
            return super().start_service()

    def _start_daemons(self) -> None:
        what = "munge, MariaDB, slurmdbd, slurmctld and a slurmd for every node"
        with timed(self._screen, what):
            super()._start_daemons()


@contextmanager
def timed(screen: Screen, what: str) -> Iterator[None]:
    """A line with the seconds that it took."""
    began = time.monotonic()
    yield
    screen.fact(f"{time.monotonic() - began:5.1f} s", what)
