"""The topology that a class wants, and its fallback."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hpcmgr.admit import Decision, Policy
from hpcmgr.settings import Site
from tests.builders import A100, ASCEND, cluster, known, node, policy, submit

TWO = {"min_nodes": 2, "max_nodes": 2}
EIGHT = cluster(node("a1", gres={"gpu:a100": 8}), node("n1", gres={"npu:ascend910b3": 8}))


def rules(topology: str, **more: object) -> Policy:
    return policy(A100, ASCEND, classes={"near": {"topology": topology, **more}})


def becomes(decision: Decision) -> dict[str, str | int]:
    assert decision.rewrite is not None, decision.error
    return {k: v for k, v in decision.rewrite.set.items() if k != "admin_comment"}


class TestSameSocket:
    """Devices of one node on one socket: enforced, or the fallback."""

    @pytest.mark.parametrize("release", ["24.11.5", "26.05.5"])
    def test_several_gpus_are_asked_per_node_and_per_socket(self, release: str) -> None:
        """Seen on both: the job waits rather than span two sockets; the bit alone lets it."""
        state = cluster(*EIGHT.nodes, release=release)
        decision = submit(state, rules("same_socket", kinds=["gpu"]), "compute:near:16")

        assert becomes(decision) == {
            "gres": "gpu:a100:2,compute:16,vram:160",
            "tres_per_socket": "gres/gpu:a100:2",
            "sockets_per_node": 1,
            "num_tasks": 1,
        }
        assert decision.rewrite is not None
        assert decision.rewrite.enforce
        assert decision.rewrite.binding["fixed"] is True

    def test_one_device_lies_on_one_socket_anyway(self) -> None:
        """The bit alone puts it beside its cores."""
        done = becomes(submit(EIGHT, rules("same_socket", kinds=["gpu"]), "compute:near:8"))

        assert "tres_per_socket" not in done

    def test_a_type_that_can_goes_before_one_that_cannot(self) -> None:
        """Five A100 fit on no socket of four; eight NPUs of another machine do."""
        state = cluster(
            node("a1", gres={"gpu:a100": 8}),
            node("n1", gres={"npu:ascend910b3": 8},
                 sockets_of={"npu:ascend910b3": frozenset({1})},
                 used={"npu:ascend910b3": 8}),
        )  # fmt: skip
        decision = submit(state, rules("same_socket"), "compute:near:40")

        assert [c.name for c in decision.ranked] == ["ascend910b3"]
        [lost] = [c for c in decision.refused if c.name == "a100-80g"]
        assert lost.refused == "5 x gpu:a100 do not fit on one socket"

    def test_the_fallback_is_told_with_its_reason(self) -> None:
        """And the site's own note."""
        mine = rules("same_socket", kinds=["gpu"], fallback="spread", fallback_note="Ask us.")
        decision = submit(EIGHT, mine, "compute:near:40")
        done = decision.rewrite

        assert "tres_per_socket" not in becomes(decision)
        assert done is not None
        assert done.messages[-1] == (
            "the class wants the devices on one socket of each node, which cannot be (gpu:a100: "
            "5 x gpu:a100 do not fit on one socket): they may lie anywhere. Ask us."
        )

    def test_or_it_is_refused(self) -> None:
        """fallback: refuse."""
        mine = rules("same_socket", kinds=["gpu"], fallback="refuse")

        error = submit(EIGHT, mine, "compute:near:40").error
        assert "wants the devices on one socket of each node, which cannot be" in error

    def test_the_users_own_binding_stands(self) -> None:
        """--gres-flags=disable-binding: nothing is added."""
        job = {"tres_per_node": "compute:near:16", "bitflags": 1 << 19}
        done = submit(EIGHT, rules("same_socket", kinds=["gpu"]), job).rewrite

        assert done is not None
        assert not done.enforce
        assert "tres_per_socket" not in done.set
        assert len(done.messages) == 1


PAIRS = cluster(
    node("a1", gres={"gpu:a100": 1}),
    node("a2", gres={"gpu:a100": 1}),
    node("n1", gres={"npu:ascend910b3": 1}, used={"npu:ascend910b3": 1}),
    node("n2", gres={"npu:ascend910b3": 1}),
)
LEAVES = {"a1": "s1", "a2": "s2", "n1": "s1", "n2": "s1"}


class TestSameSwitch:
    """All nodes below one switch."""

    def test_a_type_with_enough_nodes_below_one_switch_goes_first(self) -> None:
        """Slurm is asked for one switch; the busy NPUs are below one, the free A100 are not."""
        decision = submit(
            PAIRS, rules("same_switch"), {"tres_per_node": "compute:near:8", **TWO},
            known=known(LEAVES),
        )  # fmt: skip

        assert becomes(decision)["req_switch"] == 1
        assert [c.name for c in decision.ranked] == ["ascend910b3"]

    @pytest.mark.parametrize("leaves", [{}, {"a1": "s1", "a2": "s2"}])
    def test_the_fallback(self, leaves: dict[str, str]) -> None:
        """No switch is known, or none has two of its nodes."""
        job = {"tres_per_node": "compute:near:8", **TWO}
        mine = {"kinds": ["gpu"]}
        spread = submit(PAIRS, rules("same_switch", **mine), job, known=known(leaves))
        refused = submit(
            PAIRS, rules("same_switch", fallback="refuse", **mine), job, known=known(leaves)
        )

        assert "req_switch" not in becomes(spread)
        assert spread.rewrite is not None
        assert "they may lie anywhere" in spread.rewrite.messages[-1]
        assert "below one switch, which cannot be" in refused.error

    def test_one_node_is_below_one_switch(self) -> None:
        """Nothing is asked."""
        assert "req_switch" not in becomes(submit(PAIRS, rules("same_switch"), "compute:near:8"))


@pytest.mark.parametrize(
    ("job_class", "why"),
    [
        ({"topology": "same_socket", "groups": [{}, {}]}, "different sockets"),
        ({"topology": "same_socket", "binding": "movable"}, "never bound so"),
    ],
)
def test_what_contradicts_itself_is_refused(job_class: dict[str, object], why: str) -> None:
    """When site.yaml is read."""
    with pytest.raises(ValidationError, match=why):
        Site.model_validate({"classes": {"near": job_class}})
