"""What users write, and what it means."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.errors import RequestError
from hpcmgr.submit.request import Ask, Direct, read_fields, read_request

GPUS = frozenset({"gpu", "npu"})


def ask(text: str, **fields: object) -> Ask | Direct | None:
    return read_request(read_fields({"tres_per_node": text, **fields}), GPUS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gres/compute:8", Ask(8)),
        ("gres:compute:8", Ask(8)),
        ("gres/compute=8", Ask(8)),
        ("compute:1K", Ask(1024)),
        ("gres/compute:train:16", Ask(16, "train")),
        ("gres/compute:8,gres/vram:80G", Ask(8, vram_total=80)),
        ("gres/compute:8,gres/vram:80", Ask(8, vram_total=80)),
        ("gres/compute:8,gres/vram:80gb", Ask(8, vram_total=80)),
        ("gres/compute:8,gres/vram:1.5T", Ask(8, vram_total=1536)),
        ("gres/compute:8,gres/vram:40000M", Ask(8, vram_total=40)),
        ("gres/compute:8,gres/vram:each:40G", Ask(8, vram_each=40)),
        ("gres/vram:40", Ask(0, vram_total=40)),
        ("gres/compute:8,gres/tmpfs:100G", Ask(8, others=("tmpfs:100G",))),
    ],
)
def test_every_way_to_write_a_neutral_request_is_understood(text: str, expected: Ask) -> None:
    """Prefixes, suffixes, selectors and foreign GRES are read as Slurm's users write them."""
    assert ask(text) == expected


def test_a_count_that_is_missing_counts_one_and_the_user_is_told() -> None:
    """Slurm takes a missing count for 1; so do we, with a note."""
    found = ask("gres/compute:train")

    assert isinstance(found, Ask)
    assert (found.units, found.selector) == (1, "train")
    assert "no count" in found.notes[0]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("gres/compute:0", "'0' is no whole number"),
        ("gres/compute:-8", "'-8' is no whole number"),
        ("gres/compute:2.5", "'2.5' is no whole number"),
        ("gres/compute:99999999999999999999", "no whole number from 1 to 1000000"),
        ("gres/compute:", "'' is no whole number"),
        ("gres/compute:unbound:8", "set by the system alone"),
        ("gres/compute:8,gres/compute:npu:8", "asked twice"),
        ("gres/compute:8,gres/vram:much", "only vram:GiB"),
        ("gres/compute:8,gres/vram:1e3", "no amount of memory"),
        ("gres/compute:8,gres/vram:0", "no amount of memory"),
        ("gres/compute:8,gres/vram:all:40", "only vram:GiB"),
        ("gres/compute:8:9:10", "a request is compute:N"),
        ("gres/compute:8,gres/gpu:a100:1", "cannot stand beside"),
    ],
)
def test_a_request_that_means_nothing_is_refused_in_words_for_its_user(
    text: str, part: str
) -> None:
    """Zero, negative, fractional, huge, doubled and mixed requests each get their own text."""
    with pytest.raises(RequestError, match=part.replace(".", r"\.")):
        ask(text)


@pytest.mark.parametrize(
    "field",
    [
        {"tres_per_job": "gres/gpu:2"},
        {"tres_per_task": "gres/gpu:1"},
        {"tres_per_socket": "gres/gpu:1"},
        {"cpus_per_tres": "gres/gpu:4"},
        {"mem_per_tres": "gres/gpu:8192"},
        {"ntasks_per_tres": 2},
    ],
)
def test_compute_beside_a_gpu_option_is_refused(field: dict[str, object]) -> None:
    """Every --gpus option beside compute is refused with a hint."""
    with pytest.raises(RequestError, match="ask for compute:N alone"):
        ask("gres/compute:8", **field)


@pytest.mark.parametrize("field", ["tres_per_job", "tres_per_socket"])
def test_compute_for_a_job_or_a_socket_is_refused(field: str) -> None:
    """Units belong to a node or to a task."""
    with pytest.raises(RequestError, match="--gres=compute:N"):
        read_request(read_fields({field: "gres/compute:8"}), GPUS)


def test_units_per_task_are_read_beside_what_else_a_task_takes() -> None:
    """--tres-per-task=cpu=4,gres/compute:2 asks 2 units a task."""
    fields = read_fields({"tres_per_task": "cpu=4,gres/compute=2", "tres_per_node": "gres/tmp:1"})

    assert read_request(fields, GPUS) == Ask(2, per_task=True, others=("tmp:1",))


@pytest.mark.parametrize("text", ["", "gres/tmpfs:10G", "gres/license:1", "gres/computer:3"])
def test_a_request_without_devices_is_none_of_ours(text: str) -> None:
    """No neutral unit and no accelerator: nothing to do."""
    assert ask(text) is None


def test_a_direct_request_keeps_its_devices_and_its_company() -> None:
    """Devices asked by name are told apart from other GRES."""
    found = ask("gres/gpu:a100:2,gres/tmpfs:10G")

    assert isinstance(found, Direct)
    assert [(i.name, i.type, i.number) for i in found.items] == [("gpu", "a100", 2)]
    assert found.others == ("tmpfs:10G",)


@pytest.mark.parametrize("where", ["tres_per_job", "tres_per_task", "tres_per_socket"])
def test_direct_requests_are_found_in_every_field(where: str) -> None:
    """--gpus, --gpus-per-task and --gpus-per-socket stand in fields of their own."""
    found = read_request(read_fields({where: "gres/gpu:a100:2"}), GPUS)

    assert isinstance(found, Direct)
    assert found.where == where


def test_of_several_fields_the_one_that_tells_a_nodes_devices_counts() -> None:
    """--gpus beside --gpus-per-node: the total adds nothing to what a node has."""
    fields = read_fields(
        {"tres_per_job": "gres/gpu:4", "tres_per_node": "gres/gpu:2", "tres_per_task": "gres/gpu=1"}
    )
    found = read_request(fields, GPUS)

    assert isinstance(found, Direct)
    assert found.where == "tres_per_node"


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"tres_per_node": "gres/gpu:t4:1,gres/gpu:t4:1"}, "asked twice"),
        ({"ntasks_per_tres": 1, "num_tasks": 2}, "does not say how many devices"),
        ({"tres_per_node": "gres/compute:\u0668"}, "no whole number"),
    ],
)
def test_devices_that_cannot_be_counted_are_refused(fields: dict[str, object], part: str) -> None:
    """Doubled entries, --ntasks-per-gpu alone, digits that Slurm does not read."""
    with pytest.raises(RequestError, match=part):
        read_request(read_fields(fields), GPUS)


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_makes_the_reader_fail(one: str, two: str) -> None:
    """Whatever stands in the fields, the outcome is a request, nothing, or a text for the user."""
    with contextlib.suppress(RequestError):
        read_request(read_fields({"tres_per_node": f"compute:{one},{two}"}), GPUS)
    with contextlib.suppress(RequestError):
        read_request(read_fields({"tres_per_task": one, "tres_per_job": two}), GPUS)


@given(st.integers(1, 1_000_000), st.integers(1, 1_000_000))
def test_what_is_printed_of_a_request_is_read_back_the_same(units: int, gib: int) -> None:
    """str(Ask) is the request in its shortest form."""
    request = Ask(units, "npu", vram_total=gib)

    assert ask(str(request)) == request
