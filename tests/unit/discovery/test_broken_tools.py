"""Tools that hang, lie, fail or are missing: a named partial result, never "0 devices"."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.discovery.conftest import Recording, at, source

Make = Callable[[str], Recording]
QX = ("nvidia-smi", "-q", "-x")
INFO = ("npu-smi", "info")
GPU, NPU4, NPU5 = "0000:17:00.0", "0000:c1:00.0", "0000:82:00.0"


def test_a_hanging_nvidia_smi_is_broken_and_the_gpu_still_listed(recording: Make) -> None:
    """The driver in /proc still knows model and file; health is unknown with the reason."""
    inventory = recording("mixed").hangs(*QX).discover()
    gpu = at(inventory, GPU)

    assert source(inventory, "nvidia-smi").state == "broken"
    assert gpu.files == ("/dev/nvidia0",)
    assert gpu.profile == "a100-80g"
    assert gpu.health.state == "unknown"
    assert "no answer in time" in gpu.health.reasons[0]


def test_a_missing_nvidia_smi_is_broken_where_the_card_is_there(recording: Make) -> None:
    """A card without its tool is no node without cards."""
    inventory = recording("mixed").without("nvidia-smi").discover()

    assert source(inventory, "nvidia-smi").state == "broken"
    assert "not installed" in source(inventory, "nvidia-smi").detail
    assert at(inventory, GPU).health.state == "unknown"


def test_a_missing_tool_without_its_cards_is_just_absent(recording: Make) -> None:
    """Nobody misses npu-smi on a machine with T4."""
    inventory = recording("t4x4").discover()

    assert source(inventory, "npu-smi").state == "absent"
    assert not inventory.broken_sources


def test_a_failing_tool_without_its_cards_is_just_absent(recording: Make) -> None:
    """One image for all nodes has nvidia-smi everywhere, also where it can only fail."""
    failing = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    inventory = recording("npu8").answers(QX, failing, exit=9).discover()

    assert source(inventory, "nvidia-smi").state == "absent"
    assert "couldn't communicate" in source(inventory, "nvidia-smi").detail


@pytest.mark.parametrize(
    "text", ["", "garbage", "No devices were found", "<?xml version='1.0'?><a", "<?xml \0"]
)
def test_garbage_of_nvidia_smi_is_broken(recording: Make, text: str) -> None:
    """Whatever it prints instead of XML, the card stays."""
    inventory = recording("mixed").answers(QX, text).discover()

    assert source(inventory, "nvidia-smi").state == "broken"
    assert at(inventory, GPU).health.state == "unknown"


def test_cut_xml_keeps_the_gpus_before_the_cut(recording: Make) -> None:
    """Of four GPUs two are described in full; the others are listed without health."""
    host = recording("t4x4")
    text = host.text(*QX)
    inventory = host.answers(QX, text[: text.index("0000:AF:00.0") + 300]).discover()

    assert source(inventory, "nvidia-smi").state == "broken"
    assert [d.health.state for d in inventory.devices] == ["ok", "ok", "unknown", "unknown"]
    assert [d.files for d in inventory.devices][2:] == [("/dev/nvidia2",), ("/dev/nvidia3",)]


def test_a_full_answer_with_a_bad_exit_status_is_partial(recording: Make) -> None:
    """The GPUs are believed, but nobody knows what is missing."""
    host = recording("mixed")
    inventory = host.answers(QX, host.text(*QX), exit=255, stderr="something failed").discover()

    assert source(inventory, "nvidia-smi").state == "broken"
    assert "something failed" in source(inventory, "nvidia-smi").detail
    assert at(inventory, GPU).health.state == "ok"


def test_a_warning_beside_the_xml_is_told_and_held_against_its_gpu(recording: Make) -> None:
    """The data is complete, so the source is not broken; the GPU is degraded."""
    host = recording("t4x4")
    warning = "WARNING: infoROM is corrupted at gpu 0000:5E:00.0"
    for text in (f"{warning}\n{host.text(*QX)}", f"{host.text(*QX)}\n{warning}\n"):
        inventory = host.answers(QX, text, exit=14).discover()

        assert source(inventory, "nvidia-smi").state == "present"
        assert warning in source(inventory, "nvidia-smi").detail
        assert at(inventory, "0000:5e:00.0").health.reasons == (warning,)
        assert at(inventory, "0000:3b:00.0").health.state == "ok"


def test_a_lost_gpu_said_before_the_xml_makes_it_broken(recording: Make) -> None:
    """The tool describes three of four cards and says which one it lost."""
    host = recording("t4x4")
    text = host.text(*QX)
    start = text.index('\t<gpu id="00000000:5E')
    end = text.index('\t<gpu id="00000000:AF')
    lost = "Unable to determine the device handle for GPU0000:5E:00.0: Unknown Error\n"
    inventory = host.answers(QX, lost + text[:start] + text[end:]).discover()

    assert source(inventory, "nvidia-smi").state == "broken"
    assert "0000:5e:00.0" in source(inventory, "nvidia-smi").detail
    assert at(inventory, "0000:5e:00.0").health.state == "unknown"
    assert len(inventory.devices) == 4


def test_values_that_say_nothing_are_unknown(recording: Make) -> None:
    """N/A, ERR! and [Unknown Error] never become a fact; nor what only root may see."""
    host = recording("mixed")
    text = host.text(*QX)
    for old, new in (("1560922014733", "N/A"), ("81920 MiB", "[Unknown Error]"),
                     ("92.00.45.00.03", "ERR!"),
                     ("550.90.07", "[Insufficient Permissions]")):  # fmt: skip
        text = text.replace(old, new)
    host.removed("/proc/driver").removed("/sys/module/nvidia")
    gpu = at(host.answers(QX, text).discover(), GPU)

    assert (gpu.serial, gpu.memory_mib, gpu.firmware, gpu.driver) == (None, None, None, None)


def test_a_gpu_that_is_lost_in_the_xml_has_failed(recording: Make) -> None:
    """ "GPU is lost" in any value is no value and a reason."""
    host = recording("mixed")
    gpu = at(host.answers(QX, host.text(*QX).replace("81920 MiB", "GPU is lost")).discover(), GPU)

    assert (gpu.memory_mib, gpu.health.state) == (None, "failed")


def test_pending_repairs_degrade_a_gpu(recording: Make) -> None:
    """A pending row remap needs a reset; the reason has no count in it."""
    host = recording("mixed")
    text = host.text(*QX)
    text = text.replace("remapped_row_pending>No", "remapped_row_pending>Yes")
    gpu = at(host.answers(QX, text).discover(), GPU)

    assert gpu.health.state == "degraded"
    assert gpu.health.reasons == ("row remapping pending, needs a reset",)


@pytest.mark.parametrize(
    ("tag", "state", "reason"),
    [
        ("channel_repair_pending", "degraded", "channel repair pending, needs a reset"),
        ("tpc_repair_pending", "degraded", "TPC repair pending, needs a reset"),
        ("unrepairable_memory", "failed", "memory that cannot be repaired"),
    ],
)
def test_repairs_that_newer_drivers_tell(
    recording: Make, tag: str, state: str, reason: str
) -> None:
    """Newer releases say them beside the ECC errors."""
    host = recording("mixed")
    text = host.text(*QX).replace("</ecc_errors>", f"<{tag}>Yes</{tag}></ecc_errors>")
    gpu = at(host.answers(QX, text).discover(), GPU)

    assert (gpu.health.state, gpu.health.reasons) == (state, (reason,))
    text = text.replace(">Yes<", ">N/A<")
    assert at(host.answers(QX, text).discover(), GPU).health.state == "ok"


def test_a_hanging_npu_smi_is_asked_once(recording: Make) -> None:
    """Both NPUs are listed from sysfs, without file, index or health."""
    inventory = recording("mixed").hangs(*INFO).discover()

    assert source(inventory, "npu-smi").state == "broken"
    assert [d.pci for d in inventory.devices if d.kind == "npu"] == [NPU5, NPU4]
    assert at(inventory, NPU4).files == ()
    assert at(inventory, NPU4).profile is None
    assert at(inventory, NPU4).health.state == "unknown"


def test_a_hang_later_on_makes_it_broken_too(recording: Make) -> None:
    """The table came, the question after it got no answer."""
    inventory = recording("mixed").hangs("npu-smi", "info", "-m").discover()

    assert source(inventory, "npu-smi").state == "broken"
    assert at(inventory, NPU4).model == "910B3"


@pytest.mark.parametrize("text", ["", "dcmi module initialize failed. ret is -8005", "| | |\n|||"])
def test_garbage_of_npu_smi_is_broken(recording: Make, text: str) -> None:
    """With the mapping answered the chips are known by name, else by sysfs alone."""
    inventory = recording("mixed").answers(INFO, text).discover()

    assert source(inventory, "npu-smi").state == "broken"
    assert [d.pci for d in inventory.devices if d.kind == "npu"] == [NPU5, NPU4]
    assert at(inventory, NPU4).health.state == "unknown"


def test_a_cut_table_names_the_missing_chip(recording: Make) -> None:
    """NPU 4's second line is missing: it is taken from the mapping and its board."""
    host = recording("mixed")
    text = "\n".join(line for line in host.text(*INFO).splitlines() if "C1:00.0" not in line)
    inventory = host.answers(INFO, text).discover()

    assert source(inventory, "npu-smi").state == "broken"
    assert "NPU 4" in source(inventory, "npu-smi").detail
    assert at(inventory, NPU4).files == ("/dev/davinci4",)
    assert at(inventory, NPU4).health.state == "unknown"


