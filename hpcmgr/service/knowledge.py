"""What the service knows besides Slurm's own state, and the policy that it decides by.

Inventories are read in the background, only those that changed since; of each only what a decision
takes is kept. A broken file, or none at all, changes nothing: what was known stays.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

from hpcmgr.admit import Policy, make_policy
from hpcmgr.errors import ConfigError, InventoryError, Problem, collecting
from hpcmgr.inventory.store import load
from hpcmgr.profile import ProfileLibrary
from hpcmgr.profile.performance import load as load_table
from hpcmgr.profile.site import library_of
from hpcmgr.service.translation import load_texts
from hpcmgr.settings import Site
from hpcmgr.submit.facts import Known, NodeFacts, node_facts
from hpcmgr.submit.messages import translate

log = logging.getLogger(__name__)

_REST_SECONDS = 0.002
"""Between two files: answers come first."""

Stamp = tuple[int, int]


def policy_of(site: Site) -> Policy:
    """Everything that decisions rest on and that does not change while the service runs. The site's
    texts are used from now on.

    Raises:
        ConfigError: site.yaml, a profile, a performance table or the site's texts are wrong.
    """
    problems: list[Problem] = []
    with collecting(problems):
        if site.messages is not None:
            translate(load_texts(site.messages))
    with collecting(problems):
        table = load_table(site.performance)
    with collecting(problems):
        library = library_of(site)
    if not problems:
        for problem in table.unknown_profiles(library):
            log.warning("performance table: %s", problem)
        return make_policy(site, library, table)
    raise ConfigError(problems)


class Knowledge:
    """Facts of all nodes: read by one thread, looked at by any."""

    def __init__(self, site: Site, library: ProfileLibrary, rest: float = _REST_SECONDS) -> None:
        self._rest = rest
        self._site = site
        self._library = library
        self._seen: dict[str, Stamp] = {}
        self._facts: dict[str, NodeFacts] = {}
        self._equal: dict[frozenset[object], NodeFacts] = {}
        self._failing = ""
        self._leaves = leaves_of(site)
        self._owned = site.owned
        self.known = Known({}, self._leaves, self._owned)
        """What is known now; replaced as a whole."""

    def look(self) -> None:
        """Read the inventories that have changed since the last look."""
        problem = ""
        try:
            paths = sorted(p for p in self._site.inventory.glob("*.json") if p.name[0] != ".")
        except OSError as error:
            self._complain(f"{self._site.inventory}: {error.strerror}")
            return
        for path in paths:
            try:
                self._take(path)
            except (OSError, InventoryError) as error:
                problem = str(error)
        for node in set(self._seen) - {path.stem for path in paths}:
            del self._seen[node]
            self._facts.pop(node, None)
        self.known = Known(dict(self._facts), self._leaves, self._owned)
        self._complain(problem)

    def _take(self, path: Path) -> None:
        status = path.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        if self._seen.get(path.stem) == stamp:
            return
        self._seen[path.stem] = stamp
        facts = node_facts(load(path), self._library)
        # Nodes of a cluster are much alike: each sort is kept once.
        self._facts[path.stem] = self._equal.setdefault(frozenset(facts.items()), facts)
        if self._rest:
            time.sleep(self._rest)

    def _complain(self, problem: str) -> None:
        """Say once that an inventory cannot be read."""
        if problem and problem != self._failing:
            log.warning("inventory: %s", problem)
        self._failing = problem


def known_of(site: Site, library: ProfileLibrary) -> Known:
    """What one look at the inventories tells."""
    knowledge = Knowledge(site, library, rest=0)
    knowledge.look()
    return knowledge.known


def leaves_of(site: Site) -> dict[str, str]:
    """Node → the switch of site.yaml's fabric that it hangs on."""
    return {
        node: name for name, switch in site.fabric.items() if switch.nodes for node in switch.below
    }
