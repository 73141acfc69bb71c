"""dev.txt and the majors that no driver answers."""

from __future__ import annotations

import pytest

from lightcluster.devices import (
    DeviceNode,
    majors_in_use,
    map_majors,
    parse_dev_txt,
    without_drivers,
)
from lightcluster.errors import LightClusterError


def test_a_line_is_path_type_major_minor_mode() -> None:
    """Comments and blank lines do not count."""
    text = "# a comment\n\n/dev/davinci0 c 236 0 0660  # first NPU\n"

    assert parse_dev_txt(text) == [DeviceNode("/dev/davinci0", "c", 236, 0, 0o660)]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("/dev/davinci0 c 236 0", "found 4 fields"),
        ("/etc/passwd c 236 0 0660", "lies under /dev/"),
        ("/dev/../etc/x c 236 0 0660", "lies under /dev/"),
        ("/dev/davinci0 p 236 0 0660", "type is c"),
        ("/dev/davinci0 c x 0 0660", "major is a number"),
        ("/dev/davinci0 c 236 -1 0660", "minor is a number"),
        ("/dev/davinci0 c 236 0 rw", "mode is octal"),
    ],
)
def test_a_bad_line_is_named_with_its_number(line: str, complaint: str) -> None:
    """The message leads to the line."""
    with pytest.raises(LightClusterError, match=rf"host/dev\.txt:2: .*{complaint}"):
        parse_dev_txt(f"\n{line}\n", "host/dev.txt")


def test_majors_of_drivers_are_read_from_both_lists() -> None:
    """/proc/devices lists character and block devices."""
    text = "Character devices:\n  1 mem\n195 nvidia-frontend\n\nBlock devices:\n259 blkext\n"

    assert majors_in_use(text) == {1, 195, 259}


def test_every_recorded_major_gets_one_without_a_driver() -> None:
    """Equal majors stay equal, different ones stay different, taken ones are left out."""
    nodes = parse_dev_txt(
        "/dev/nvidia0 c 195 0 0666\n/dev/nvidia1 c 195 1 0666\n/dev/davinci0 c 236 0 0660\n"
        "/dev/nvme0n1 b 259 0 0660\n"
    )

    majors = map_majors(nodes, taken={513})
    made = without_drivers(nodes, majors)

    assert len(set(majors.values())) == 3
    assert not set(majors.values()) & {195, 236, 259, 513}
    assert made[0].major == made[1].major != made[2].major
    assert [node.minor for node in made] == [0, 1, 0, 0]


def test_the_mapping_is_the_same_each_time() -> None:
    """Two nodes with one recording get equal numbers, in any order of lines."""
    nodes = parse_dev_txt("/dev/a c 10 0 0666\n/dev/b c 20 0 0666\n")

    assert map_majors(nodes) == map_majors(reversed(nodes))
