"""What somebody may use: partitions that let him in, nodes that are not other accounts' own.

Lenient where something is not known: Slurm has the last word. So a group is judged only where the
groups of the asker are given, and nothing where Slurm enforces no accounts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from hpcmgr.errors import RequestError
from hpcmgr.settings import Owners
from hpcmgr.slurm.accounts import Accounts, Association
from hpcmgr.slurm.partition import Names, Partition
from hpcmgr.slurm.state import ClusterState
from hpcmgr.submit.limits import Caps, caps_of
from hpcmgr.submit.messages import text
from hpcmgr.submit.request import JobFields


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks; "" and None: that is not known. ``qos`` is the one that was named."""

    user: str = ""
    account: str = ""
    qos: str = ""
    groups: Names | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """Partitions that are ``open`` to the asker, and why others are ``barred``; both empty: which
    partitions are meant is not known. ``lineage``: his account and those above it; ``caps``: what
    one job may take, by open partition; one that bounds nothing is not in it."""

    open: Names = frozenset()
    barred: Mapping[str, str] = field(default_factory=dict)
    lineage: tuple[str, ...] = ()
    caps: Mapping[str, Caps] = field(default_factory=dict)

    def bounds(self, partitions: Names) -> tuple[Caps, ...]:
        """What bounds him in each of these partitions; nothing where one of them lets him have
        anything."""
        names = self.open & partitions
        if not names <= self.caps.keys():
            return ()
        return tuple(self.caps[name] for name in sorted(names))

    def elsewhere(self, partitions: Names) -> bool:
        """Whether none of these partitions is one that was asked for."""
        return self.open.isdisjoint(partitions) and self.barred.keys().isdisjoint(partitions)

    def missing(self, partitions: Names, owners: Owners = ()) -> str:
        """Why a node in these partitions, owned so, does not serve him; "" if it does."""
        if (self.barred or self.open) and self.open.isdisjoint(partitions):
            why = next((w for name, w in self.barred.items() if name in partitions), "")
            asked = ", ".join(sorted(self.open or self.barred))
            return why or text("not_in_partition", partitions=asked)
        for accounts in owners:
            if self.lineage and accounts.isdisjoint(self.lineage):
                only = ", ".join(sorted(accounts))
                return text("owned", accounts=only, account=self.lineage[0])
        return ""


def may_use(state: ClusterState, who: Asker, partitions: Collection[str] | None = None) -> Access:
    """What of the cluster is open to ``who``: of ``partitions``, or of all there are."""
    who = with_defaults(who, state.accounts)
    known = {partition.name: partition for partition in state.partitions}
    barred: dict[str, str] = {}
    open_: list[str] = []
    caps: dict[str, Caps] = {}
    for name in sorted(known if partitions is None else partitions):
        # One that was made after the picture was taken is Slurm's to judge.
        why = _why_not(known[name], who, state.accounts) if name in known else ""
        if why:
            barred[name] = why
        else:
            open_.append(name)
            if name in known:
                qos = qos_of(who, state.accounts, name) if state.accounts else ""
                mine = caps_of(known[name], who.account, who.user, qos, state.accounts)
                if mine.job or mine.node:
                    caps[name] = mine
    lineage = state.accounts.lineage(who.account) if state.accounts else ()
    return Access(frozenset(open_), barred, lineage, caps)


def with_defaults(who: Asker, accounts: Accounts | None) -> Asker:
    """The same with the account that Slurm takes where none is named."""
    account = who.account.lower()
    if not account and accounts:
        account = accounts.default_account.get(who.user, "")
    return Asker(who.user, account, who.qos, who.groups)


def qos_of(who: Asker, accounts: Accounts, partition: str) -> str:
    """The QOS of his job in a partition, named or by default; "" if it cannot be told."""
    if who.qos:
        return who.qos
    mine = accounts.find(who.account, who.user, partition)
    if mine is None:
        return ""
    return mine.default_qos or _only(mine) or _default_of_all(accounts) or "normal"


def _only(mine: Association) -> str:
    return next(iter(mine.qos)) if len(mine.qos) == 1 else ""


def _default_of_all(accounts: Accounts) -> str:
    root = accounts.associations.get(("root", "", ""))
    return root.default_qos if root else ""


def _why_not(partition: Partition, who: Asker, accounts: Accounts | None) -> str:
    name = partition.name
    if partition.state in {"DRAIN", "INACTIVE"}:
        return text("partition_closed", partition=name, state=partition.state.lower())
    if accounts and not _lets_in_account(partition, accounts.lineage(who.account)):
        return text("account_barred", partition=name, account=who.account)
    if accounts and accounts.checks_qos:
        qos = qos_of(who, accounts, name)
        if qos and not _lets_in(qos, partition.allow_qos, partition.deny_qos):
            return text("qos_barred", partition=name, qos=qos)
    groups = partition.allow_groups
    if groups is not None and who.groups is not None and groups.isdisjoint(who.groups):
        return text("group_barred", partition=name, groups=", ".join(sorted(groups)))
    return ""


def _lets_in_account(partition: Partition, lineage: Iterable[str]) -> bool:
    """An account counts with all below it, allowed or denied; as in Slurm, who allows some denies
    the others, and what is denied then says nothing."""
    mine = set(lineage)
    if not mine:
        return True
    if partition.allow_accounts is not None:
        return not partition.allow_accounts.isdisjoint(mine)
    return partition.deny_accounts.isdisjoint(mine)


def _lets_in(word: str, allowed: Names | None, denied: Names) -> bool:
    return word in allowed if allowed is not None else word not in denied


def access_of(fields: JobFields, state: ClusterState) -> Access:
    """What of the cluster is open to a job: of several partitions those that can take its time and
    its number of nodes, if any can; where none can, Slurm lets it wait or refuses it.

    Raises:
        RequestError: no partition of the job lets it in.
    """
    who = asker_of(fields)
    access = may_use(state, who, partitions_of(fields, state))
    if access.barred and not access.open:
        raise RequestError(text("no_access", why="; ".join(access.barred.values())))
    if len(access.open) < 2:
        return access
    beyond = {
        partition.name: why
        for partition in state.partitions
        if partition.name in access.open
        and (why := _beyond(partition, fields, with_defaults(who, state.accounts), state.accounts))
    }
    if len(beyond) == len(access.open):
        return access
    barred = {**access.barred, **beyond}
    return replace(access, open=access.open - beyond.keys(), barred=barred)


def partitions_of(fields: JobFields, state: ClusterState) -> set[str]:
    """Partitions that the job may run in; empty if that is not known."""
    asked = {p for p in fields.string("partition").split(",") if p}
    if asked:
        return asked
    default = state.default_partition
    return {default} if default else set()


def _beyond(partition: Partition, fields: JobFields, who: Asker, accounts: Accounts | None) -> str:
    """Why the job is too long or too wide for the partition, unless its QOS lifts that."""
    qos = accounts.qos.get(qos_of(who, accounts, partition.name)) if accounts else None
    lifted = qos.flags if qos else frozenset()
    minutes, most = fields.number("time_limit"), partition.max_minutes
    if minutes and most is not None and minutes > most and "PartitionTimeLimit" not in lifted:
        return text("too_long", partition=partition.name, most=most)
    nodes = partition.max_nodes
    if nodes is not None and fields.nodes > nodes and "PartitionMaxNodes" not in lifted:
        return text("too_wide", partition=partition.name, most=nodes)
    return ""


def asker_of(fields: JobFields) -> Asker:
    """Who submits, as slurmctld tells it."""
    account = fields.string("account") or fields.string("default_account")
    return Asker(fields.string("user_name"), account, fields.string("qos"))
