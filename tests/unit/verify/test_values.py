"""Device files, core lists, machines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.verify.values import expand_files, format_cores, parse_cores


def test_files_expand_in_their_order() -> None:
    """Order is what Slurm numbers devices by."""
    assert expand_files("/dev/x[2,0-1],/dev/card[08-09]") == [
        "/dev/x2", "/dev/x0", "/dev/x1", "/dev/card08", "/dev/card09"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["/dev/x[0-999999999]", "/dev/x[3-0]", "/dev/x[0--3]", "/dev/x[0,,3]", "/dev/x[0", ",a"]
)
def test_what_is_no_list_of_files_is_refused(text: str) -> None:
    """With a reason, and without filling the memory."""
    with pytest.raises(ValueError):
        expand_files(text)


@given(st.sets(st.integers(0, 500), min_size=1))
def test_cores_survive_writing_and_reading(cores: set[int]) -> None:
    """What is formatted is read back."""
    assert parse_cores(format_cores(cores)) == cores


def test_bracketed_cores_are_read() -> None:
    """SchedMD's own examples write Cores=[0-3]."""
    assert parse_cores("[0-3]") == {0, 1, 2, 3}
