"""Slurm's words: TRES strings, hostlists, records of scontrol and squeue."""

from __future__ import annotations

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.slurm.hostlist import LIMIT, expand, fold, members
from hpcmgr.slurm.partition import parse_partitions
from hpcmgr.slurm.record import parse_record
from hpcmgr.slurm.state import array_tasks, parse_nodes, parse_pending
from hpcmgr.slurm.tres import GresItem, format_tres, gres_id, parse_count, parse_gres_list

WORD = st.from_regex(r"[a-z][a-z0-9_.]{0,8}", fullmatch=True)

NODE = (
    "NodeName=g1 Arch=x86_64 CoresPerSocket=8  CPUAlloc=2 CPUEfctv=16 CPUTot=16 CPULoad=0.1 "
    "AvailableFeatures=a100,rdma ActiveFeatures=a100,rdma "
    "Gres=gpu:a100:2(S:0-1),gpu:a100_3g.20gb:4(S:1),compute:64,vram:2K GresDrain=N/A "
    "GresUsed=gpu:a100:1(IDX:1),gpu:a100_3g.20gb:0(IDX:N/A),compute:8,vram:80 NodeAddr=g1 "
    "NodeHostName=g1 Version=24.11.5 OS=Linux 6.1 #1 SMP RealMemory=8000 AllocMem=100 FreeMem=1 "
    "Sockets=2 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
    "Partitions=main,debug  BootTime=2026-01-01T00:00:00 Reason=fan broke [root@2026-01-01]"
)


@pytest.mark.parametrize(
    ("text", "number"),
    [("4", 4), ("2K", 2048), ("80G", 80 << 30), ("80GB", 80 << 30), ("1gib", 1 << 30), ("-1", None),
     ("2.5", None), ("", None), ("9" * 20, None)],
)  # fmt: skip
def test_counts_with_suffixes(text: str, number: int | None) -> None:
    """K, M, G, T, P are powers of 1024; what is no whole number is None."""
    assert parse_count(text) == number


@given(st.dictionaries(st.tuples(WORD, st.none() | WORD), st.integers(1, 10**9), max_size=5))
def test_tres_strings_are_read_back_as_they_were_written(
    items: dict[tuple[str, str | None], int],
) -> None:
    """format_tres and parse_gres_list are each other's inverse."""
    text = format_tres({f"{n}:{t}" if t else n: c for (n, t), c in items.items()})

    assert parse_gres_list(text) == [GresItem(n, t, str(c)) for (n, t), c in items.items()]


def test_anagrams_four_letters_apart_have_one_hash() -> None:
    """Slurm adds letters up by place modulo four: such types cannot be told apart."""
    assert gres_id("abcdXXXX") == gres_id("XXXXabcd")
    assert gres_id("a100") != gres_id("h100")


@given(st.sets(st.from_regex(r"n[0-9]{1,4}", fullmatch=True), min_size=1, max_size=40))
def test_hostlists_are_read_back_as_they_were_folded(names: set[str]) -> None:
    """fold and expand are each other's inverse, padding and all."""
    assert set(expand(fold(names))) == names


_NAME = st.from_regex(r"n[0-9]{0,3}(-ib|[ab][0-9]{1,3})?", fullmatch=True)


@given(st.sets(_NAME, max_size=40))
def test_a_folded_list_is_that_of_its_names_one_by_one(names: set[str]) -> None:
    """Numbers with and without zeros, two numbers in a name, and none."""
    nodes = NodeSet(resolver=RESOLVER_NOGROUP)
    nodes.updaten(sorted(names))
    assert fold(names) == str(nodes)


@given(_NAME)
def test_a_single_name_is_a_list(name: str) -> None:
    """As it stands."""
    assert expand(name) == [name]


@pytest.mark.parametrize(
    "text", ["n[1", "@all", "n*", "n[3-1]", "a!b", "n[1-2]^x", "x&y", "a b", f"n[0-{LIMIT}]",
             "n[0-999][0-999]"]
)  # fmt: skip
def test_what_is_no_hostlist_or_too_long_is_refused(text: str) -> None:
    """Operators, groups, wildcards and endless ranges are refused before they are expanded."""
    with pytest.raises(ValueError, match=r"hostlist|more than"):
        expand(text)