def test_noise_before_the_table_is_only_told(recording: Make) -> None:
    """A container's limiter may print its log first."""
    host = recording("mixed")
    noise = "[INFO limiter::manager] registered\nconnected\n"
    inventory = host.answers(INFO, noise + host.text(*INFO)).discover()

    assert source(inventory, "npu-smi").state == "present"
    assert "limiter" in source(inventory, "npu-smi").detail
    assert len(inventory.devices) == 3


def test_a_sick_npu_tells_why(recording: Make) -> None:
    """The table's word and the error codes of -t health are the reasons."""
    host = recording("mixed")
    table = host.text(*INFO).replace("OK            | 97.5", "Alarm         | 97.5")
    health = "\tHealth Status : Alarm\n\tError Code : 80E01801\n\tError Information : HBM fault\n"
    host.answers(INFO, table)
    inventory = host.answers(("npu-smi", "info", "-t", "health", "-i", "4", "-c", "0"), health)

    assert at(inventory.discover(), NPU4).health.reasons == (
        "npu-smi: Alarm",
        "80E01801",
        "HBM fault",
    )


def test_a_device_node_without_its_npu_is_a_lost_npu(recording: Make) -> None:
    """npu-smi shows fewer chips than there are /dev/davinciN."""
    host = recording("npu8")
    table = host.text(*INFO)
    cut = "\n".join(line for line in table.splitlines() if "C2:00.0" not in line)
    cut = cut.replace(next(line for line in cut.splitlines() if line.startswith("| 1 ")), "")
    mapping = host.text("npu-smi", "info", "-m").splitlines()
    kept = "\n".join(line for line in mapping if not line.strip().startswith("1 "))
    host.answers(INFO, cut)
    inventory = host.answers(("npu-smi", "info", "-m"), kept).discover()

    assert source(inventory, "npu-smi").state == "broken"
    assert "0000:c2:00.0" in source(inventory, "npu-smi").detail
    assert at(inventory, "0000:c2:00.0").health.state == "unknown"


