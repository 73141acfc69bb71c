"""The packaged profiles."""

from __future__ import annotations

import pytest

from hpcmgr.errors import ConfigError
from hpcmgr.inventory import Device
from hpcmgr.profile import load_library

LIBRARY = load_library()
DEVICES = [profile for profile in LIBRARY.profiles if profile.slice_of is None]
SLICES = [profile for profile in LIBRARY.profiles if profile.slice_of is not None]


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
        ("10de:2901", "NVIDIA B200", 183359, "gpu:b200", 58),
        ("10de:31c2", "NVIDIA GB300", None, "gpu:gb300", 64),
        ("10de:2237", "NVIDIA A10G", 23028, "gpu:a10g", None),
        ("19e5:d806", "Ascend950DT", None, "npu:ascend950dt", 12),
        ("19e5:d802", "910B1", 65536, "npu:ascend910b1", 10),
        ("19e5:d802", "910B3", 65536, "npu:ascend910b3", 8),
        ("19e5:d802", "Ascend 910B3", 65536, "npu:ascend910b3", 8),
        ("19e5:d802", "910B4", 32768, "npu:ascend910b4", 7),
        (None, "910B3", 65536, "npu:ascend910b3", 8),
        ("19e5:d801", "910A", 32768, "npu:ascend910a", 7),
        ("19e5:d500", "310P3", 21525, "npu:ascend310p3", None),
        ("19e5:d500", "310P3", 44278, "npu:ascend310p3_48g", None),
        ("1002:74a1", "AMD Instinct MI300X", 196592, "gpu:mi300x", 34),
        ("1002:74a1", "MI300X-O", None, "gpu:mi300x", 34),
        ("1002:74a1", "AMD Instinct MI300X", 24574, "gpu:mi300x_cpx", 4),
        ("1002:74a0", "MI300A", 64289, "gpu:mi300a", 25),
        ("1002:740f", "PCI 1002:740f", 65520, "gpu:mi210", None),
        ("1002:66a1", "Vega 20", 16368, "gpu:mi50", None),
        ("1002:66a1", "Vega 20", 32752, "gpu:mi50_32g", None),
        ("8086:e223", "Intel(R) Arc(TM) Pro B70 Graphics", None, "gpu:arc_pro_b70", None),
        ("8086:0bd5", "Intel(R) Data Center GPU Max 1550", 131072, "gpu:max1550", None),
        ("1da3:1020", "HL-225", 98304, "npu:gaudi2", 11),
        ("1da3:1063", "PCI 1da3:1063", None, "npu:gaudi3", 43),
        ("1d94:6211", "PCI 1d94:6211", 65520, "dcu:k100_ai", 5),
        ("19e5:d803", "Ascend910", 65536, "npu:ascend910c", 10),
        ("cabc:0370", "MLU370-X4", 23308, "npu:mlu370_x4", 2),
        ("cabc:0370", "MLU370-X8", 23374, "npu:mlu370_x8", 1),
        (None, "MetaX N260", 65536, "gpu:n260", None),
        ("9999:0a01", "MetaX C500", 65536, "gpu:c500", 6),
        (None, "Iluvatar BI-V150S", 32768, "gpu:bi_v150s", None),
        (None, "Iluvatar MR-V100 DUO", 32768, "gpu:mr_v100_duo", None),
        ("1ed5:0400", "MTT S5000", 81920, "gpu:mtt_s5000", None),
        (None, "S60", 49120, "npu:s60", None),
        (None, "R300", 32768, "npu:r300", None),
        (None, "P800 OAM", 98304, "npu:p800", None),
        ("1d0f:7364", "PCI 1d0f:7364", 98304, "npu:trainium2", 17),
        ("1e52:401e", "n300 L", None, "npu:n300", 3),
        ("1eff:1120", "RBLN-CA12", 16076, "npu:rbln_ca12", None),
        ("1ed2:0001", "rngd", 48640, "npu:rngd", 7),
    ],
)
def test_models_are_recognised(
    pci_id: str | None, model: str, memory: int | None, gres: str, units: int | None
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
        ("19e5:d806", "Ascend950PR"),
        ("19e5:d802", "PCI 19e5:d802"),
        ("19e5:d801", "910PremiumA"),
        ("cabc:0370", "MLU370-M8"),
        (None, "Intel N100"),
        (None, "AMD Radeon R300"),
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


@pytest.mark.parametrize(
    ("name", "driver", "wanted"),
    [
        ("h100-80g", "535.183.06", ""),
        ("h100-80g", "470.82.01", "520.61.05 or newer"),
        ("b200-180g", "550.54.14", "570.26 or newer"),
        ("b200-180g", "570.26", ""),
        ("v100-32g", "384.81", ""),
        ("v100-32g", "580.95.05", ""),
        ("v100-32g", "590.44.01", "580 or older"),
        ("k80", "470.256.02", ""),
        ("k80", "495.29.05", "470 or older"),
        ("rbln-ca12", "2.0.1", ""),
        ("rbln-ca12", "3.0.0", "2.0 or older"),
    ],
)
def test_which_drivers_drive_a_model(name: str, driver: str, wanted: str) -> None:
    """From the release that brought the architecture to the last that has it."""
    profile = LIBRARY.get(name)

    assert profile is not None
    assert profile.driver is not None
    assert profile.driver.wanted(driver) == wanted


@pytest.mark.parametrize("profile", LIBRARY.profiles, ids=lambda p: p.name)
def test_every_nvidia_model_names_its_drivers(profile: object) -> None:
    """NVIDIA publishes them for every architecture."""
    assert profile.vendor != "nvidia" or profile.driver is not None  # type: ignore[attr-defined]


@pytest.mark.parametrize("profile", LIBRARY.profiles, ids=lambda p: p.name)
def test_figures_have_their_source(profile: object) -> None:
    """Who finds a wrong figure must find where it came from."""
    peak = profile.peak  # type: ignore[attr-defined]
    figures = (peak.bf16_dense_tflops, peak.fp32_tflops, peak.mem_bw_gb_s)

    assert bool(peak.source) == any(figures)


@pytest.mark.parametrize("profile", DEVICES, ids=lambda p: p.name)
def test_every_device_can_be_made_visible(profile: object) -> None:
    """The runtime's variable is set by Slurm where it knows it, else by the prolog."""
    if profile.vendor in ("aws", "furiosaai"):  # type: ignore[attr-defined]
        # Theirs count cores or name device nodes.
        assert profile.visible is None  # type: ignore[attr-defined]
        return
    assert (profile.visible.variable, profile.visible.slurm, profile.gres.flags) in (  # type: ignore[attr-defined]
        ("CUDA_VISIBLE_DEVICES", True, ("nvidia_gpu_env",)),
        ("ASCEND_RT_VISIBLE_DEVICES", False, ()),
        ("ROCR_VISIBLE_DEVICES", True, ("amd_gpu_env",)),
        ("ZE_AFFINITY_MASK", True, ("intel_gpu_env",)),
        ("HABANA_VISIBLE_MODULES", False, ()),
        ("HIP_VISIBLE_DEVICES", False, ()),
        *((f"{word}_VISIBLE_DEVICES", False, ()) for word in ("MLU", "TOPS", "XPU", "TT")),
        ("RBLN_DEVICES", False, ()),
        ("CUDA_VISIBLE_DEVICES", False, ("no_gpu_env",)),
        ("MUSA_VISIBLE_DEVICES", False, ("no_gpu_env",)),
    )


@pytest.mark.parametrize(
    ("device", "name", "gres", "units", "gib"),
    [
        ("a100-80g", "1g.10gb", "gpu:a100_1g.10gb", 1, 10),
        ("a100-80g", "3g.40gb", "gpu:a100_3g.40gb", 3, 40),
        ("a100-80g", "1g.10gb+me", "gpu:a100_1g.10gb.me", 1, 10),
        ("a100-80g", "7g.80gb", "gpu:a100_7g.80gb", 8, 80),
        ("a100-40g", "1g.5gb", "gpu:a100_40g_1g.5gb", 1, 5),
        ("h100-80g", "2g.20gb", "gpu:h100_2g.20gb", 7, 20),
        ("h200-141g", "3g.71gb", "gpu:h200_3g.71gb", 10, 70),
        ("b200-180g", "3g.93gb", "gpu:b200_3g_93gb", 24, 90),
        ("a30", "2g.12gb", "gpu:a30_2g.12gb", 2, 12),
        ("ascend910b3", "vir10_3c_32g", "npu:ascend910b3_vir10_3c_32g", 4, 32),
        ("ascend310p3", "vir02", "npu:ascend310p3_vir02", None, 6),
    ],
)
def test_a_slice_is_a_device_type_of_its_own(
    device: str, name: str, gres: str, units: int | None, gib: int
) -> None:
    """With its share of the device's units, rounded down, one at least."""
    whole = LIBRARY.get(device)
    assert whole is not None
    piece = LIBRARY.slice_of(whole, name)

    assert piece is not None
    assert (piece.gres_key, piece.booked_units, piece.memory_gib) == (gres, units, gib)
    assert (piece.kind, piece.runtime, piece.vendor) == (whole.kind, whole.runtime, whole.vendor)
    assert piece.gres.flags == whole.gres.flags
    assert LIBRARY.by_gres(piece.gres.name, piece.gres.type) is piece


@pytest.mark.parametrize("profile", SLICES, ids=lambda p: p.name)
def test_a_slice_has_its_own_variable(profile: object) -> None:
    """A number would name the whole device."""
    visible = profile.visible  # type: ignore[attr-defined]

    assert (visible.variable, visible.by, visible.slurm) in (
        ("CUDA_VISIBLE_DEVICES", "uuid", False),
        ("ASCEND_VISIBLE_DEVICES", "node", False),
    )


@pytest.mark.parametrize("profile", DEVICES, ids=lambda p: p.name)
def test_a_full_cut_is_not_more_than_the_device(profile: object) -> None:
    """In units (nothing is worth less than one) and in memory."""
    device = profile
    tables = device.slicing.slices if device.slicing else {}  # type: ignore[attr-defined]
    for name, kind in tables.items():
        piece = LIBRARY.slice_of(device, name)  # type: ignore[arg-type]
        assert piece is not None
        units, whole = piece.booked_units or 0, device.booked_units or 0  # type: ignore[attr-defined]
        assert units <= 1 or units * kind.most <= whole
        assert kind.memory_gib * kind.most <= device.memory_gib  # type: ignore[attr-defined]
        assert kind.parts * kind.most <= device.slicing.parts  # type: ignore[attr-defined]


def test_a_slice_has_its_share_of_what_the_site_sets_for_its_device() -> None:
    """CPUs a device, units; and a slice can be set for itself."""
    library = load_library(
        overrides={
            "a100-80g": {"units": 70, "cpus_per_device": 16},
            "a100-80g-2g.20gb": {"units": 5},
        }
    )
    small, large = library.get("a100-80g-1g.10gb"), library.get("a100-80g-2g.20gb")

    assert small is not None
    assert large is not None
    assert (small.units, small.cpus_per_device) == (10, 2)
    assert (large.units, large.cpus_per_device) == (5, 4)


def test_slices_worth_more_than_their_device_are_refused() -> None:
    """Seven slices of two units on a device of eight."""
    with pytest.raises(ConfigError, match=r"7 x 1g.10gb have 14 units, the whole device has 8"):
        load_library(overrides={"a100-80g-1g.10gb": {"units": 2}})
