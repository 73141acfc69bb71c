"""The score's terms: each for itself, and what must hold of all."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.admit import Decision
from hpcmgr.profile import load_library
from hpcmgr.profile.performance import PACKAGED
from hpcmgr.settings import Weights
from hpcmgr.slurm.state import NodeState, PendingJob
from hpcmgr.submit.facts import DeviceFacts
from hpcmgr.submit.score import TERMS
from tests.builders import A100, ASCEND, H100, T4, cluster, device, known, node, policy, submit

RULES = policy(A100, ASCEND, T4, H100)
P100, V100 = (p for p in load_library().profiles if p.name in {"p100-16g", "v100-16g"})


def terms(decision: Decision, name: str) -> dict[str, float]:
    [found] = [c for c in decision.ranked if c.name == name]
    return dict(found.terms)


def test_every_term_has_a_weight_and_a_unit_and_every_weight_a_term() -> None:
    """The journal shows value, weight and unit of each."""
    assert set(Weights.model_fields) == set(TERMS)


class TestSpeed:
    """Measured speed of a workload, not peak figures."""

    def test_p100_beats_v100_at_just_the_workloads_where_it_was_measured_faster(self) -> None:
        """Gavel: 8 of 26, though a V100 has six times the peak."""
        rows = list(csv.DictReader(
            line for line in PACKAGED.read_text().splitlines() if not line.startswith("#")
        ))  # fmt: skip
        workloads = sorted({row["workload"] for row in rows})
        measured = {(r["workload"], r["profile"]): float(r["speed"]) for r in rows}
        rules = policy(P100, V100, classes={w: {"workload": w} for w in workloads})
        state = cluster(node("p1", gres={"gpu:p100": 1}), node("v1", gres={"gpu:v100": 1}))

        faster = []
        for workload in workloads:
            decision = submit(state, rules, f"compute:{workload}:1")
            p100, v100 = (terms(decision, n)["speed"] for n in ("p100-16g", "v100-16g"))
            assert max(p100, v100) == 1.0
            faster += [workload] if p100 > v100 else []

        assert len(workloads) == 26
        assert faster == [w for w in workloads if measured[w, "p100-16g"] > measured[w, "v100-16g"]]
        assert len(faster) == 8
        assert (P100.peak.bf16_dense_tflops or 0) < (V100.peak.bf16_dense_tflops or 0)

    def test_what_nobody_measured_is_estimated_from_its_units_and_told(self) -> None:
        """On the scale of the measured ones: three V100 worth of units are three times as fast."""
        big = device("big", "gpu:big", 3 * (V100.booked_units or 0), 80)
        rules = policy(V100, big, classes={"resnet": {"workload": "resnet-50-b64"}})
        state = cluster(node("v1", gres={"gpu:v100": 1}), node("b1", gres={"gpu:big": 1}))
        decision = submit(state, rules, "compute:resnet:1")

        by_name = {c.name: c for c in decision.ranked}
        assert by_name["big"].estimated == ("speed",)
        assert by_name["v100-16g"].estimated == ()
        assert by_name["v100-16g"].terms["speed"] == pytest.approx(1 / 3)

    def test_devices_of_a_job_share_its_work(self) -> None:
        """Two of a type are twice as fast as one."""
        rules = policy(A100, H100, classes={"r": {"workload": "resnet-50-b64"}})
        state = cluster(node("a1", gres={"gpu:a100": 4}), node("h1", gres={"gpu:h100": 1}))

        assert terms(submit(state, rules, "compute:r:24"), "a100-80g")["speed"] == 24 / 25

    def test_without_a_workload_speed_does_not_count(self) -> None:
        """Units say what a device can do, not what the job gains."""
        state = cluster(node("a1", gres={"gpu:a100": 1}))

        assert "speed" not in terms(submit(state, RULES, "compute:8"), "a100-80g")


class TestLocality:
    """Devices of a job near each other."""

    @pytest.mark.parametrize(
        ("facts", "devices", "value"),
        [
            (DeviceFacts(domains=(4,), sockets=(2, 2)), 4, 1.0),
            (DeviceFacts(domains=(2, 2), sockets=(4,)), 4, 0.7),
            (DeviceFacts(domains=(2, 2), sockets=(2, 2)), 4, 0.3),
            (DeviceFacts(domains=(2, 2), sockets=(2, 2)), 2, 1.0),
            (DeviceFacts(sockets=(2, 2)), 2, 0.7),
            (DeviceFacts(sockets=(2, 2)), 1, 1.0),
        ],
    )
    def test_one_link_domain_is_best_then_one_socket(
        self, facts: DeviceFacts, devices: int, value: float
    ) -> None:
        """From the inventory's links and NUMA nodes."""
        state = cluster(node("a1", gres={"gpu:a100": 4}))
        decision = submit(
            state, RULES, f"compute:a100:{8 * devices}", known=known(a1={"gpu:a100": facts})
        )

        assert terms(decision, "a100-80g")["locality"] == value

    @pytest.mark.parametrize(("places", "value"), [({0}, 0.7), ({0, 1}, 0.3), (set(), 0.5)])
    def test_without_an_inventory_slurms_sockets_tell(self, places: set[int], value: float) -> None:
        """Slurm tells the sockets that devices lie on, or nothing."""
        state = cluster(
            node("a1", gres={"gpu:a100": 4}, sockets_of={"gpu:a100": frozenset(places)})
        )

        assert terms(submit(state, RULES, "compute:a100:24"), "a100-80g")["locality"] == value

    def test_several_nodes_below_one_switch_are_nearer(self) -> None:
        """Two A100 nodes hang on two leaves, two NPU nodes on one."""
        state = cluster(
            node("a1", gres={"gpu:a100": 1}),
            node("a2", gres={"gpu:a100": 1}),
            node("n1", gres={"npu:ascend910b3": 1}),
            node("n2", gres={"npu:ascend910b3": 1}),
        )
        leaves = {"a1": "s1", "a2": "s2", "n1": "s1", "n2": "s1"}
        job = {"tres_per_node": "compute:8", "min_nodes": 2, "max_nodes": 2}
        decision = submit(state, RULES, job, known=known(leaves))

        assert terms(decision, "a100-80g")["locality"] == 0.5
        assert terms(decision, "ascend910b3")["locality"] == 1.0


