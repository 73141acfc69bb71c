"""Link matrices as tools print them inside of jobs and on odd terminals."""

from __future__ import annotations

import pytest

from hpcmgr.discovery import topo_matrix

LINKS = {("GPU0", "GPU1"): "NV12", ("GPU0", "NIC0"): "PXB", ("GPU1", "NIC0"): "SYS"}


@pytest.mark.parametrize(
    "text",
    [
        # In full.
        (
            "        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
            "GPU0     X      NV12    PXB     0-15,32-47      0               N/A\n"
            "GPU1    NV12     X      SYS     16-31,48-63     1               N/A\n"
            "NIC0    PXB     SYS      X\n"
        ),
        # A job's cpuset has no core of GPU 1: its cell is empty, and the next ones move up.
        (
            "        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
            "GPU0     X      NV12    PXB     0-3             0               N/A\n"
            "GPU1    NV12     X      SYS                     1               N/A\n"
            "NIC0    PXB     SYS      X\n"
        ),
        # Nobody knows the NUMA node; tabs; the heading is underlined.
        (
            "\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
            "GPU0\t X \tNV12\tPXB\tN/A\tN/A\n"
            "GPU1\tNV12\t X \tSYS\t\t\n"
            "NIC0\tPXB\tSYS\t X \t\t\n"
        ),
        # No affinity at all.
        "GPU0 GPU1 NIC0\nGPU0 X NV12 PXB\nGPU1 NV12 X SYS\nNIC0 PXB SYS X\n",
    ],
)
def test_affinity_columns_do_not_shift_links(text: str) -> None:
    """Cells of links are never empty; what follows them is not read."""
    for told in (text, text.replace("\x1b", "")):
        matrix = topo_matrix.parse(told, "GPU")

        assert matrix is not None
        assert matrix.links == LINKS


def test_a_row_that_does_not_fit_is_passed_over() -> None:
    """Its own place must hold the X."""
    text = "GPU0 GPU1 GPU2\nGPU0 X NV1 NV2\nGPU1 NV1 NV4\nGPU2 NV2 NV4 X\n"
    matrix = topo_matrix.parse(text, "GPU")

    assert matrix is not None
    assert matrix.links == {
        ("GPU0", "GPU1"): "NV1", ("GPU0", "GPU2"): "NV2", ("GPU1", "GPU2"): "NV4"
    }  # fmt: skip
