"""From request to rewrite: counts, candidates, scores, bindings, texts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.admit import Decision, Policy
from hpcmgr.profile import DeviceProfile
from hpcmgr.profile.slices import with_slices
from hpcmgr.slurm.partition import Partition
from hpcmgr.slurm.state import PendingJob, Reservation
from tests.builders import A100, ASCEND, H100, T4, cluster, device, node, policy, submit

TWO_TASKS = {"num_tasks": 2, "bitflags": 1 << 14, "min_nodes": 1, "max_nodes": 1}
RULES = policy(A100, ASCEND, T4, H100)
MIXED = cluster(
    node("mix01", gres={"gpu:a100": 1, "npu:ascend910b3": 2, "compute": 24, "vram": 208}),
    node("t401", gres={"gpu:t4": 4, "compute": 8, "vram": 64}),
)


def gres(decision: Decision) -> str:
    assert decision.rewrite is not None, decision.error
    return str(decision.rewrite.set["gres"])


@pytest.mark.parametrize(
    ("request_", "becomes"),
    [
        ("compute:8", "gpu:a100:1,compute:8,vram:80"),
        ("compute:npu:16", "npu:ascend910b3:2,compute:16,vram:128"),
        ("compute:cann:5", "npu:ascend910b3:1,compute:8,vram:64"),
        ("compute:huawei:8", "npu:ascend910b3:1,compute:8,vram:64"),
        ("compute:ascend910b3:8", "npu:ascend910b3:1,compute:8,vram:64"),
        ("compute:a100:8", "gpu:a100:1,compute:8,vram:80"),
        ("compute:cuda:1", "gpu:t4:1,compute:2,vram:16"),
        ("compute:12", "npu:ascend910b3:2,compute:16,vram:128"),
        ("compute:8,vram:each:40G", "gpu:a100:1,compute:8,vram:80"),
        ("compute:8,vram:100", "npu:ascend910b3:2,compute:16,vram:128"),
        ("vram:60", "npu:ascend910b3:1,compute:8,vram:64"),
    ],
)
def test_a_request_becomes_the_fewest_devices_that_fit_and_their_units(
    request_: str, becomes: str
) -> None:
    """Granted units are booked, not asked ones, and device memory with them."""
    assert gres(submit(MIXED, RULES, request_)) == becomes


def test_sixteen_units_are_two_big_devices_or_one_bigger_never_eight_small_ones() -> None:
    """At most one device for every 8 units begun."""
    many_t4 = cluster(node("t401", gres={"gpu:t4": 8}), node("a01", gres={"gpu:a100": 2}))
    only_t4 = cluster(node("t401", gres={"gpu:t4": 8}))

    assert gres(submit(many_t4, RULES, "compute:16")).startswith("gpu:a100:2,")
    assert "would take 8 devices" in submit(only_t4, RULES, "compute:16").error


def test_a_named_type_may_be_many_devices() -> None:
    """compute:t4:8 is four T4: the user said T4, and the rule is for those who did not."""
    assert gres(submit(MIXED, RULES, "compute:t4:8")) == "gpu:t4:4,compute:8,vram:64"


def test_every_offer_of_a_refusal_would_be_taken() -> None:
    """What would fit fits."""
    error = submit(MIXED, RULES, "compute:800").error
    offers = error.split("What would fit: ")[1].rstrip(".").split(", ")

    assert len(offers) == 3
    for offer in offers:
        assert submit(MIXED, RULES, offer).rewrite is not None, offer


def test_what_fits_nowhere_is_refused_with_what_would_fit() -> None:
    """The refusal names the reason of each type and the largest requests that could run."""
    error = submit(MIXED, RULES, "compute:800").error

    assert "compute:800: no device fits" in error
    assert "compute:a100:8" in error
    assert "compute:ascend910b3:16" in error


def test_an_unknown_selector_is_answered_with_the_nearest_name() -> None:
    """A slip of the pen gets its correction."""
    error = submit(MIXED, RULES, "compute:npuu:8").error

    assert "did you mean 'npu'?" in error
    assert "valid: a100, a100-80g, ascend910b3, cann, cuda, gpu, huawei, npu, nvidia, t4" in error


def test_a_busy_type_loses_against_a_free_one() -> None:
    """free_now: the A100 is taken, so the NPU gets the job."""
    busy = cluster(
        node("a01", gres={"gpu:a100": 1}, used={"gpu:a100": 1}),
        node("n01", gres={"npu:ascend910b3": 1}),
    )

    assert gres(submit(busy, RULES, "compute:8")).startswith("npu:")


def test_a_device_granted_a_moment_ago_is_not_counted_on_again() -> None:
    """Two submissions in one refresh do not both get the last free A100."""
    state = cluster(node("a01", gres={"gpu:a100": 1}), node("n01", gres={"npu:ascend910b3": 1}))

    assert gres(submit(state, RULES, "compute:8")).startswith("gpu:")
    assert gres(submit(state, RULES, "compute:8", {"gpu:a100": 1})).startswith("npu:")


def test_a_type_that_many_wait_for_loses_against_one_that_nobody_waits_for() -> None:
    """queue_ahead: both types are busy, three jobs wait for the A100."""
    waiting = tuple(
        PendingJob(str(i), "main", 1, 1, "gres/gpu:a100:1,gres/compute:8", queued=True)
        for i in range(3)
    )
    state = cluster(
        node("a01", gres={"gpu:a100": 1}, used={"gpu:a100": 1}),
        node("n01", gres={"npu:ascend910b3": 1}, used={"npu:ascend910b3": 1}),
        pending=waiting,
    )

    assert gres(submit(state, RULES, "compute:8")).startswith("npu:")


def test_a_free_device_that_a_queued_job_will_take_is_not_free() -> None:
    """Between submission and the next scheduling pass the device still looks free."""
    queued = (PendingJob("7", "main", 1, 1, "gres/gpu:a100:1,gres/compute:8", queued=True),)
    limited = (replace(queued[0], queued=False),)
    nodes = (node("a01", gres={"gpu:a100": 1}), node("n01", gres={"npu:ascend910b3": 1}))

    assert gres(submit(cluster(*nodes, pending=queued), RULES, "compute:8")).startswith("npu:")
    assert gres(submit(cluster(*nodes, pending=limited), RULES, "compute:8")).startswith("gpu:")


def test_a_class_prefers_and_restricts() -> None:
    """prefer breaks what would be a tie; kinds keep others out; the class of all is default."""
    rules = policy(
        A100,
        ASCEND,
        classes={"infer": {"prefer": ["npu"]}, "train": {"kinds": ["gpu"]}},
    )

    assert gres(submit(MIXED, rules, "compute:8")).startswith("gpu:")
    assert gres(submit(MIXED, rules, "compute:infer:8")).startswith("npu:")
    assert "allows only kinds gpu" in submit(MIXED, rules, "compute:train:16").error


def test_nodes_of_other_partitions_are_no_candidates() -> None:
    """A partition that was asked for, or the default one, bounds the choice."""
    state = cluster(node("a02", gres={"gpu:a100": 1}, partitions=("debug",)))

    assert "not in partition main" in submit(state, policy(A100), "compute:8").error


def test_nodes_that_the_request_names_bound_the_choice() -> None:
    """-w npu01 can never be an A100; -x takes a node away; -w of two kinds of nodes is refused."""
    state = cluster(
        node("a01", gres={"gpu:a100": 1}),
        node("a02", gres={"gpu:a100": 1}),
        node("n01", gres={"npu:ascend910b3": 1}),
    )

    def become(**fields: object) -> Decision:
        return submit(state, RULES, {"tres_per_node": "compute:8", **fields})

    assert gres(become(req_nodes="n01")).startswith("npu:")
    assert gres(become(req_nodes="a[01-02]", min_nodes=2)).startswith("gpu:")
    assert gres(become(exc_nodes="a[01-02]")).startswith("npu:")
    assert "2 nodes asked, 1 can serve" in become(req_nodes="a01,n01").error


def test_a_type_whose_nodes_are_out_comes_last_but_may_be_waited_for() -> None:
    """A drained node may come back: Slurm takes such a job, so do we, and say what it waits for."""
    drained = node("a01", gres={"gpu:a100": 1}, usable=False, state="IDLE+DRAIN", reason="fan")
    npu = node("n01", gres={"npu:ascend910b3": 1}, used={"npu:ascend910b3": 1})

    alone = submit(cluster(drained), RULES, "compute:8").rewrite
    both = submit(cluster(drained, npu), RULES, "compute:8")

    assert alone is not None
    assert "a01 is idle+drain (fan)" in alone.messages[1]
    assert gres(both).startswith("npu:")


def test_cpus_and_memory_a_device_are_used_where_the_user_gave_none() -> None:
    """cpus_per_device and mem_per_device_mib of the profile, times the devices."""
    npu = device("ascend910b3", "npu:ascend910b3", 8, 64, cpus_per_device=6,
                 mem_per_device_mib=1000)  # fmt: skip
    rules = policy(npu)

    mine = submit(MIXED, rules, "compute:16").rewrite
    theirs = submit(
        MIXED, rules, {"tres_per_node": "compute:16", "cpus_per_task": 2, "min_mem_per_node": 5}
    ).rewrite

    assert mine is not None
    assert theirs is not None
    assert (mine.set["cpus_per_task"], mine.set["min_mem_per_node"]) == (12, 2000)
    assert not {"cpus_per_task", "min_mem_per_node"} & set(theirs.set)


def test_admin_comment_tells_the_binding_and_starts_with_our_mark() -> None:
    """The tamper-proof record: trace, request, binding, class, state, moves."""
    decision = submit(MIXED, RULES, "compute:8")
    assert decision.rewrite is not None
    text = str(decision.rewrite.set["admin_comment"])

    record = json.loads(text.removeprefix("hpcmgr:"))

    assert text.startswith("hpcmgr:{")
    assert record["state"] == "bound"
    assert record["trace"] == decision.trace
    assert record["request"] == "compute:8"
    assert record["binding"]["gres"] == "gpu:a100"


def test_units_are_added_to_a_direct_request() -> None:
    """gpu:a100:2 keeps its devices and books 16 units."""
    decision = submit(MIXED, RULES, "gres/gpu:a100:2,gres/tmpfs:1G")

    assert gres(decision) == "gpu:a100:2,compute:16,vram:160,tmpfs:1G"


@pytest.mark.parametrize(
    ("field", "before", "after"),
    [
        ("tres_per_task", "cpu=4,gres/gpu:t4=1", "cpu=4,gres/gpu:t4=1,gres/compute=2,gres/vram=16"),
        ("tres_per_task", "gres/gpu:t4:1", "gres/gpu:t4:1,gres/compute:2,gres/vram:16"),
        ("tres_per_socket", "gres/gpu:t4:2", "gres/gpu:t4:2,gres/compute:4,gres/vram:32"),
    ],
)
def test_units_stand_beside_devices_per_task_and_per_socket(
    field: str, before: str, after: str
) -> None:
    """Slurm multiplies both alike there."""
    done = submit(MIXED, RULES, {field: before}).rewrite

    assert done is not None
    assert done.set == {field: after}


@pytest.mark.parametrize(
    ("totals", "job", "outcome"),
    [
        ("per_node", {"tres_per_job": "gres/gpu:t4:4", "min_nodes": 2, "max_nodes": 2},
         {"gres": "gpu:t4:2,compute:4,vram:32", "tres_per_job": ""}),
        ("per_node", {"tres_per_job": "gres/gpu:t4:1", "min_nodes": 1, "max_nodes": 1,
                      "tres_per_node": "gres/tmp:1"},
         {"gres": "gpu:t4:1,compute:2,vram:16,tmp:1", "tres_per_job": ""}),
        ("per_node", {"tres_per_job": "gres/gpu:t4:3", "min_nodes": 2, "max_nodes": 2}, "-N"),
        ("per_node", {"tres_per_job": "gres/gpu:t4:4", "min_nodes": 1, "max_nodes": 2}, "-N"),
        ("per_node", {"tres_per_job": "gres/gpu:t4:4"}, "-N"),
        ("refuse", {"tres_per_job": "gres/gpu:t4:4"}, "is not taken at this site"),
        ("unbilled", {"tres_per_job": "gres/gpu:t4:4"}, {}),
    ],
)  # fmt: skip
def test_totals_follow_the_sites_policy(
    totals: str, job: dict[str, object], outcome: dict[str, str] | str
) -> None:
    """Slurm splits devices and units of a total differently over nodes (fact 34)."""
    decision = submit(MIXED, policy(A100, ASCEND, T4, direct_totals=totals), job)

    if isinstance(outcome, str):
        assert outcome in decision.error
    else:
        assert decision.rewrite is not None
        assert decision.rewrite.set == outcome


def test_an_untyped_direct_request_in_a_mixed_partition_is_told_or_refused() -> None:
    """gpu:1 may become an A100 or a T4: its units cannot be told."""
    passed = submit(MIXED, policy(A100, T4, direct_totals="unbilled"), "gres/gpu:1").rewrite
    refused = submit(MIXED, RULES, "gres/gpu:1")

    assert passed is not None
    assert passed.set == {}
    assert passed.messages == (
        "gpu:1 may be a100 or t4 here, so no units are booked: name the type",
    )
    assert "name the type" in refused.error


def test_an_untyped_direct_request_of_one_type_gets_its_units() -> None:
    """Where only one type of the name is, it is that."""
    assert gres(submit(MIXED, RULES, "gres/npu:1")) == "npu:1,compute:8,vram:64"


PER_TASK = {
    "tres_per_task": "cpu=4,gres/compute=2",
    "num_tasks": 2,
    "min_nodes": 1,
    "batch": True,
    "bitflags": 1 << 14,
}
NEWER = replace(MIXED, release="26.05.5")


def test_units_per_task_stay_in_their_place() -> None:
    """tres_per_task keeps its other entries and its spelling."""
    done = submit(NEWER, RULES, PER_TASK).rewrite

    assert done is not None
    assert done.set["tres_per_task"] == "cpu=4,gres/gpu:t4=1,gres/compute=2,gres/vram=16"


def test_units_per_task_are_refused_where_the_steps_would_lose_their_devices() -> None:
    """On 24.11 srun in the job asks for what the user wrote; a direct srun gives all to each."""
    assert "Slurm 24.11.5 loses units per task" in submit(MIXED, RULES, PER_TASK).error
    assert "for sbatch only" in submit(NEWER, RULES, {**PER_TASK, "batch": False}).error


def test_npus_per_task_need_a_number_of_nodes() -> None:
    """Slurm 26.05 lets such a job wait for ever: another type is taken, or the hint is given."""
    job = {k: v for k, v in PER_TASK.items() if k != "min_nodes"}
    npu = {**job, "tres_per_task": "gres/compute:npu=8"}

    other = submit(NEWER, RULES, job).rewrite
    assert other is not None
    assert "gres/gpu:t4=1" in str(other.set["tres_per_task"])
    assert "needs a number of nodes (-N)" in submit(NEWER, RULES, npu).error


@pytest.mark.parametrize(
    ("release", "field", "told"),
    [
        ("24.11.5", {"cpus_per_tres": "gres/gpu:2"}, "cpus-per-gpu"),
        ("26.05.5", {"cpus_per_tres": "gres/gpu:2"}, ""),
        ("26.05.5", {"ntasks_per_tres": 1}, "ntasks-per-gpu"),
    ],
)
def test_units_that_would_make_a_request_impossible_are_left_out_and_told(
    release: str, field: dict[str, object], told: str
) -> None:
    """What stock Slurm runs, runs here too; a site that says refuse refuses it."""
    state = replace(MIXED, release=release)
    job = {"tres_per_node": "gres/gpu:t4:2", **field}
    done = submit(state, RULES, job).rewrite
    refused = submit(state, policy(A100, T4, direct_totals="refuse"), job).error

    assert done is not None
    assert ("gres" in done.set) is not bool(told)
    assert (f"--{told}" in done.messages[0]) is bool(told)
    assert bool(refused) is bool(told)


def test_a_reservation_bounds_the_choice() -> None:
    """Only its nodes count; of two reservations, those of either."""
    state = replace(MIXED, reservations=(Reservation("r", "mix01"), Reservation("s", "t401")))

    def become(reservation: str) -> str:
        job = {"tres_per_node": "compute:2", "reservation": reservation}
        return gres(submit(state, RULES, job))

    assert become("r").startswith("gpu:a100")
    assert become("s").startswith("gpu:t4")
    assert become("r,s").startswith("gpu:t4")
    assert become("later").startswith("gpu:t4")


def test_an_exclusive_job_is_given_no_cpus_or_memory_of_its_devices() -> None:
    """It has all of the node; fewer tasks a node would be told otherwise."""
    t4 = device("t4", "gpu:t4", 2, 16, cpus_per_device=2, mem_per_device_mib=100)
    done = submit(MIXED, policy(t4), {"tres_per_node": "compute:t4:8", "shared": 0}).rewrite

    assert done is not None
    assert not {"cpus_per_task", "min_mem_per_node"} & set(done.set)


class TestBinding:
    """Cores near the devices: only where it holds on this release."""

    @pytest.mark.parametrize(
        ("release", "job", "form"),
        [
            ("24.11.5", {"tres_per_node": "compute:gpu:8"}, "node"),
            ("24.11.5", {"tres_per_node": "compute:npu:16"}, "node"),
            ("24.11.5", {"tres_per_node": "compute:npu:8", "ntasks_per_node": 4}, "node"),
            ("24.11.5", {"tres_per_node": "compute:npu:8", **TWO_TASKS}, None),
            ("26.05.5", {"tres_per_node": "compute:gpu:8", "min_nodes": 1, "max_nodes": 4}, None),
            ("26.05.5", {"tres_per_node": "compute:gpu:8", "req_nodes": "mix01"}, None),
            ("26.05.5", {"tres_per_node": "compute:gpu:8", "num_tasks": 2}, None),
            ("26.05.5", {"tres_per_node": "compute:gpu:8"}, "node"),
            ("26.05.5", {"tres_per_node": "compute:gpu:8", **TWO_TASKS}, "node"),
            ("26.05.5", {"tres_per_node": "compute:npu:8"}, "socket"),
            ("26.05.5", {"tres_per_node": "compute:npu:16"}, None),
            ("26.05.5", {"tres_per_node": "compute:npu:8", **TWO_TASKS}, None),
            ("26.05.5", {"tres_per_node": "compute:npu:8", "ntasks_per_node": 4}, None),
            ("25.11.2", {"tres_per_node": "compute:gpu:8"}, "node"),
            ("25.11.2", {"tres_per_node": "compute:npu:8"}, None),
        ],
    )
    def test_the_form_follows_release_name_and_tasks(
        self, release: str, job: dict[str, object], form: str | None
    ) -> None:
        """What was seen to hold on a release is used there, and nothing else."""
        state = cluster(*MIXED.nodes, release=release)
        done = submit(state, RULES, job).rewrite

        assert done is not None
        assert done.enforce is (form is not None)
        assert ("tres_per_socket" in done.set) is (form == "socket")
        assert ("not enforced" in " ".join(done.messages)) is (form is None)

    def test_devices_of_one_socket_are_asked_per_socket_with_their_units(self) -> None:
        """On 26.05 all of the request stands in tres_per_socket: srun copies it whole."""
        state = cluster(node("n1", gres={"npu:ascend910b3": 4}), release="26.05.5")
        done = submit(state, RULES, "compute:16").rewrite

        assert done is not None
        assert done.set["gres"] == ""
        assert done.set["sockets_per_node"] == 1
        assert done.set["tres_per_socket"] == (
            "gres/npu:ascend910b3:2,gres/compute:16,gres/vram:128"
        )

    def test_a_task_count_is_set_only_with_the_bit_and_where_the_user_gave_none(self) -> None:
        """Fact 22: the bit without a task count takes a whole socket."""
        state = cluster(*MIXED.nodes, release="26.05.5")
        mine = submit(
            state, RULES, {"tres_per_node": "compute:gpu:8", "min_nodes": 1, "max_nodes": 1}
        ).rewrite
        theirs = submit(state, RULES, {"tres_per_node": "compute:gpu:8", **TWO_TASKS}).rewrite
        per_node = {"tres_per_node": "compute:gpu:8", "ntasks_per_node": 4}

        assert mine is not None
        assert theirs is not None
        assert mine.set["num_tasks"] == 1
        assert theirs.enforce
        assert "num_tasks" not in theirs.set
        assert "num_tasks" not in (submit(state, RULES, per_node).rewrite or mine).set

    @pytest.mark.parametrize(
        "field",
        [
            {"ntasks_per_node": 4, "num_tasks": 4, "bitflags": 1 << 14},
            {"shared": 0},
            {"cpus_per_task": 20, "num_tasks": 1, "bitflags": 1 << 14},
        ],
    )
    def test_it_is_left_out_and_said_so_where_it_would_harm(self, field: dict[str, int]) -> None:
        """Both task options, --exclusive, more CPUs than are near: no bit, no task count."""
        done = submit(MIXED, RULES, {"tres_per_node": "compute:gpu:8", **field}).rewrite

        assert done is not None
        assert not done.enforce
        assert "num_tasks" not in done.set
        assert any("not enforced" in line for line in done.messages)

    def test_a_partition_that_gives_whole_nodes_counts_as_exclusive(self) -> None:
        """OverSubscribe=EXCLUSIVE: a task count would change what the job's environment says."""
        whole = replace(MIXED, partitions=(Partition("main", default=True, exclusive=True),))
        done = submit(whole, RULES, "compute:gpu:8").rewrite

        assert done is not None
        assert not done.enforce
        assert "num_tasks" not in done.set

    def test_the_users_own_choice_stands(self) -> None:
        """--gres-flags given by the user is neither added to nor commented on."""
        done = submit(MIXED, RULES, {"tres_per_node": "compute:gpu:8", "bitflags": 1 << 19}).rewrite

        assert done is not None
        assert not done.enforce
        assert len(done.messages) == 1

    def test_a_movable_class_never_fixes_a_job_to_its_type(self) -> None:
        """On 26.05 it holds for one task on every type, in the form of each; for two on gpu only:
        a job of a near class then keeps its type, one of a movable class goes without."""
        rules = policy(A100, ASCEND, classes={"default": {"binding": "movable"}})
        state = cluster(*MIXED.nodes, release="26.05.5")
        two = {"tres_per_node": "compute:8", "num_tasks": 2, "min_nodes": 1, "max_nodes": 1,
               "bitflags": 1 << 14}  # fmt: skip

        one = submit(state, rules, "compute:8").rewrite
        near = submit(state, RULES, two).rewrite
        movable = submit(state, rules, two).rewrite

        assert one is not None
        assert near is not None
        assert movable is not None
        assert one.enforce
        assert "fixed" not in one.binding
        assert near.enforce
        assert near.binding["fixed"] is True
        assert not movable.enforce

    def test_after_submission_the_bit_cannot_be_set(self) -> None:
        """A job that was held while the service was away is bound without it, and told so."""
        done = submit(MIXED, RULES, "compute:8", late=True).rewrite

        assert done is not None
        assert not done.enforce
        assert any("after its submission" in line for line in done.messages)