def test_a_passed_through_card_is_listed_but_not_missed(recording: Make) -> None:
    """A GPU that belongs to a virtual machine breaks no source."""
    host = recording("t4x4")
    text = host.text(*QX)
    text = text[: text.index('\t<gpu id="00000000:D8')] + "</nvidia_smi_log>\n"
    host.answers(QX, text.replace("gpus>4", "gpus>3"))
    host.removed("/proc/driver/nvidia/gpus/0000:d8:00.0")
    host.file("/sys/bus/pci/devices/0000:d8:00.0/driver", "../../../../bus/pci/drivers/vfio-pci")
    inventory = host.discover()

    assert not inventory.broken_sources
    assert "virtual machine" in at(inventory, "0000:d8:00.0").health.reasons[0]


def test_an_empty_recording_gives_a_partial_inventory(recording: Make) -> None:
    """Nothing is known, and that is what is said."""
    inventory = recording("").discover()

    assert [report.name for report in inventory.broken_sources] == ["cpu"]
    assert inventory.devices == ()


def test_a_failing_tool_is_broken_where_the_kernel_was_not_asked(recording: Make) -> None:
    """A recording of the tool alone cannot know that there is no card."""
    inventory = recording("").answers(QX, "No devices were found", exit=6).discover()

    assert source(inventory, "nvidia-smi").state == "broken"


def test_a_failing_tool_is_broken_where_device_nodes_are(recording: Make) -> None:
    """A card that fell off the bus leaves its device node behind."""
    host = recording("npu8").answers(QX, "No devices were found", exit=6)
    host.file("dev.txt", "/dev/nvidia0 c 195 0 0666\n")

    assert source(host.discover(), "nvidia-smi").state == "broken"


def test_old_uncorrectable_counts_degrade_a_gpu(recording: Make) -> None:
    """Older releases name them double_bit and count by part of the chip."""
    host = recording("mixed")
    text = host.text(*QX)
    old = "<volatile><double_bit><device_memory>2</device_memory></double_bit>"
    gpu = at(host.answers(QX, text.replace("<volatile>", old)).discover(), GPU)

    assert gpu.health.reasons == ("uncorrectable ECC errors since the driver was loaded",)