def test_the_best_fit_keeps_whole_nodes_free() -> None:
    """One device of a node with one left beats one of a node that is wholly free."""
    state = cluster(
        node("a1", gres={"gpu:a100": 4}, used={"gpu:a100": 3}),
        node("n1", gres={"npu:ascend910b3": 4}),
    )
    decision = submit(state, RULES, "compute:8")

    assert terms(decision, "a100-80g")["fragmentation"] == 1.0
    assert terms(decision, "ascend910b3")["fragmentation"] == 0.25


def test_the_cheaper_type_costs_less() -> None:
    """By price where the site sets one, else by units."""
    dear = device("a100-80g", "gpu:a100", 8, 80, price=4.0)
    cheap = device("ascend910b3", "npu:ascend910b3", 8, 64, price=1.0)
    state = cluster(node("a1", gres={"gpu:a100": 1}), node("n1", gres={"npu:ascend910b3": 1}))
    decision = submit(state, policy(dear, cheap), "compute:8")

    assert terms(decision, "a100-80g")["cost"] == 0.25
    assert terms(decision, "ascend910b3")["cost"] == 1.0
    assert terms(submit(state, RULES, "compute:8"), "a100-80g")["cost"] == 1.0


NODES = st.lists(
    st.tuples(st.sampled_from(["gpu:a100", "gpu:t4", "npu:ascend910b3"]), st.integers(1, 8),
              st.integers(0, 8), st.integers(0, 32)),
    min_size=1, max_size=6,
)  # fmt: skip


def built(shapes: list[tuple[str, int, int, int]]) -> list[NodeState]:
    return [
        node(f"n{i}", gres={gres: count}, used={gres: min(used, count)}, cpus_used=cpus)
        for i, (gres, count, used, cpus) in enumerate(shapes)
    ]


WAITING = st.lists(st.sampled_from(["gpu:a100", "gpu:t4", "npu:ascend910b3"]), max_size=5)


@given(NODES, st.integers(1, 40), WAITING)
def test_terms_lie_between_nothing_and_one_and_the_order_is_the_same_each_time(
    shapes: list[tuple[str, int, int, int]], units: int, waiting: list[str]
) -> None:
    """Whatever the cluster: and the order of its nodes does not matter."""
    pending = tuple(PendingJob(str(i), "main", 1, 1, f"gres/{gres}:1", queued=True)
                    for i, gres in enumerate(waiting))  # fmt: skip
    state = cluster(*built(shapes), pending=pending)
    again = replace(state, nodes=tuple(reversed(state.nodes)))
    first, second = (submit(each, RULES, f"compute:{units}") for each in (state, again))

    for candidate in first.ranked:
        assert all(0.0 <= value <= 1.0 for value in candidate.terms.values()), candidate.terms
    assert [(c.name, c.score) for c in first.ranked] == [(c.name, c.score) for c in second.ranked]


@given(NODES, st.integers(1, 40), WAITING, st.data())
def test_another_free_node_never_makes_its_type_worse(
    shapes: list[tuple[str, int, int, int]], units: int, waiting: list[str], data: st.DataObject
) -> None:
    """No term of the type falls, so its score does not."""
    pending = tuple(PendingJob(str(i), "main", 1, 1, f"gres/{gres}:1", queued=True)
                    for i, gres in enumerate(waiting))  # fmt: skip
    before = submit(cluster(*built(shapes), pending=pending), RULES, f"compute:{units}")
    if not before.ranked:
        return
    chosen = data.draw(st.sampled_from(before.ranked))
    free = node("z", gres={chosen.gres: data.draw(st.integers(1, 8))})
    after = submit(cluster(*built(shapes), free, pending=pending), RULES, f"compute:{units}")

    old, new = terms(before, chosen.name), terms(after, chosen.name)
    assert all(new[name] >= old[name] for name in old), (old, new)
