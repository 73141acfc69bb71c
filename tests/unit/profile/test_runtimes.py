"""Which runtime goes with which driver: the makers' tables, and what they do not know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.profile.runtimes import Served, judge, rules, serves


def verdicts(vendor: str, runtime: str, driver: str) -> list[str]:
    """Of each rule of the maker."""
    return [one.verdict for one in judge(vendor, runtime, driver)]


@pytest.mark.parametrize(
    ("runtime", "driver", "expected"),
    [
        ("12.4.1", "550.54.14", ["good", "good"]),
        ("12.4.1", "535.183.06", ["good", "doubtful"]),
        ("12.4.1", "525.60.13", ["good", "doubtful"]),
        ("12.4.1", "525.60.12", ["refused"]),
        ("12.0.0", "470.82.01", ["refused"]),
        ("11.8.0", "450.80.02", ["good", "doubtful"]),
        ("11.2", "450.80.01", ["refused"]),
        ("10.2.89", "440.33", ["good", "unknown"]),
        ("10.1.243", "418.38", ["refused"]),
        ("13.0.0", "580.65.06", ["good", "good"]),
        ("13.3.0", "595.45.04", ["good", "unknown"]),
        ("13.0.0", "575.57", ["refused"]),
        ("9.2", "396.26", ["good", "unknown"]),
        ("7.5", "396.26", ["unknown", "unknown"]),
        ("14.0", "999.0", ["unknown", "unknown"]),
    ],
)
def test_cuda_needs_a_driver_of_its_generation(
    runtime: str, driver: str, expected: list[str]
) -> None:
    """Below the minimum it is refused; below the toolkit's own driver features are missing."""
    assert verdicts("nvidia", runtime, driver) == expected


@pytest.mark.parametrize(
    ("runtime", "driver", "expected"),
    [
        ("6.3.0", "6.3.0", "good"),
        ("6.1.2", "6.3.4", "good"),
        ("5.7.1", "6.3.0", "refused"),
        ("5.7.1", "6.1.0", "good"),
        ("6.3.0", "5.7.1", "refused"),
        ("7.2.1", "30.30.2", "good"),
        ("6.2.4", "30.30.2", "refused"),
        ("7.2.0", "6.4.0", "doubtful"),
        ("7.2.0", "31.10", "unknown"),
        ("3.5.0", "3.5.0", "unknown"),
    ],
)
def test_rocm_and_its_driver_are_a_few_releases_apart(
    runtime: str, driver: str, expected: str
) -> None:
    """As AMD's table has them; a driver that the table does not name is unknown."""
    assert verdicts("amd", runtime, driver) == [expected]


@pytest.mark.parametrize(
    ("runtime", "driver", "expected"),
    [
        ("8.5.0", "25.5.1", "good"),
        ("8.5.0", "25.0.rc1.1", "good"),
        ("8.5.0", "24.1.0.3", "refused"),
        ("8.5.0.alpha001", "25.2.0", "good"),
        ("8.5.0.alpha001", "25.5.0", "doubtful"),
        ("8.1.RC1", "25.0.rc1.1", "good"),
        ("8.0.RC1", "24.1.rc1", "good"),
        ("8.0.RC1", "24.1.0.3", "doubtful"),
        ("7.0.0", "24.1.rc1", "unknown"),
    ],
)
def test_cann_goes_with_the_hdk_of_its_release_notes(
    runtime: str, driver: str, expected: str
) -> None:
    """A list that is complete refuses; a single known pair only doubts."""
    assert verdicts("huawei", runtime, driver) == [expected]


def test_rebellions_and_gaudi() -> None:
    """A table of pairs, and one version for all."""
    assert verdicts("rebellions", "0.10.0", "3.0.0") == ["good"]
    assert verdicts("rebellions", "0.10.0", "2.0.1") == ["doubtful"]
    assert verdicts("rebellions", "0.7.0", "2.0.1") == ["unknown"]
    assert verdicts("habana", "1.22.1", "1.22.1-6f0e1b2") == ["good"]
    assert verdicts("habana", "1.20.0", "1.19.1-26a1a8a") == ["refused"]


def test_every_rule_has_its_source() -> None:
    """And says what happens and what to do."""
    assert len(rules()) == 6
    for rule in rules():
        assert all(source.startswith("https://") for source in rule.sources)
        assert rule.why
        assert rule.fix


versions = st.text(max_size=12) | st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,3}", fullmatch=True)


@given(st.sampled_from([rule.vendor for rule in rules()]), versions, versions)
def test_any_two_texts_get_a_verdict(vendor: str, runtime: str, driver: str) -> None:
    """Whatever a tool printed; a maker without rules gets none."""
    assert all(
        one.verdict in ("good", "refused", "doubtful", "unknown")
        for one in judge(vendor, runtime, driver)
    )
    assert judge("nobody", runtime, driver) == []


@pytest.mark.parametrize(
    ("vendor", "driver", "runtime", "expected"),
    [
        # A CUDA driver serves its own release and all before it, newer ones of the generation only
        # by minor-version compatibility.
        ("nvidia", "550.54.14", "cuda", Served(None, "12.4")),
        ("nvidia", "550.54.13", "cuda", Served(None, "12.3")),
        ("nvidia", "470.82.01", "cuda", Served(None, "11.4")),
        ("nvidia", "440.100", "cuda", Served(None, "10.2")),
        ("nvidia", "340.10", "cuda", None),
        ("nvidia", "550.54.14", "rocm", None),
        # AMD's modules count apart from the releases; a kernel's own driver tells its kernel.
        ("amd", "6.10.5", "rocm", Served("6.1", "7.0")),
        ("amd", "6.3.6", "rocm", Served("5.6", "6.2")),
        ("amd", "6.16.13", "rocm", Served("6.3", "7.2")),
        ("amd", "6.3", "rocm", None),
        ("amd", "6.7.0-060700-generic", "rocm", None),
        ("huawei", "25.5.1", "cann", Served("8.5.0", "8.5.0")),
        ("huawei", "25.2.0", "cann", Served("8.5.0.alpha001", "8.5.0")),
        ("huawei", "22.0.4", "cann", None),
        ("rebellions", "3.0.0", "rbln", Served("0.10.0", "0.10.0")),
        ("habana", "1.22.1-6f0e1b2", "synapseai", Served("1.22.1", "1.22.1")),
        ("cambricon", "6.2.10", "neuware", None),
        ("nvidia", None, "cuda", None),
        ("nvidia", "garbage", "cuda", None),
    ],
)
def test_what_a_driver_serves(
    vendor: str, driver: str | None, runtime: str, expected: Served | None
) -> None:
    """By the makers' tables; None where they say nothing."""
    assert serves(vendor, driver, runtime) == expected


def test_the_drivers_own_word_is_believed() -> None:
    """nvidia-smi prints the newest CUDA of its driver, also of one that no table has yet."""
    assert serves("nvidia", "999.1", "cuda", told="19.4") == Served(None, "19.4")
    assert serves("metax", "2.14.6", "maca", told="2.31.0.6") == Served(None, "2.31.0.6")
