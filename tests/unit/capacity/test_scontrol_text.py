"""Node, partition and reservation records as scontrol prints them on 24.11 and 26.05."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.slurm.partition import parse_partitions
from hpcmgr.slurm.state import NodeState, parse_nodes, parse_reservations

# The order of the keys, the double blanks and the missing ones are scontrol's own; 26.05 has
# SuspendTime and no double blank before Reason.
FORM_24_11 = (
    "NodeName={name} Arch=x86_64 CoresPerSocket=8  CPUAlloc={cpus_used} CPUEfctv=16 CPUTot=16 "
    "CPULoad=0.41 AvailableFeatures=cuda,t4 ActiveFeatures=cuda,t4 Gres={gres} GresDrain=N/A "
    "GresUsed={used} NodeAddr={name} NodeHostName={name} Version=24.11.5 "
    "OS=Linux 6.1.0-30-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.124-1 (2025-01-12)  RealMemory=9000 "
    "AllocMem=64 FreeMem=5000 Sockets=2 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 "
    "Owner=N/A MCS_label=N/A Partitions=main,short  BootTime=2026-03-01T08:00:00 "
    "SlurmdStartTime=2026-03-01T08:01:00 LastBusyTime=2026-03-02T09:00:00 ResumeAfterTime=None "
    "CfgTRES=cpu=16,mem=9000M,billing=16 AllocTRES= CurrentWatts=0 AveWatts=0 {tail}"
)
FORM_26_05 = FORM_24_11.replace(
    "ResumeAfterTime=None ", "ResumeAfterTime=None SuspendTime=INFINITE "
).replace("24.11.5", "26.05.5")
FORMS = pytest.mark.parametrize("form", [FORM_24_11, FORM_26_05], ids=["24.11", "26.05"])
STAMP = "[root@2026-03-02T10:11:12]"


def node(form: str, **values: object) -> NodeState:
    fields = {
        "name": "g1", "cpus_used": 2, "gres": "gpu:t4:4(S:0-1),compute:8",
        "used": "gpu:t4:1(IDX:0),compute:2", "state": "MIXED", "tail": "", **values,
    }  # fmt: skip
    gap = " " if form is FORM_24_11 and fields["tail"] else ""
    [found] = parse_nodes(form.format(**{**fields, "tail": f"{gap}{fields['tail']}"}) + "\n\n")
    return found


@FORMS
def test_a_record_is_read_whole(form: str) -> None:
    """Partitions, CPUs, memory, devices and their sockets."""
    found = node(form)

    assert found.partitions == ("main", "short")
    assert (found.cpus, found.cpus_used, found.memory, found.memory_used) == (16, 2, 9000, 64)
    assert found.gres == {"gpu:t4": 4, "compute": 8}
    assert found.used == {"gpu:t4": 1, "compute": 2}
    assert found.sockets_of == {"gpu:t4": frozenset({0, 1})}
    assert found.indexed == {"gpu:t4"}
    assert found.usable


@FORMS
@pytest.mark.parametrize(
    ("gres", "used", "have", "busy"),
    [
        ("gpu:a100_1g.5gb:7(S:0)", "gpu:a100_1g.5gb:2(IDX:0,3)",
         {"gpu:a100_1g.5gb": 7}, {"gpu:a100_1g.5gb": 2}),
        ("gpu:4", "gpu:(null):3(IDX:0-1,3)", {"gpu": 4}, {"gpu": 3}),
        ("gpu:h100:8,shard:h100:32", "gpu:h100:1(IDX:1),shard:h100:1(1/4,-/4,0/4)",
         {"gpu:h100": 8, "shard:h100": 32}, {"gpu:h100": 2, "shard:h100": 1}),
        ("gpu:t4:4(S:0-1),shard:t4:16(S:0-1)", "gpu:t4:1(IDX:3),shard:t4:5(1/4,4/4,0/4,0/4)",
         {"gpu:t4": 4, "shard:t4": 16}, {"gpu:t4": 3, "shard:t4": 5}),
        ("gpu:t4:2,mps:t4:200", "gpu:t4:0(IDX:N/A),mps:t4:30(30/100,0/100)",
         {"gpu:t4": 2, "mps:t4": 200}, {"gpu:t4": 1, "mps:t4": 30}),
        ("nic:ib:no_consume:2,gpu:t4:4", "nic:ib:0,gpu:t4:0(IDX:N/A)",
         {"nic:ib": 2, "gpu:t4": 4}, {"nic:ib": 0, "gpu:t4": 0}),
        ("gpu:t4:2(S:0),gpu:t4:2(S:1)", "gpu:t4:0(IDX:N/A)", {"gpu:t4": 4}, {"gpu:t4": 0}),
        ("tmpdisk:2K", "tmpdisk:0", {"tmpdisk": 2048}, {"tmpdisk": 0}),
        ("(null)", "", {}, {}),
    ],
)  # fmt: skip
def test_counts_of_every_form(
    form: str, gres: str, used: str, have: dict[str, int], busy: dict[str, int]
) -> None:
    """MIG types with dots, no type, shards, no_consume, two lines of one type, suffixes, none."""
    found = node(form, gres=gres, used=used)

    assert dict(found.gres) == have
    assert dict(found.used) == busy


@pytest.mark.parametrize(
    ("state", "usable"),
    [
        ("IDLE", True), ("MIXED+PLANNED", True), ("ALLOCATED+COMPLETING", True),
        ("IDLE+RESERVED", True), ("IDLE+CLOUD+POWERED_DOWN", True), ("idle~", True),
        ("IDLE+NOT_RESPONDING+POWERING_UP", True), ("idle#", True), ("mixed-", True),
        ("IDLE+DRAIN", False), ("MIXED+DRAIN", False), ("DOWN", False),
        ("DOWN+NOT_RESPONDING", False),
        ("IDLE+NOT_RESPONDING", False), ("idle*", False), ("IDLE+POWERING_DOWN", False),
        ("idle%", False), ("IDLE+MAINTENANCE+RESERVED", False), ("idle$", False),
        ("IDLE+DRAIN+INVALID_REG", False), ("inval", False), ("IDLE+FAIL", False),
        ("DOWN+POWERED_DOWN", False), ("IDLE+REBOOT_ISSUED", False), ("UNKNOWN", False),
        ("FUTURE", False),
    ],
)  # fmt: skip
def test_states_that_take_jobs_and_states_that_do_not(state: str, usable: bool) -> None:
    """As scontrol spells them, and with sinfo's signs."""
    assert node(FORM_24_11, state=state).usable is usable


