"""Templates: several device groups on one node, and what is offered where no node holds them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hpcmgr.admit import Decision, Policy
from hpcmgr.settings import Site
from hpcmgr.slurm.state import ClusterState
from hpcmgr.submit.facts import DeviceFacts
from tests.builders import A100, ASCEND, H100, T4, cluster, device, known, node, policy, submit

GROUPS = [{"kinds": ["gpu"], "features": ["rdma"]}, {"kinds": ["npu"], "devices": 2}]


def rules(**more: object) -> Policy:
    return policy(A100, ASCEND, T4, H100, classes={"mixed": {"groups": GROUPS, **more}})


RULES = rules()
RDMA = frozenset({"rdma"})
MIXED = cluster(
    node("mix01", gres={"gpu:a100": 2, "npu:ascend910b3": 4}, features=RDMA),
    node("a01", gres={"gpu:h100": 8}, features=RDMA),
    node("n01", gres={"npu:ascend910b3": 8}),
)
APART = cluster(
    node("a01", gres={"gpu:a100": 8}, features=RDMA),
    node("a02", gres={"gpu:a100": 8}, features=RDMA),
    node("n01", gres={"npu:ascend910b3": 8}),
)
LINE = "sbatch -N1 --gres=gpu:a100:1{} : -N1 --gres=npu:ascend910b3:2 SCRIPT"
LEAVES = {"a01": "leaf1", "n01": "leaf1", "a02": "leaf2"}


def gres(decision: Decision) -> str:
    assert decision.rewrite is not None, decision.error
    return str(decision.rewrite.set["gres"])


@pytest.mark.parametrize(
    ("sets", "becomes"),
    [
        (1, "gpu:a100:1,npu:ascend910b3:2,compute:24,vram:208"),
        (2, "gpu:a100:2,npu:ascend910b3:4,compute:48,vram:416"),
    ],
)
def test_a_template_becomes_types_that_one_node_has_together(sets: int, becomes: str) -> None:
    """The count is the number of sets; units and memory of all groups are booked."""
    decision = submit(MIXED, rules(), f"compute:mixed:{sets}")
    done = decision.rewrite

    assert gres(decision) == becomes
    assert done is not None
    assert not done.enforce
    assert done.set["features"] == "rdma"
    assert done.messages[0].startswith(
        f"compute:mixed:{sets} becomes {sets} x gpu:a100 + {2 * sets} x npu:ascend910b3: "
    )
    assert not any("units are booked" in line for line in done.messages)
    record = json.loads(str(done.set["admin_comment"]).removeprefix("hpcmgr:"))["binding"]
    assert (record["gres"], record["beside"]) == ("gpu:a100", {"npu:ascend910b3": 2 * sets})


def test_cpus_and_memory_of_all_its_devices_are_added_up() -> None:
    """A user who gives none gets what the site sets for each of its devices."""
    gpu = device("a100-80g", "gpu:a100", 8, 80, cpus_per_device=4, mem_per_device_mib=100)
    npu = device("ascend910b3", "npu:ascend910b3", 8, 64, runtime="cann", vendor="huawei",
                 cpus_per_device=2, mem_per_device_mib=10)  # fmt: skip
    mine = policy(gpu, npu, classes={"mixed": {"groups": GROUPS}})
    done = submit(MIXED, mine, "compute:mixed:1").rewrite

    assert done is not None
    assert (done.set["cpus_per_task"], done.set["min_mem_per_node"]) == (8, 120)


def test_groups_that_become_one_type_are_added_up() -> None:
    """Two groups of gpu on an A100 node are two A100."""
    mine = policy(A100, classes={"pair": {"groups": [{"kinds": ["gpu"]}, {"kinds": ["gpu"]}]}})
    state = cluster(node("a01", gres={"gpu:a100": 2}))

    assert gres(submit(state, mine, "compute:pair:1")) == "gpu:a100:2,compute:16,vram:160"


def test_of_several_combinations_the_better_is_taken_and_all_are_told() -> None:
    """Candidates are combinations; the busy one loses."""
    state = cluster(
        node("mix01", gres={"gpu:a100": 1, "npu:ascend910b3": 2}, used={"npu:ascend910b3": 1},
             features=RDMA),
        node("mix02", gres={"gpu:h100": 1, "npu:ascend910b3": 2}, features=RDMA),
    )  # fmt: skip
    decision = submit(state, rules(), "compute:mixed:1")

    assert [c.name for c in decision.ranked] == ["h100-80g+ascend910b3", "a100-80g+ascend910b3"]
    assert decision.ranked[1].terms["free_now"] == 0.0


class TestNoNodeHoldsIt:
    """The fallback is the template's."""

    @pytest.mark.parametrize(
        ("fallback", "leaves", "told"),
        [
            ("same_switch", LEAVES, f"below switch leaf1 it is: {LINE.format(' --exclude=a02')}"),
            ("same_switch", {"a01": "leaf1", "a02": "leaf1", "n01": "leaf2"}, None),
            ("same_switch", {}, None),
            ("spread", {}, f"On different nodes it is: {LINE.format('')}"),
            ("refuse", LEAVES, None),
        ],
    )  # fmt: skip
    def test_the_line_for_different_nodes_is_offered_or_not(
        self, fallback: str, leaves: dict[str, str], told: str | None
    ) -> None:
        """Below one switch where there is one with nodes for all groups."""
        decision = submit(
            APART, rules(fallback=fallback), "compute:mixed:1", known=known(leaves)
        )  # fmt: skip

        assert "no node has 1 x gpu:a100 + 2 x npu:ascend910b3 together" in decision.error
        assert ("sbatch" in decision.error) is (told is not None)
        assert (told or "") in decision.error

    def test_the_sites_own_note_is_told(self) -> None:
        """fallback_note."""
        mine = rules(fallback="spread", fallback_note="Ask the help desk.")

        assert submit(APART, mine, "compute:mixed:1").error.endswith("Ask the help desk.")

    def test_a_busy_template_waits_and_is_told_what_could_start_at_once(self) -> None:
        """The job is taken: only its user knows whether the network will do."""
        state = cluster(
            node("mix01", gres={"gpu:a100": 1, "npu:ascend910b3": 2},
                 used={"npu:ascend910b3": 2}, features=RDMA),
            *APART.nodes,
        )  # fmt: skip
        done = submit(state, rules(), "compute:mixed:1", known=known(LEAVES)).rewrite

        assert done is not None
        assert "below switch leaf1 it could start at once: sbatch -N1" in done.messages[-1]


