"""Who may use what: partitions by account and QOS, nodes that a department keeps for itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from hpcmgr.admit import Policy
from hpcmgr.slurm.accounts import Accounts, parse_accounts
from hpcmgr.slurm.partition import Partition
from hpcmgr.slurm.state import ClusterState
from hpcmgr.submit.access import Access, Asker, may_use
from tests.builders import A100, ASCEND, cluster, node, policy, submit

ASSOCIATIONS = """\
root||||normal||||
science|||root|normal||||
science|alice|||normal,small||||
phys|||science|normal||||
phys|alice|||normal|small|||
chem|||root|normal||||
chem|carol|||normal,small||||
"""
QOS = "normal||||||\nsmall||||||\n"
USERS = "alice|science\ncarol|chem\n"
ENFORCED = frozenset({"associations", "limits", "qos"})
KNOWN = parse_accounts(ENFORCED, ASSOCIATIONS, QOS, USERS)
RULES = policy(A100, ASCEND)


def partition(name: str, **more: object) -> Partition:
    return Partition(name, **more)  # type: ignore[arg-type]


def state(*partitions: Partition, accounts: Accounts | None = KNOWN) -> ClusterState:
    """An A100 node in every partition, an NPU node in ``main`` alone."""
    names = tuple(p.name for p in partitions)
    nodes = cluster(
        node("a01", gres={"gpu:a100": 1}, partitions=names),
        node("n01", gres={"npu:ascend910b3": 1}),
    )
    return replace(nodes, partitions=partitions, accounts=accounts)


def job(**fields: object) -> dict[str, object]:
    return {"tres_per_node": "compute:8", "user_name": "alice", **fields}


def becomes(where: ClusterState, fields: Mapping[str, object], rules: Policy = RULES) -> str:
    decision = submit(where, rules, fields)
    return str(decision.rewrite.set["gres"]) if decision.rewrite else decision.error


MAIN = partition("main", default=True)


@pytest.mark.parametrize(
    ("allowed", "account", "open_"),
    [
        ("science", "science", True),
        ("science", "phys", True),
        ("science", "PHYS", True),
        ("phys", "science", False),
        ("chem", "science", False),
        ("chem,phys", "phys", True),
    ],
)
def test_an_allowed_account_counts_with_those_below_it(
    allowed: str, account: str, open_: bool
) -> None:
    """As Slurm does it; account names have no case."""
    where = state(partition("p", allow_accounts=frozenset(allowed.split(","))))

    access = may_use(where, Asker("alice", account))

    assert access.open == ({"p"} if open_ else set())
    assert (access.missing(frozenset({"p"})) == "") is open_


def test_a_denied_account_denies_those_below_it_unless_some_are_allowed() -> None:
    """DenyAccounts says nothing beside AllowAccounts."""
    denied = frozenset({"science"})
    where = state(
        partition("d", deny_accounts=denied),
        partition("b", deny_accounts=denied, allow_accounts=frozenset({"phys"})),
    )

    assert may_use(where, Asker("alice", "phys")).open == {"b"}
    assert may_use(where, Asker("carol", "chem")).open == {"d"}


def test_without_an_account_the_default_one_counts() -> None:
    """As slurmctld tells it, or else as slurmdbd does."""
    where = state(MAIN, partition("p", allow_accounts=frozenset({"science"})))

    assert "gpu:a100" in becomes(where, job(partition="p"))
    assert "gpu:a100" in becomes(where, job(partition="p", default_account="phys"))
    error = becomes(where, job(partition="p", user_name="carol"))
    assert error == "the job can run nowhere: partition p does not take account chem"


def test_who_is_not_known_is_slurms_to_judge() -> None:
    """No accounts, an unknown account, no enforcement: nothing is refused."""
    shut = partition("main", default=True, allow_accounts=frozenset({"chem"}))

    assert "gpu:a100" in becomes(state(shut, accounts=None), job())
    assert "gpu:a100" in becomes(state(shut), job(account="new"))
    assert "gpu:a100" in becomes(state(shut), job(user_name="stranger"))


def test_qos_by_name_by_default_and_where_slurm_does_not_check_it() -> None:
    """The association's default QOS counts where the job names none."""
    shut = partition("p", allow_qos=frozenset({"small"}))
    unchecked = replace(KNOWN, enforced=frozenset({"associations"}))

    def open_to(account: str, qos: str = "", accounts: Accounts = KNOWN) -> bool:
        return may_use(state(shut, accounts=accounts), Asker("alice", account, qos)).open == {"p"}

    assert open_to("science", "small")
    assert not open_to("science", "normal")
    assert not open_to("science")
    assert open_to("phys")
    assert open_to("science", accounts=unchecked)