@FORMS
@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (f"Reason=two words {STAMP}", ("two words", "root", "2026-03-02T10:11:12")),
        (f"Reason=fan = 3 State=IDLE Foo=b [x] @ y {STAMP}",
         ("fan = 3 State=IDLE Foo=b [x] @ y", "root", "2026-03-02T10:11:12")),
        (f"Reason=one {STAMP}        two [bob@2020-01-01T00:00:00] x",
         ("one two [bob@2020-01-01T00:00:00] x", "root", "2026-03-02T10:11:12")),
        (f"Reason=why {STAMP} Comment=c State=DOWN Reason=no Extra=e ReservationName=r1",
         ("why", "root", "2026-03-02T10:11:12")),
        ("Reason=bare Comment=c", ("bare", "", "")),
        ("Comment=c State=DOWN Reason=no Extra=ex Reason=no2 ReservationName=r1", ("", "", "")),
        ("ReservationName=r1", ("", "", "")),
    ],
)  # fmt: skip
def test_reasons_of_every_form(form: str, tail: str, reason: tuple[str, str, str]) -> None:
    """What administrators write into reason, comment and extra is never taken for keys."""
    found = node(form, tail=tail)

    assert (found.reason, found.reason_by, found.reason_since) == reason
    assert found.state == "MIXED"
    assert found.reservation == ("r1" if "ReservationName" in tail else "")


@FORMS
@given(text=st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), max_size=60))
def test_any_reason_leaves_the_rest_of_the_record_alone(form: str, text: str) -> None:
    """Whatever stands there, state, devices and time stamp are Slurm's."""
    words = " ".join(text.split()) or "x"
    found = node(form, state="IDLE+DRAIN", tail=f"Reason={words} {STAMP}")

    assert (found.state, found.usable) == ("IDLE+DRAIN", False)
    assert found.gres == {"gpu:t4": 4, "compute": 8}
    assert found.reason_since


def test_no_nodes_are_no_error() -> None:
    """What scontrol says in an empty cluster, or to a user who may see none."""
    assert list(parse_nodes("No nodes in the system\n\n")) == []


def test_set_aside_memory_is_not_there_for_jobs() -> None:
    """MemSpecLimit belongs to the system."""
    line = FORM_24_11.replace("Owner=N/A", "MemSpecLimit=1000 Owner=N/A")

    assert node(line).memory == 8000


def test_exclusive_partitions_on_both_releases() -> None:
    """OverSubscribe=EXCLUSIVE until 25.11, Exclusive=NODE on 26.05; and one that is down."""
    old = "PartitionName=a Default=YES ExclusiveUser=NO Hidden=NO OverSubscribe=EXCLUSIVE State=UP"
    new = "PartitionName=b Default=NO Exclusive=NODE Hidden=NO OverSubscribe=NO State=DOWN"
    plain = "PartitionName=c Default=NO Exclusive=NO OverSubscribe=NO State=UP"

    found = list(parse_partitions("\n".join([old, new, plain])))

    assert [(p.name, p.exclusive, p.up) for p in found] == [
        ("a", True, True), ("b", True, False), ("c", False, True),
    ]  # fmt: skip


def test_reservations_hold_nodes_devices_or_cores() -> None:
    """Whole nodes; GRES only; cores only; one that has not begun."""
    head = "ReservationName={} StartTime=2026-03-01T08:00:00 Nodes={} NodeCnt=2 CoreCnt=8 "
    text = "\n".join(
        [
            head.format("w", "g[1-2]") + "Flags=SPEC_NODES TRES=cpu=16 Users=bob State=ACTIVE",
            head.format("d", "g3") + "Flags=   NodeName=g3 CoreIDs=0 "
            "TRES=cpu=1,gres/npu:x9=2,gres/npu=2 Users=bob State=ACTIVE",
            head.format("c", "g4") + "Flags=   NodeName=g4 CoreIDs=0-3 TRES=cpu=4 State=ACTIVE",
            head.format("f", "g5") + "Flags=SPEC_NODES TRES=cpu=16 Users=bob State=INACTIVE",
        ]
    )
    found = {r.name: r for r in parse_reservations(text)}

    assert {name: r.active for name, r in found.items()} == {
        "w": True, "d": True, "c": True, "f": False,
    }  # fmt: skip
    assert (found["w"].whole, found["w"].nodes) == (True, "g[1-2]")
    assert (found["d"].whole, found["d"].gres) == (False, {"npu:x9": 2})
    assert (found["c"].whole, found["c"].gres) == (False, {})
