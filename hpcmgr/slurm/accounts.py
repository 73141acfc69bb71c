"""Accounts, associations and QOS with their limits, as ``sacctmgr -n -P`` prints them.

A limit of a TRES: ``{"gres/compute": 8, "cpu": 4}``, memory in MiB; what is not in it is not
limited. Asks nothing itself (reader.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

Limit = Mapping[str, int]
_COUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")


@dataclass(frozen=True, slots=True)
class Qos:
    """One QOS. ``per_user`` and ``per_account`` bound the running jobs of one, ``group`` those of
    all."""

    name: str
    flags: frozenset[str] = frozenset()
    per_job: Limit = field(default_factory=dict)
    per_node: Limit = field(default_factory=dict)
    per_user: Limit = field(default_factory=dict)
    per_account: Limit = field(default_factory=dict)
    group: Limit = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Association:
    """An account (``user`` is ""), or a user in it, perhaps for one partition alone. ``per_job``
    and ``per_node`` with what is inherited; ``group`` bounds all running jobs here and below."""

    account: str
    user: str = ""
    partition: str = ""
    parent: str = ""
    qos: frozenset[str] = frozenset()
    default_qos: str = ""
    per_job: Limit = field(default_factory=dict)
    per_node: Limit = field(default_factory=dict)
    group: Limit = field(default_factory=dict)


@dataclass(frozen=True)
class Accounts:
    """What slurmdbd knows of one cluster. ``enforced``: words of AccountingStorageEnforce."""

    enforced: frozenset[str]
    associations: Mapping[tuple[str, str, str], Association] = field(default_factory=dict)
    qos: Mapping[str, Qos] = field(default_factory=dict)
    default_account: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def limited(self) -> bool:
        """Whether Slurm holds jobs to the limits."""
        return bool(self.enforced & {"limits", "safe", "all"})

    @cached_property
    def checks_qos(self) -> bool:
        """Whether Slurm holds jobs to their QOS."""
        return bool(self.enforced & {"qos", "all"})

    @cached_property
    def required(self) -> bool:
        """Whether Slurm takes no job of a user without an account."""
        words = {"associations", "limits", "safe", "qos", "wckeys", "all"}
        return bool(self.enforced & words)

    def find(self, account: str, user: str, partition: str = "") -> Association | None:
        """The association that counts for a user's job in a partition."""
        return self.associations.get((account, user, partition)) or self.associations.get(
            (account, user, "")
        )

    def lineage(self, account: str) -> tuple[str, ...]:
        """The account and all above it, itself first; empty if there is no such account."""
        found: list[str] = []
        above = self.associations.get((account, "", ""))
        while above is not None and above.account not in found:
            found.append(above.account)
            above = self.associations.get((above.parent, "", ""))
        return tuple(found)


def parse_accounts(
    enforced: frozenset[str], associations: str, qos: str, users: str = ""
) -> Accounts:
    """From the texts of three calls of sacctmgr, with the fields that reader.py asks for."""
    found = [
        Association(
            account, user, partition, parent,
            frozenset(q for q in names.split(",") if q), default,
            parse_limit(per_job), parse_limit(per_node), parse_limit(group),
        )
        for account, user, partition, parent, names, default, per_job, per_node, group
        in _rows(associations, 9)
    ]  # fmt: skip
    levels = [
        Qos(name, frozenset(flags.split(",")) - {""}, *map(parse_limit, limits))
        for name, flags, *limits in _rows(qos, 7)
    ]
    return Accounts(
        enforced,
        {(a.account, a.user, a.partition): a for a in found},
        {each.name: each for each in levels},
        {user: account for user, account in _rows(users, 2) if account},
    )


def _rows(text: str, cells: int) -> Iterator[list[str]]:
    for line in text.splitlines():
        row = line.split("|")
        if len(row) == cells:
            yield row


def parse_limit(text: str) -> dict[str, int]:
    """``cpu=8,gres/gpu:a100=0,mem=4G``; memory in MiB, all else as it counts."""
    limit: dict[str, int] = {}
    for part in text.split(",") if text else ():
        tres, _, count = part.partition("=")
        found = _COUNT.fullmatch(count)
        if found:
            power = " KMGTP".index(found[2] or " ")
            if tres == "mem":
                # sacctmgr prints MiB with their letter.
                power = max(0, power - 2)
            limit[tres] = int(float(found[1]) * 1024**power)
    return limit