@pytest.mark.parametrize(
    ("state", "usable"),
    [("IDLE", True), ("MIXED", True), ("ALLOCATED", True), ("IDLE+CLOUD", True), ("IDLE~", True),
     ("MIXED+PLANNED", True), ("IDLE*", False), ("DOWN", False), ("DOWN*+DRAIN", False),
     ("IDLE+DRAIN", False), ("MIXED+DRAIN", False), ("INVAL", False), ("IDLE+INVALID_REG", False),
     ("UNKNOWN", False), ("IDLE+MAINTENANCE", False), ("FUTURE", False)],
)  # fmt: skip
def test_node_states_that_slurm_starts_jobs_on(state: str, usable: bool) -> None:
    """A state with its flags, as scontrol prints them."""
    [found] = parse_nodes(NODE.format(state=state))

    assert found.usable is usable


def test_a_node_record_is_read_whole() -> None:
    """Types with dots, sockets, suffixes, reasons with spaces."""
    [found] = parse_nodes(NODE.format(state="MIXED") + "\n\n")

    assert found.gres == {"gpu:a100": 2, "gpu:a100_3g.20gb": 4, "compute": 64, "vram": 2048}
    assert found.free("gpu:a100") == 1
    assert found.sockets_of == {"gpu:a100": frozenset({0, 1}), "gpu:a100_3g.20gb": frozenset({1})}
    assert (found.cpus, found.cpus_used, found.memory, found.memory_used) == (16, 2, 8000, 100)
    assert found.partitions == ("main", "debug")
    assert found.reason == "fan broke [root@2026-01-01]"


@given(st.text())
def test_no_text_makes_the_readers_fail(text: str) -> None:
    """Whatever a program prints."""
    parse_record(text)
    list(parse_nodes("NodeName=" + text))
    list(parse_partitions("PartitionName=" + text))
    list(parse_pending(text))


def test_partitions_know_the_default_and_their_state() -> None:
    """The job that names none goes to the default one."""
    text = (
        "PartitionName=main AllowGroups=ALL Default=YES OverSubscribe=NO State=UP\n"
        "PartitionName=solo Default=NO OverSubscribe=EXCLUSIVE State=DOWN\n"
    )

    main, solo = parse_partitions(text)

    assert (main.name, main.default, main.up) == ("main", True, True)
    assert (solo.default, solo.up, solo.exclusive) == (False, False, True)


@pytest.mark.parametrize(
    ("indices", "tasks"),
    [("", 1), ("3", 1), ("0-9", 10), ("0-9%2", 10), ("1,3,5-7", 5), ("0-10:5", 3), ("0-9:0", 10)],
)
def test_array_indices_are_counted(indices: str, tasks: int) -> None:
    """As sbatch --array takes them."""
    assert array_tasks(indices) == tasks


def pending_line(job: str, reason: str = "Resources", tres: str = "gres/gpu:a100:1") -> str:
    cells = [
        (job, 64),
        ("main", 256),
        ("10", 24),
        ("2", 24),
        (reason, 64),
        (tres, 1100),
        ("N/A", 256),
    ]
    return "".join(text.ljust(width) for text, width in cells)


def test_pending_jobs_count_their_nodes_and_array_tasks() -> None:
    """12_[3-6,9%2] is five tasks of two nodes each; a held one does not queue."""
    array, held = parse_pending(
        pending_line("12_[3-6,9%2]") + "\n" + pending_line("13", reason="JobHeldUser")
    )

    assert array.nodes == 10
    assert array.tres_per_node == "gres/gpu:a100:1"
    assert (array.queued, held.queued) == (True, False)


def test_members_of_a_list_are_bounded_and_kept() -> None:
    """A list of a few letters may stand for thousands of names; the same one is spelt out once."""
    assert members("n[1-3],m7") == {"n1", "n2", "n3", "m7"}
    assert members("n[1-3],m7") is members("n[1-3],m7")
    with pytest.raises(ValueError, match="more than 10 nodes"):
        members("n[00001-65000]", 10)
