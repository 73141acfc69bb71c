"""All rules, in the order in which files are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hpcmgr.verify import (
    rules_autodetect,
    rules_cores,
    rules_counts,
    rules_gres,
    rules_shares,
    rules_slurm,
    rules_topology,
)
from hpcmgr.verify.configuration import Configuration
from hpcmgr.verify.finding import Finding

RULES: tuple[Callable[[Configuration], Iterator[Finding]], ...] = (
    *rules_slurm.RULES,
    *rules_gres.RULES,
    *rules_autodetect.RULES,
    *rules_counts.RULES,
    *rules_cores.RULES,
    *rules_shares.RULES,
    *rules_topology.RULES,
)


def apply_rules(configuration: Configuration) -> list[Finding]:
    """What the rules find, and what was wrong with the form of the files."""
    found = [finding for rule in RULES for finding in rule(configuration)]
    forms = [
        problem
        for conf in (
            configuration.slurm,
            configuration.gres,
            configuration.cgroup,
            configuration.topology,
        )
        for problem in conf.problems
    ]
    return [*forms, *configuration.problems, *found]
