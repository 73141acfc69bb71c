"""A job as it is written for sbatch, read into what sbatch sends."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.cli.sbatchline import read_line
from hpcmgr.errors import UsageProblem
from hpcmgr.slurm.record import UNLIMITED, time_limit
from hpcmgr.submit.request import ENFORCE_BIND, NTASKS_SET, Field, read_fields

# What sbatch of 24.11 and 26.05 sends (tests/slurm/test_jobs.py sees it for more).
SENT: dict[str, dict[str, Field]] = {
    "": {},
    "-N2": {"min_nodes": 2, "max_nodes": 2},
    "--nodes=2-4": {"min_nodes": 2, "max_nodes": 4},
    "-n4": {"num_tasks": 4, "bitflags": NTASKS_SET},
    "-c 4": {"cpus_per_task": 4, "pn_min_cpus": 4},
    "--mem=2G": {"min_mem_per_node": 2048},
    "--mem=2000": {"min_mem_per_node": 2000},
    "--mem-per-cpu=100K": {"min_mem_per_cpu": 1},
    "-t60": {"time_limit": 60},
    "-w a[1-3]": {"req_nodes": "a[1-3]", "min_nodes": 3},
    "-w a1 -N1": {"req_nodes": "a1", "min_nodes": 1, "max_nodes": 1},
    "-C 'a&b'": {"features": "a&b"},
    "--exclusive": {"shared": 0},
    "--exclusive=user": {"shared": 2},
    "-s": {"shared": 1},
    "--array=0-3%2": {"array_inx": "0-3%2"},
    "--gres-flags=enforce-binding": {"bitflags": ENFORCE_BIND},
}


@pytest.mark.parametrize("options", SENT)
def test_options_become_what_sbatch_sends(options: str) -> None:
    """Before the request or behind it, in one word or in several."""
    line = read_line([f"compute:8 {options}"], {})
    before = read_line([f"{options} --gres=compute:8".strip()], {})

    assert line.fields == {"tres_per_node": "compute:8", "batch": True, **SENT[options]}
    assert before.fields == line.fields
    assert read_fields(line.fields).string("tres_per_node") == "compute:8"


def test_devices_may_be_asked_as_sbatch_has_them() -> None:
    """--gpus and its kin are GRES; a request may stand beside them."""
    assert read_line(["--gpus=a100:2"], {}).fields["tres_per_job"] == "gres/gpu:a100:2"
    assert read_line(["--gpus-per-node=2"], {}).fields["tres_per_node"] == "gres/gpu:2"
    assert read_line(["--tres-per-task=gres/compute:8", "-n2"], {}).fields["num_tasks"] == 2
    assert read_line(["gpu:1 --cpus-per-gpu=2"], {}).fields["cpus_per_tres"] == "gres/gpu:2"
    assert read_line(["gpu:1 --mem-per-gpu=1G"], {}).fields["mem_per_tres"] == "gres/gpu:1024"


def test_the_line_is_handed_on_to_sbatch_as_it_was_written() -> None:
    """For --test-only."""
    line = read_line(["-N2 compute:train:16 -t 1:00:00 --exclusive"], {})

    assert line.options == ("-N2", "--gres=compute:train:16", "-t", "1:00:00", "--exclusive")
    assert read_line(["--gpus=2", "-N1"], {}).options == ("--gpus=2", "-N1")


def test_variables_of_sbatch_count_where_no_option_says_more() -> None:
    """As for sbatch."""
    there = {"SBATCH_TIMELIMIT": "2:00:00", "SBATCH_PARTITION": "gpu", "SBATCH_QOS": ""}
    fields = read_line(["compute:8", "-p", "main"], there).fields

    assert fields["time_limit"] == 120
    assert fields["partition"] == "main"
    assert "qos" not in fields


@pytest.mark.parametrize(
    "text", ["", "-N2", "compute:8 --wrap=x", "compute:8 -N two", "compute:8 -N3-2", "compute:8 'x",
             "a b", "compute:8 --mem=lots", "compute:8 -n0", "compute:8 -t soon", "compute:8 -w n[",
             "compute:8 --exclusive=x", "compute:8 --gres-flags=x", "compute:8 -N"],
)  # fmt: skip
def test_what_is_no_request_is_a_usage_error(text: str) -> None:
    """Nothing else of sbatch gets through."""
    with pytest.raises(UsageProblem):
        read_line([text], {})


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("60", 60), ("1:30", 2), ("1:00", 1), ("1:00:00", 60), ("0:0:1", 1), ("1-0", 1440),
     ("1-2", 1560), ("1-2:03", 1563), ("1-2:03:04", 1564), ("UNLIMITED", UNLIMITED),
     ("infinite", UNLIMITED), ("0", UNLIMITED), ("", None), ("soon", None), ("1:2:3:4", None),
     ("-5", None), ("1-", None), ("1-2:3:4:5", None)],
)  # fmt: skip
def test_time_limits_of_every_form(text: str, minutes: int | None) -> None:
    """Begun minutes count whole."""
    assert time_limit(text) == minutes


@given(st.lists(st.text(max_size=12), max_size=4))
def test_any_words_are_read_or_refused_in_words(words: list[str]) -> None:
    """Never another exception."""
    with contextlib.suppress(UsageProblem):
        read_fields(dict(read_line(words, {}).fields))