class TestSlices:
    """Slices serve where the class says so."""

    SLICED = DeviceProfile.model_validate(
        {
            **A100.model_dump(),
            "slicing": {
                "kind": "mig",
                "parts": 7,
                "slices": {"1g.10gb": {"parts": 1, "memory_gib": 10, "most": 7},
                           "3g.40gb": {"parts": 3, "memory_gib": 40, "most": 2}},
                "visible": {"variable": "CUDA_VISIBLE_DEVICES", "by": "uuid"},
                "source": "test",
            },
        }
    )  # fmt: skip
    PROFILES = tuple(with_slices([SLICED]).values())
    STATE = cluster(node("n1", gres={"gpu:a100": 1, "gpu:a100_1g.10gb": 7, "gpu:a100_3g.40gb": 2}))

    def rules(self, **job_class: object) -> Policy:
        return policy(*self.PROFILES, classes={"default": job_class})

    def test_by_default_whole_devices_only(self) -> None:
        """A class that says nothing gives no slice, not even one that is named."""
        done = submit(self.STATE, self.rules(), "compute:1")

        assert [c.gres for c in done.ranked] == ["gpu:a100"]
        assert {c.refused for c in done.refused} == {
            "class default allows whole devices only, no slices"
        }

    def test_a_slice_that_is_named_is_told_why_not(self) -> None:
        """Not that there is no such device."""
        done = submit(self.STATE, self.rules(), "compute:a100_1g.10gb:1")

        assert done.rewrite is None
        assert "a100_1g.10gb: class default allows whole devices only, no slices" in done.error

    def test_where_the_class_allows_them_the_slice_that_fits(self) -> None:
        """One slice a program, with its units and its memory."""
        small = submit(self.STATE, self.rules(slices=True), "compute:1").rewrite
        large = submit(self.STATE, self.rules(slices=True), "compute:2").rewrite

        assert small is not None
        assert large is not None
        assert small.set["gres"] == "gpu:a100_1g.10gb:1,compute:1,vram:10"
        assert large.set["gres"] == "gpu:a100_3g.40gb:1,compute:3,vram:40"

    def test_never_several_slices(self) -> None:
        """CUDA gives a program one slice, however many the job has."""
        done = submit(self.STATE, self.rules(slices=True), "compute:a100_1g.10gb:3")

        assert done.rewrite is None
        assert [c.refused for c in done.refused if c.gres == "gpu:a100_1g.10gb"] == [
            "would take 3 slices, and a program can use one"
        ]

    def test_a_class_of_a_profile_has_its_slices(self) -> None:
        """The device's profile stands for its slices, and a slice for itself."""
        for profiles in (["a100-80g"], ["a100-80g-1g.10gb"]):
            rules = self.rules(slices=True, profiles=profiles)
            done = submit(self.STATE, rules, "compute:1").rewrite
            assert done is not None
            assert done.set["gres"] == "gpu:a100_1g.10gb:1,compute:1,vram:10"

    def test_a_direct_request_has_the_units_of_its_slice(self) -> None:
        """Whatever the class: the user named the device."""
        done = submit(self.STATE, self.rules(), "gres/gpu:a100_3g.40gb:1").rewrite

        assert done is not None
        assert done.set["gres"] == "gpu:a100_3g.40gb:1,compute:3,vram:40"