@pytest.mark.parametrize("request_", ["compute:mixed:1,vram:80", "vram:80"])
def test_a_template_is_asked_in_sets_alone(request_: str) -> None:
    """Total memory of several types means nothing."""
    mine = policy(
        A100, ASCEND, classes={"mixed": {"groups": GROUPS}, "default": {"groups": GROUPS}}
    )

    assert "sets of its device groups" in submit(MIXED, mine, request_).error


def test_a_group_needs_its_own_memory_and_runtime_version() -> None:
    """What the class says holds for every group, and the group's besides."""
    groups = [{"kinds": ["gpu"], "needs": {"cuda": ">=12.4"}, "memory_per_device_gib": 60},
              {"kinds": ["npu"]}]  # fmt: skip
    mine = policy(A100, ASCEND, T4, classes={"mixed": {"groups": groups}})
    state = cluster(
        node("m1", gres={"gpu:t4": 1, "npu:ascend910b3": 1}),
        node("m2", gres={"gpu:a100": 1, "npu:ascend910b3": 1}),
    )
    decision = submit(state, mine, "compute:mixed:1", known=known(m1={"gpu:t4": DeviceFacts()}))

    assert [c.name for c in decision.ranked] == ["a100-80g+ascend910b3"]
    assert any("serves cuda >=12.4 is not known" in line
               for line in (decision.rewrite.messages if decision.rewrite else ()))  # fmt: skip


def test_a_template_counts_devices_in_its_groups() -> None:
    """Two ways to say it would be one too many."""
    with pytest.raises(ValidationError, match="counts devices in its groups"):
        Site.model_validate({"classes": {"m": {"groups": GROUPS, "devices_max": 2}}})


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 6)), max_size=5),
    st.integers(1, 3),
)
def test_what_a_template_becomes_fits_on_some_node(
    shapes: list[tuple[int, int, int]], sets: int
) -> None:
    """Or it is refused with a text."""
    names = ("gpu:a100", "gpu:t4", "npu:ascend910b3")
    nodes = [
        node(f"n{i}", gres={k: c for k, c in zip(names, counts, strict=True) if c}, features=RDMA)
        for i, counts in enumerate(shapes)
    ]
    state: ClusterState = cluster(*nodes)
    decision = submit(state, RULES, f"compute:mixed:{sets}")

    if decision.rewrite is None:
        assert decision.error
        return
    parts = decision.ranked[0].parts
    assert any(all(n.gres.get(p.gres, 0) >= p.devices for p in parts) for n in nodes)
    assert sum(p.devices for p in parts) == 3 * sets
