"""The packaged profiles."""

from __future__ import annotations

import pytest

from hpcmgr.inventory import Device
from hpcmgr.profile import load_library

LIBRARY = load_library()


def device(pci_id: str | None, model: str, memory: int | None = None) -> Device:
    """A device as discovery hands it over."""
    kind = "npu" if "910" in model or "310" in model else "gpu"
    return Device(vendor="x", kind=kind, model=model, pci_id=pci_id, memory_mib=memory)


@pytest.mark.parametrize(
    ("pci_id", "model", "memory", "gres", "units"),
    [
        ("10de:20b2", "NVIDIA A100-SXM4-80GB", 81920, "gpu:a100", 8),
        ("10de:20b5", "NVIDIA A100 80GB PCIe", 81920, "gpu:a100", 8),
        ("10de:20b0", "NVIDIA A100-SXM4-40GB", 40960, "gpu:a100_40g", 8),
        ("10de:1eb8", "Tesla T4", 15360, "gpu:t4", 2),
        ("10de:2330", "NVIDIA H100 80GB HBM3", 81559, "gpu:h100", 25),
        ("10de:1db5", "Tesla V100-SXM2-32GB", 32768, "gpu:v100_32g", 3),
        ("19e5:d802", "910B1", 65536, "npu:ascend910b1", 10),
        ("19e5:d802", "910B3", 65536, "npu:ascend910b3", 8),
        ("19e5:d802", "Ascend 910B3", 65536, "npu:ascend910b3", 8),
        ("19e5:d802", "910B4", 32768, "npu:ascend910b4", 7),
        (None, "910B3", 65536, "npu:ascend910b3", 8),
        ("19e5:d801", "910A", 32768, "npu:ascend910a", 7),
        ("19e5:d500", "310P3", 21525, "npu:ascend310p3", None),
        ("19e5:d500", "310P3", 44278, "npu:ascend310p3_48g", None),
    ],
)
def test_models_are_recognised(
    pci_id: str | None, model: str, memory: int, gres: str, units: int | None
) -> None:
    """Each model has its GRES and its units."""
    profile = LIBRARY.match(device(pci_id, model, memory))

    assert profile is not None
    assert (profile.gres_key, profile.booked_units) == (gres, units)


@pytest.mark.parametrize(
    ("pci_id", "model"),
    [
        ("10de:1c30", "Quadro P2000"),
        ("19e5:d802", "910B2C"),
        ("19e5:d802", "PCI 19e5:d802"),
        ("19e5:d801", "910PremiumA"),
        (None, "Tesla T4"),
    ],
)
def test_what_is_not_sure_matches_nothing(pci_id: str | None, model: str) -> None:
    """A wrong profile is worse than none."""
    assert LIBRARY.match(device(pci_id, model)) is None


def test_an_unreadable_gpu_is_recognised_by_its_pci_id() -> None:
    """A broken tool does not make an A100 unknown."""
    profile = LIBRARY.match(device("10de:20b2", "PCI 10de:20b2"))

    assert profile is not None
    assert profile.name == "a100-80g"


def test_selectors_never_clash() -> None:
    """Kinds, runtimes, vendors and profiles are words of one language."""
    words = [{p.kind for p in LIBRARY.profiles}, {p.runtime for p in LIBRARY.profiles},
             {p.vendor for p in LIBRARY.profiles}, {p.name for p in LIBRARY.profiles}]  # fmt: skip

    assert sum(len(group) for group in words) == len(set().union(*words))


@pytest.mark.parametrize("profile", LIBRARY.profiles, ids=lambda p: p.name)
def test_figures_have_their_source(profile: object) -> None:
    """Who finds a wrong figure must find where it came from."""
    peak = profile.peak  # type: ignore[attr-defined]
    figures = (peak.bf16_dense_tflops, peak.fp32_tflops, peak.mem_bw_gb_s)

    assert bool(peak.source) == any(figures)


@pytest.mark.parametrize("profile", LIBRARY.profiles, ids=lambda p: p.name)
def test_every_device_can_be_made_visible(profile: object) -> None:
    """The runtime's variable is set by Slurm for NVIDIA, by the prolog for Ascend."""
    assert (profile.visible.variable, profile.visible.slurm, profile.gres.flags) in (  # type: ignore[attr-defined]
        ("CUDA_VISIBLE_DEVICES", True, ("nvidia_gpu_env",)),
        ("ASCEND_RT_VISIBLE_DEVICES", False, ()),
    )