@given(
    st.integers(1, 200),
    st.integers(0, 8),
    st.integers(0, 8),
    st.integers(0, 8),
    st.integers(0, 400),
)
def test_what_is_granted_always_covers_what_was_asked(
    units: int, a100: int, npu: int, t4: int, vram: int
) -> None:
    """Enough units and memory on one node that has the devices, or a text for the user."""
    state = cluster(node("n1", gres={"gpu:a100": a100, "npu:ascend910b3": npu, "gpu:t4": t4}))
    request = f"compute:{units}" + (f",vram:{vram}" if vram else "")
    decision = submit(state, RULES, request)

    if decision.rewrite is None:
        assert decision.error
        return
    best = decision.ranked[0]
    assert best.units >= units
    assert best.vram_gib >= vram
    assert best.devices <= state.nodes[0].gres[best.gres]
    assert best.devices <= max(-(-units // 8), -(-vram // 40))


def test_slurms_defaults_for_gpus_hold_for_every_device() -> None:
    """DefCpuPerGPU=2 of the cluster, DefMemPerGPU=100 of the partition; the profile's own win."""
    state = replace(
        MIXED,
        gpu_defaults=(2, 0),
        partitions=(Partition("main", default=True, gpu_defaults=(0, 100)),),
    )
    own = policy(A100, ASCEND.model_copy(update={"cpus_per_device": 6}))

    gpu = submit(state, RULES, "compute:gpu:8").rewrite
    npu = submit(state, own, "compute:npu:8").rewrite

    assert gpu is not None
    assert npu is not None
    assert (gpu.set["cpus_per_task"], gpu.set["min_mem_per_node"]) == (2, 100)
    assert (npu.set["cpus_per_task"], npu.set["min_mem_per_node"]) == (6, 100)
