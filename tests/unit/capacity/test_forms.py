"""The figures as tables, as Prometheus text and as a page."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from hpcmgr.capacity import Picture, as_data
from hpcmgr.capacity.page import page
from hpcmgr.capacity.prometheus import exposition
from hpcmgr.cli.capacity_tables import drawn, sections, widths
from hpcmgr.slurm.preemption import Controller
from tests.builders import cluster, node
from tests.unit.capacity.test_demand import BY_QOS, JOBS, NOW, STATE, job, picture

EVIL = "<script>alert(1)</script> & \"quoted\" 'too'"
DEVICES = {1: {"g1": (("gpu:a100", (1, 3)),)}, 2: {"g2": (("gpu:t4", (0,)),)}}


def busy(**more: object) -> Picture:
    state = replace(
        STATE,
        nodes=(
            *STATE.nodes,
            node("d1", gres={"gpu:a100": 4}, usable=False, state="IDLE+DRAIN", reason=EVIL),
            node("c1", gres={"gpu:t4": 2}, cpus_used=32),
        ),
    )
    return picture(*JOBS, state=state, controller=BY_QOS, taken=NOW, devices=DEVICES, **more)


def samples(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """metric → label values in order → value, as Prometheus' own library reads it."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            place = found.setdefault(sample.name, {})
            key = tuple(sample.labels.values())
            assert key not in place, f"{sample.name} twice"
            place[key] = sample.value
    return found


def test_prometheus_text_has_the_figures_of_the_json() -> None:
    """Parts sum up to the whole; waiting, preemption and users too; bytes are bytes."""
    data = as_data(busy())
    found = samples(exposition(busy(), "user"))

    for each in data["types"]:
        for metric, what, factor in (("devices", "devices", 1), ("units", "units", 1),
                                     ("device_memory_bytes", "memory_gib", 1 << 30)):  # fmt: skip
            mine = {key[2]: value for key, value in found[f"hpcmgr_capacity_{metric}"].items()
                    if key[0] == each["gres"]}  # fmt: skip
            assert sum(mine.values()) == each[what]["total"] * factor
            assert mine["used"] == each[what]["used"] * factor
            assert mine["free_usable"] == each[what]["usable"] * factor
            assert mine["out"] == each[what]["out"] * factor
    assert found["hpcmgr_capacity_waiting_devices"][("gpu:a100", "turn")] == 5
    assert found["hpcmgr_capacity_waiting_devices"][("npu", "other")] == 2
    assert found["hpcmgr_capacity_preemptable_devices"][("gpu:a100", "QOS high")] == 2
    assert found["hpcmgr_capacity_user_devices"][("alice", "held")] == 2
    assert found["hpcmgr_capacity_nodes"] == {("yes",): 4, ("no",): 1}
    assert found["hpcmgr_capacity_taken_timestamp_seconds"][()] == NOW


@given(st.text(max_size=40))
def test_any_name_is_a_label(name: str) -> None:
    """Quotes, backslashes and line breaks come back as they were."""
    text = exposition(picture(job(1, gres={"gpu:a100": 1}, user=name)), "user")
    lines = [line for line in text.split("\n") if line.startswith("hpcmgr_capacity_user_jobs")]

    assert len(lines) == 2
    if not set(name) & set("\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"):  # the reader splits there
        assert (name, "held") in samples(text)["hpcmgr_capacity_user_jobs"]


def test_no_empty_metric_is_announced() -> None:
    """An empty cluster has a look, and no devices."""
    found = samples(exposition(picture(state=cluster())))

    assert "hpcmgr_capacity_devices" not in found
    assert found["hpcmgr_capacity_nodes"] == {("yes",): 0, ("no",): 0}


@pytest.mark.parametrize("by", ["type", "node", "partition", "class", "user", "account"])
def test_every_table_can_be_drawn(by: str) -> None:
    """Wide or narrow; rows fit their headers."""
    from rich.console import Console

    parts = sections(as_data(busy(), by), by)  # type: ignore[arg-type]
    for section in parts:
        assert all(len(row) == len(section.headers) for row in section.rows)
        assert not section.bars or len(section.bars) == len(section.rows)
    for width in (40, 80, 200):
        console = Console(width=width, force_terminal=True, color_system=None)
        with console.capture() as shown:
            console.print(drawn(parts, "head", width))
        assert "head" in shown.get()
        assert ("\u2588\u2588" in shown.get()) is (width == 200 and by not in {"user", "account"})


@pytest.mark.parametrize("by", ["type", "node", "partition", "class", "user", "account"])
def test_a_terminal_of_60_columns_shows_whole_names(by: str) -> None:
    """Columns go before names do."""
    first = sections(as_data(busy(), by), by)[0].within(60)  # type: ignore[arg-type]

    assert first._width() <= 60
    assert first.headers[0] == by


def test_why_free_devices_are_not_usable_stands_in_the_table() -> None:
    """c1 has no CPUs left."""
    [fragments] = [part for part in sections(as_data(busy()), "type")
                   if part.headers[0] == "free devices"]  # fmt: skip

    assert ["gpu:t4", "", "2", "-", "no CPUs beside them", "c1"] in fragments.rows
    assert ["npu:ascend910b3", "1", "8", "64", "", "n1"] in fragments.rows


@given(
    st.tuples(*[st.integers(0, 5000)] * 5).filter(any),
    st.integers(5, 60),
)
def test_bars_share_out_their_cells(values: tuple[int, ...], cells: int) -> None:
    """All cells are used, what is there is seen, what is not is not."""
    used, usable, idle, reserved, out = values
    tally = {"total": sum(values), "used": used, "usable": usable, "free": usable + idle,
             "reserved": reserved, "out": out}  # fmt: skip
    found = widths(tally, cells)

    assert sum(found) == cells
    assert [bool(width) for width in found] == [bool(value) for value in values]


def test_the_page_loads_nothing_and_escapes_everything() -> None:
    """No address, no markup from a reason, a policy that forbids the rest."""
    html = page(busy())

    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html
    assert not re.search(r"(?i)\b(?:https?:)?//[a-z]|\bsrc=|\bhref=|@import|url\(", html)
    assert "default-src 'none'" in html


def test_the_map_shows_each_device_where_slurm_has_it() -> None:
    """Job 1 holds devices 1 and 3 of g1; the third that is in use there has no known place."""
    cells = re.findall(r'<div class="node[^"]*" title="(\w+):[^"]*"><div>(.*?)</div>', page(busy()))
    marks = {name: re.findall(r'<i class="(\w+)"(?: title="([^"]*)")?>', inner)
             for name, inner in cells}  # fmt: skip

    assert [state for state, _ in marks["g1"]] == ["used", "used", "usable", "used"]
    assert marks["g1"][1][1] == "gpu:a100 1: job 1, alice, science"
    assert [state for state, _ in marks["d1"]] == ["out"] * 4
    assert [state for state, _ in marks["c1"]] == ["idle"] * 2


def test_where_slurm_hides_jobs_no_job_stands_in_a_page() -> None:
    """A page made by root is read by all."""
    hidden = replace(busy(), controller=Controller(private=frozenset({"jobs"})))

    assert "alice" in page(busy())
    assert "alice" not in page(hidden)
    assert "job 1" not in page(hidden)


def test_an_empty_cluster_has_a_page() -> None:
    """Nothing waits, nothing is lost."""
    assert "Nothing waits" in page(picture(state=cluster()))
