"""Devices, units and memory, free and total."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.capacity import Capacity, Scope, Tally, as_data, count, make_picture
from hpcmgr.capacity.view import By
from hpcmgr.profile import ProfileLibrary
from hpcmgr.settings import JobClass, Site
from hpcmgr.slurm.partition import Partition
from hpcmgr.slurm.state import ClusterState, NodeState, Reservation
from tests.builders import A100, ASCEND, T4, cluster, device, node

TYPES = {"gpu:a100": A100, "gpu:t4": T4, "npu:ascend910b3": ASCEND}


def counted(state: ClusterState, job_class: JobClass | None = None) -> Capacity:
    return count(state, ProfileLibrary((A100, ASCEND, T4)), job_class or JobClass())


def told(state: ClusterState, by: By = "type", *, every_node: bool = False) -> dict[str, Any]:
    """As JSON has it."""
    library = ProfileLibrary((A100, ASCEND, T4))
    picture = make_picture(Site(), library, state, scope=Scope(every_node=every_node))
    data = json.loads(json.dumps(as_data(picture, by)))
    assert isinstance(data, dict)
    return data


def devices(capacity: Capacity, gres: str) -> Tally:
    return sum((here.devices for _, here in capacity.by_type[gres]), Tally())


def test_used_free_and_lost_add_up() -> None:
    """Three nodes: one works, one drains with a device in use, one is down."""
    capacity = counted(
        cluster(
            node("g1", gres={"gpu:a100": 8, "compute": 64}, used={"gpu:a100": 3, "compute": 24}),
            node("g2", gres={"gpu:a100": 8}, used={"gpu:a100": 1}, usable=False,
                 state="MIXED+DRAIN", reason="fan"),
            node("g3", gres={"gpu:a100": 8}, usable=False, state="DOWN", reason="fire"),
        )
    )  # fmt: skip

    assert devices(capacity, "gpu:a100") == Tally(24, used=4, out=15, free=5, usable=5)
    worth = capacity.nodes[0].worth
    assert (worth.units.total, worth.units.free) == (64, 40)
    assert (worth.memory_gib.total, worth.memory_gib.free) == (640, 400)
    largest = capacity.largest("gpu:a100")
    assert largest
    assert (largest.devices, largest.units, largest.nodes) == (5, 40, ("g1",))


@pytest.mark.parametrize(
    ("changes", "usable"),
    [
        ({}, 4),
        ({"cpus_used": 32}, 0),  # no CPU left
        ({"cpus_used": 26}, 3),  # 6 CPUs at 2 a device
        ({"cpus_used": 27, "threads_per_core": 2}, 2),  # 2 whole cores of 2 threads
        ({"memory_used": (512 << 10) - 250}, 2),  # 250 MiB at 100 a device
        ({"memory_used": 512 << 10}, 0),
        ({"gres": {"gpu:a100": 4, "compute": 32}, "used": {"compute": 20}}, 1),  # 12 units left
        ({"gres": {"gpu:a100": 4, "vram": 320}, "used": {"vram": 160}}, 2),
    ],
)
def test_usable_are_the_devices_with_cpus_memory_and_units_beside_them(
    changes: dict[str, object], usable: int
) -> None:
    """2 CPUs and 100 MiB a device; all four devices stay free."""
    profile = A100.model_copy(update={"cpus_per_device": 2, "mem_per_device_mib": 100})
    state = cluster(node("g1", **{"gres": {"gpu:a100": 4}, **changes}))
    capacity = count(state, ProfileLibrary((profile,)), JobClass())

    assert devices(capacity, "gpu:a100") == Tally(4, free=4, usable=usable)


def test_where_no_cpus_a_device_are_known_one_cpu_is_enough() -> None:
    """A job then gets one CPU; the default class may say more."""
    state = cluster(node("g1", gres={"gpu:a100": 4}, cpus_used=31))

    assert devices(counted(state), "gpu:a100").usable == 4
    assert devices(counted(state, JobClass(cpus_per_device=1)), "gpu:a100").usable == 1


def test_a_type_that_no_profile_knows_counts_with_devices_and_no_units() -> None:
    """Known name and unknown type; unknown name with indices; what is no device stays out."""
    state = cluster(
        node(
            "g1",
            gres={"gpu:new": 2, "gpu": 3, "gcu:s60": 8, "gpu:a100": 1, "shard:a100": 4,
                  "tmpdisk": 100, "compute": 8, "vram": 80},
            indexed=frozenset({"gcu:s60", "shard:a100"}),
        )
    )  # fmt: skip
    data = told(state)
    types = {each["gres"]: each for each in data["types"]}

    assert list(types) == ["gcu:s60", "gpu", "gpu:a100", "gpu:new"]
    assert types["gcu:s60"]["devices"]["free"] == 8
    assert types["gcu:s60"]["units_each"] is None
    assert types["gpu:new"]["largest"] == {
        "gres": "gpu:new", "devices": 2, "units": None, "nodes": "g1",
    }  # fmt: skip
    assert types["gpu:a100"]["shares"] == [{"gres": "shard", "total": 4, "used": 0, "nodes": 1}]
    assert types["gpu:new"]["shares"] == []
    assert data["total"]["units"]["total"] == 8
    assert data["total"]["units_unknown"] == 13


def test_a_profile_without_units_or_memory_counts_as_unknown() -> None:
    """The memory is known, the units are not."""
    odd = device("odd", "npu:odd", None, 32)
    capacity = count(cluster(node("g1", gres={"npu:odd": 2})), ProfileLibrary((odd,)), JobClass())
    worth = capacity.nodes[0].worth

    assert (worth.unknown, worth.unknown_memory, worth.memory_gib.total) == (2, 0, 64)


def test_partitions_that_are_down_or_missing_take_devices_out() -> None:
    """One up of two is enough; a node in none can run nothing."""
    state = replace(
        cluster(
            node("g1", gres={"gpu:t4": 4}, partitions=("main", "night")),
            node("g2", gres={"gpu:t4": 4}, partitions=("night",)),
            node("g3", gres={"gpu:t4": 4}, partitions=()),
        ),
        partitions=(Partition("main", default=True), Partition("night", up=False)),
    )
    capacity = counted(state)

    assert [n.why_out for n in capacity.nodes] == [
        "", "its partition is not up", "in no partition",
    ]  # fmt: skip
    assert devices(capacity, "gpu:t4") == Tally(12, out=8, free=4, usable=4)


def test_a_node_counts_in_each_of_its_partitions() -> None:
    """So partitions do not add up to the whole, and each is right for itself."""
    state = replace(
        cluster(node("g1", gres={"gpu:t4": 4}, partitions=("a", "b"))),
        partitions=(Partition("a"), Partition("b"), Partition("empty")),
    )
    data = told(state, "partition")

    assert [(p["name"], p["devices"]["total"]) for p in data["partitions"]] == [
        ("a", 4), ("b", 4), ("empty", 0),
    ]  # fmt: skip
    assert data["total"]["devices"]["total"] == 4


def test_a_shared_out_node_of_an_exclusive_partition_has_nothing_usable() -> None:
    """Its free devices belong to the job that has the node."""
    state = replace(
        cluster(node("g1", gres={"gpu:t4": 4}, cpus_used=1), node("g2", gres={"gpu:t4": 4})),
        partitions=(Partition("main", exclusive=True),),
    )

    assert devices(counted(state), "gpu:t4") == Tally(8, free=8, usable=4)


def test_reservations_take_whole_nodes_or_single_devices() -> None:
    """Whole; two of eight over two nodes; cores only; one that cannot be seen."""
    names = ("g1", "g2", "g3", "g4", "g5")
    state = replace(
        cluster(*(node(n, gres={"gpu:t4": 4}, state="IDLE+RESERVED") for n in names)),
        reservations=(
            Reservation("whole", "g1"),
            Reservation("some", "g[2-3]", {"gpu:t4": 6}, whole=False),
            Reservation("cores", "g4", {}, whole=False),
        ),
    )
    capacity = counted(state)

    assert [n.here[0].devices.reserved for n in capacity.nodes] == [4, 4, 2, 0, 4]
    assert devices(capacity, "gpu:t4") == Tally(20, reserved=14, free=6, usable=6)


def test_lost_nodes_are_folded_where_all_is_the_same() -> None:
    """One line for a row of nodes with one reason; a reason that outlived its drain is not told."""
    stamp = {"reason_by": "root", "reason_since": "2026-03-01T08:00:00"}
    down = {"usable": False, "state": "DOWN", "reason": "fire", **stamp}
    state = cluster(
        *(node(f"g{i}", gres={"gpu:t4": 4}, **down) for i in (1, 2, 3)),
        node("g4", gres={"gpu:t4": 4}, **{**down, "reason": "water"}),
        node("g5", gres={"gpu:t4": 4}, reason="old", **stamp),
        node("c1", **down),
    )
    data = told(state)
    full = told(state, "node", every_node=True)

    assert [(g["nodes"], g["reason"], g["devices"], g["units"]) for g in data["lost"]] == [
        ("c1,g[1-3]", "fire", 12, 24), ("g4", "water", 4, 8),
    ]  # fmt: skip
    assert data["lost"][0]["since"] == "2026-03-01T08:00:00"
    assert {g["nodes"] for g in full["lost"]} == {"c1,g[1-3]", "g4"}
    assert len(full["nodes"]) == 6


def test_units_that_differ_from_the_profiles_are_told() -> None:
    """Rendered before the profile changed, or not rendered at all."""
    state = cluster(
        node("g1", gres={"gpu:t4": 4, "compute": 8}),
        node("g2", gres={"gpu:t4": 4, "compute": 12}),
        node("g3", gres={"gpu:t4": 4}),
    )
    notes = told(state)["notes"]

    assert notes == [
        "g2: Slurm has compute:12, by the profiles it is 8",
        "g3: no neutral units in Slurm's configuration",
    ]


@st.composite
def nodes(draw: st.DrawFn) -> NodeState:
    keys = [*TYPES, "gpu:unheard", "compute"]
    gres = draw(st.dictionaries(st.sampled_from(keys), st.integers(0, 16)))
    used = {key: draw(st.integers(0, 20)) for key in gres if draw(st.booleans())}
    state, usable = draw(
        st.sampled_from(
            [("IDLE", True), ("MIXED", True), ("IDLE+RESERVED", True), ("DOWN", False),
             ("MIXED+DRAIN", False)]
        )
    )  # fmt: skip
    return node(
        f"n{draw(st.integers(0, 9999))}",
        gres=gres,
        used=used,
        state=state,
        usable=usable,
        partitions=tuple(draw(st.sets(st.sampled_from(["main", "night", "lone"])))),
        cpus_used=draw(st.integers(0, 40)),
        memory_used=draw(st.integers(0, 600 << 10)),
    )


@given(
    found=st.lists(nodes(), max_size=8, unique_by=lambda n: n.name),
    held=st.lists(st.sampled_from(["n1", "n[2-900]", "n[901-9999]"]), max_size=2),
)
def test_sums_over_types_are_sums_over_nodes(found: list[NodeState], held: list[str]) -> None:
    """In devices, units and GiB; and every row's parts make its whole."""
    state = replace(
        cluster(*found),
        partitions=(Partition("main"), Partition("night", up=False)),
        reservations=tuple(
            Reservation(f"r{i}", nodes_, {"gpu:t4": 3}, whole=bool(i))
            for i, nodes_ in enumerate(held)
        ),
    )
    data = told(state, "node")
    for what in ("devices", "units", "memory_gib"):
        for word, value in data["total"][what].items():
            assert value == sum(each[what][word] for each in data["types"])
            assert value == sum(each[what][word] for each in data["nodes"])
        for row in [data["total"], *data["types"], *data["nodes"]]:
            part = row[what]
            parts = part["used"] + part["out"] + part["reserved"] + part["free"]
            assert parts == part["total"]
            assert 0 <= part["usable"] <= part["free"]
    for each in data["types"]:
        largest = each["largest"] or {"devices": 0}
        assert largest["devices"] <= each["devices"]["usable"]