def test_groups_count_only_where_they_are_known() -> None:
    """slurmctld's plugin is not told a user's groups; a command of his own knows them."""
    where = state(partition("g", allow_groups=frozenset({"staff"})))

    assert may_use(where, Asker("alice")).open == {"g"}
    assert may_use(where, Asker("alice", groups=frozenset({"staff", "x"}))).open == {"g"}
    barred = may_use(where, Asker("alice", groups=frozenset({"x"}))).barred
    assert barred == {"g": "partition g takes only the groups staff"}


def test_of_several_partitions_one_that_can_run_it_is_enough() -> None:
    """A type that only the barred partition has is out, with the reason."""
    where = state(MAIN, partition("p", allow_accounts=frozenset({"chem"})))
    far = replace(
        where,
        nodes=(replace(where.nodes[0], partitions=("p",)), where.nodes[1]),
    )

    decision = submit(far, RULES, job(partition="p,main"))

    assert decision.rewrite is not None
    assert str(decision.rewrite.set["gres"]).startswith("npu:")
    assert [c.refused for c in decision.refused] == ["partition p does not take account science"]


def test_a_closed_partition_takes_no_jobs_and_one_that_is_down_lets_them_wait() -> None:
    """DRAIN and INACTIVE refuse, DOWN queues; as Slurm."""
    for closed in ("DRAIN", "INACTIVE"):
        where = state(partition("main", default=True, state=closed))
        assert f"takes no jobs (it is {closed.lower()})" in becomes(where, job())
    assert "gpu:a100" in becomes(state(partition("main", default=True, state="DOWN")), job())


def test_time_and_width_choose_between_partitions_but_refuse_nothing() -> None:
    """Alone it is for Slurm to say; beside another, its nodes do not count."""
    short = partition("short", max_minutes=60, max_nodes=1)
    where = state(MAIN, short)
    far = replace(where, nodes=(replace(where.nodes[0], partitions=("short",)), where.nodes[1]))

    assert "gpu:a100" in becomes(far, job(partition="short", time_limit=61))
    assert "gpu:a100" in becomes(far, job(partition="short,main", time_limit=60))
    assert becomes(far, job(partition="short,main", time_limit=61)).startswith("npu:")
    wide = job(partition="short,main", min_nodes=2)
    reasons = [c.refused for c in submit(far, RULES, wide).refused]
    assert "partition short takes jobs of 1 nodes at most" in reasons


def test_a_qos_may_lift_the_limits_of_the_partition() -> None:
    """PartitionTimeLimit and PartitionMaxNodes."""
    lifting = parse_accounts(ENFORCED, ASSOCIATIONS, "small|PartitionTimeLimit|||||\n", USERS)
    where = state(MAIN, partition("short", max_minutes=60), accounts=lifting)
    far = replace(where, nodes=(replace(where.nodes[0], partitions=("short",)), where.nodes[1]))
    long = job(partition="short,main", time_limit=61)

    assert becomes(far, long).startswith("npu:")
    assert "gpu:a100" in becomes(far, {**long, "qos": "small"})


OWNED = policy(
    A100,
    ASCEND,
    nodes=[{"nodes": "a01", "department": "physics"}, {"nodes": "n01", "project": "gravity"}],
    departments={"physics": {"accounts": ["phys"]}},
    projects={"gravity": {"accounts": ["science"]}},
)


def test_nodes_of_a_department_serve_its_accounts_only() -> None:
    """And those below them; others are told whose the nodes are."""
    where = state(MAIN)

    assert "gpu:a100" in becomes(where, job(account="phys"), OWNED)
    assert becomes(where, job(account="science"), OWNED).startswith("npu:")
    error = becomes(where, job(account="chem", user_name="carol"), OWNED)
    assert "gpu:a100: its nodes serve only phys, not account chem" in error
    assert "What would fit" not in error


def test_ownership_is_not_held_against_an_unknown_account() -> None:
    """Slurm's partitions are what keeps others off."""
    assert "gpu:a100" in becomes(state(MAIN, accounts=None), job(), OWNED)


def test_of_department_and_project_both_must_agree() -> None:
    """A node that has two owners serves accounts that are both's."""
    access = Access(frozenset({"main"}), {}, ("phys", "science", "root"))
    physics, gravity = frozenset({"phys"}), frozenset({"grav"})

    assert access.missing(frozenset({"main"}), (physics,)) == ""
    assert "serve only grav" in access.missing(frozenset({"main"}), (gravity, physics))


def test_what_open_nodes_lack_and_why_others_are_shut_are_told_together() -> None:
    """Counts are those of open nodes."""
    shut = partition("p", allow_accounts=frozenset({"chem"}))
    far = [node(f"p{i}", gres={"gpu:a100": 8}, partitions=("p",)) for i in range(3)]
    where = state(MAIN, shut)
    near = node("a01", gres={"gpu:a100": 4})
    where = replace(where, nodes=(near, *far))

    error = becomes(where, job(tres_per_node="compute:a100:40", partition="p,main"))

    assert (
        "gpu:a100: at most 4 on a node, 5 needed; partition p does not take account science"
    ) in error
