"""Whatever comes in: no exception leaves the shim, and no units run without a device."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lua.shim_host import INVALID_GRES, REQUESTS, SUCCESS, JobDesc, Slurmctld, update_of

ANY_TEXT = st.text(st.characters(max_codepoint=255, exclude_characters="\0"), max_size=40)
NAMES = st.sampled_from(
    [
        "compute",
        "vram",
        "Compute",
        "computex",
        "xvram",
        "gpu",
        "npu",
        "fs",
        "cpu",
        "license/compute",
    ]
)
PREFIXES = st.sampled_from(["", "gres/", "gres:", "GRES/", " gres/"])
TAILS = st.one_of(
    st.sampled_from(
        ["", ":8", "=8", ":train", ":train:8", ":0", ":-1", ":2.5", ":80G", ":each:4G"]
    ),
    st.builds(lambda text: ":" + text.replace(",", ""), ANY_TEXT),
)
ITEMS = st.builds(lambda *parts: "".join(parts), PREFIXES, NAMES, TAILS)
REQUEST = st.one_of(st.lists(ITEMS, min_size=1, max_size=3).map(",".join), ANY_TEXT)
JOB_FIELDS = st.dictionaries(
    st.sampled_from([*REQUESTS, "cpus_per_tres", "mem_per_tres", "comment", "features"]),
    REQUEST,
    max_size=4,
)
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), ANY_TEXT,
        st.sampled_from([0, 1, 65534, 2**31, "", "gpu:a100:1", "compute:8", "gres/gpu:1",
                         "gpu:a100:1,compute:8", "compute:unbound:8", "gres/gpu:1,gres/compute:8",
                         "hpcmgr:{}"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(ANY_TEXT, inner, max_size=3)
    ),
    max_leaves=6,
)  # fmt: skip
SET = st.dictionaries(
    st.sampled_from(
        ["gres", "gres", "tres_per_job", "tres_per_socket", "tres_per_task", "cpus_per_tres",
         "mem_per_tres", "features", "admin_comment", "num_tasks", "cpus_per_task", "priority"]
    ),
    VALUES,
    max_size=4,
)  # fmt: skip
ANSWERS = st.one_of(
    st.binary(max_size=200),
    st.binary(max_size=50).map(lambda tail: b'{"v":1,' + tail + b"\n"),
    VALUES.map(lambda value: json.dumps(value).encode() + b"\n"),
    st.fixed_dictionaries(
        {"v": st.sampled_from([1, 1, 1, 0, 2, "1"])},
        optional={
            "set": st.one_of(SET, VALUES),
            "enforce_binding": st.one_of(st.booleans(), VALUES),
            "message": st.one_of(st.lists(ANY_TEXT, max_size=10), VALUES),
            "error": st.one_of(ANY_TEXT, VALUES),
            "pass": st.one_of(st.booleans(), VALUES),
            "hold": st.one_of(st.booleans(), VALUES),
            "error_code": VALUES,
        },
    ).map(lambda answer: json.dumps(answer).encode() + b"\n"),
)
FUZZ = settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])


def names_of(text: str) -> list[str]:
    """Names of a GRES list, as Slurm would read them at its most lenient."""
    names = []
    for item in text.split(","):
        name = item.strip().lower()
        while name.startswith(("gres/", "gres:")):
            name = name[5:].strip()
        names.append(name.replace("=", ":").split(":")[0].strip())
    return names


def is_neutral(fields: dict[str, str]) -> bool:
    return any(
        name in ("compute", "vram")
        for field in (*REQUESTS, "cpus_per_tres", "mem_per_tres")
        for name in names_of(fields.get(field, ""))
    )


def assert_not_let_through(job: JobDesc, before: dict[str, str]) -> None:
    """Rewritten to devices, or held."""
    wanted = ",".join(str(job[field] or "") for field in REQUESTS)
    if job["priority"] == 0:
        assert str(job["tres_per_node"]).startswith("gres/compute:unbound:")
        record: dict[str, Any] = json.loads(str(job["admin_comment"]).removeprefix("hpcmgr:"))
        assert record["state"] == "unbound"
    else:
        assert {"gpu", "npu"} & set(names_of(wanted))
        assert "unbound" not in wanted
        for field in REQUESTS:
            if is_neutral({field: before.get(field, "")}):
                assert any(name in (field, "gres") for name, _ in job.written)


@FUZZ
@given(fields=JOB_FIELDS, answer=ANSWERS, away=st.sampled_from(["hold", "reject"]))
def test_no_answer_lets_units_through_without_a_device(
    fields: dict[str, str], answer: bytes, away: str
) -> None:
    """Accepted in neutral units means rewritten to devices or held; refused means untouched."""
    host, job = Slurmctld(away=away), JobDesc(**fields)
    host.service.answers(answer)

    rc = host.submit(job)

    assert rc in (SUCCESS, INVALID_GRES)
    assert job.unknown_writes == []
    assert host.service.open_sockets == 0
    assert not [line for line in host.lines("error") if "fault in the shim" in line]
    if rc == INVALID_GRES:
        assert job.written == []
    elif is_neutral(fields):
        assert_not_let_through(job, fields)


@FUZZ
@given(fields=JOB_FIELDS)
def test_a_rewrite_is_applied_to_every_neutral_request_or_to_none_of_it(
    fields: dict[str, str],
) -> None:
    """The same answer meets requests of all forms."""
    host, job = Slurmctld(), JobDesc(**fields)
    host.service.answers({"v": 1, "set": {"gres": "gpu:a100:1,compute:8", "num_tasks": 1}})

    rc = host.submit(job)

    if rc == SUCCESS and is_neutral(fields):
        assert_not_let_through(job, fields)
    assert [name for name, _ in job.written] in ([], ["gres", "num_tasks"]) or job["priority"] == 0


@FUZZ
@given(fields=JOB_FIELDS, record=st.one_of(ANY_TEXT, st.just('hpcmgr:{"state":"unbound"}')))
def test_no_update_of_a_user_brings_units_in(fields: dict[str, str], record: str) -> None:
    """And none raises."""
    rc = Slurmctld().modify(update_of(**fields), {"admin_comment": record})

    assert rc != SUCCESS or not is_neutral(fields)
