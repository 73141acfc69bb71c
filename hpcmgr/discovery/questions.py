"""What a recording asks every vendor's tool, beside what discovery asked already.

Tools that hpcmgr does not read yet are asked, too: a recording made today serves tomorrow's
sources and a reader who looks for a fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hpcmgr.discovery import npu_smi_text
from hpcmgr.discovery.host import ABSENT, CommandResult
from hpcmgr.discovery.source import key_values

Argv = tuple[str, ...]

HL_SMI_FIELDS = "index,module_id,serial,uuid,bus_id,name,memory.total,driver_version"

QUESTIONS: tuple[Argv, ...] = (
    ("nvidia-smi", "-q", "-x"),
    ("nvidia-smi", "-L"),
    ("nvidia-smi", "topo", "-m"),
    ("nvidia-smi", "nvlink", "-s"),
    ("nvidia-smi", "mig", "-lgi"),
    ("npu-smi", "info"),
    ("npu-smi", "info", "-l"),
    ("npu-smi", "info", "-m"),
    ("npu-smi", "info", "-t", "topo"),
    ("rocm-smi", "--showallinfo", "--json"),
    ("rocm-smi", "--showtopo", "--json"),
    ("amd-smi", "list", "--json"),
    ("amd-smi", "static", "--json"),
    ("amd-smi", "topology", "--json"),
    ("amd-smi", "partition", "--json"),
    ("xpu-smi", "discovery", "-j"),
    ("xpu-smi", "topology", "-m"),
    ("hl-smi",),
    ("hl-smi", "-Q", HL_SMI_FIELDS, "-f", "csv,noheader"),
    ("cnmon",),
    ("cnmon", "info"),
    ("cnmon", "topo", "-m"),
    ("hy-smi",),
    ("mx-smi",),
    ("mx-smi", "topo", "-m"),
    ("mx-smi", "topo", "-n"),
    ("ht-smi",),
    ("ixsmi",),
    ("mthreads-gmi",),
    ("mthreads-gmi", "-q"),
    ("efsmi",),
    ("xpu_smi",),
    ("xpu_smi", "-m"),
    ("xpu-smi",),
    ("xpu-smi", "-q"),
    ("neuron-ls",),
    ("neuron-ls", "--json-output"),
    ("tt-smi", "-s"),
    ("furiosa-smi", "info", "--format", "json"),
    ("furiosa-smi", "status", "--format", "json"),
    ("furiosactl", "info", "--full"),
    ("rbln-smi", "-j"),
    ("rbln-stat", "-j"),
    ("ppu-smi",),
    ("ppu-smi", "-L"),
    ("dpkg-query", "-W", "-f=${Version}", "amdgpu-dkms"),
    ("rpm", "-q", "--qf=%{VERSION}", "amdgpu-dkms"),
    ("lspci", "-Dnn"),
    ("lsmod",),
    ("dmesg",),
)
"""Asked on every machine, in this order."""

FILES: tuple[str, ...] = (
    "/usr/local/Ascend/driver/version.info",
    "/usr/local/Ascend/firmware/version.info",
    *(
        f"/usr/local/Ascend/{kit}/latest/{arch}-linux/ascend_{kit.removeprefix('ascend-')}_install.info"
        for kit in ("ascend-toolkit", "nnae", "nnrt")
        for arch in ("x86_64", "aarch64", "arm64")
    ),
    "/usr/local/cuda/version.json",
    "/usr/local/cuda/version.txt",
    "/opt/rocm/.info/version",
)
"""Where makers write the versions of what is installed; 'hpcmgr doctor' compares them."""

NPU_DETAILS = ("board", "health", "usages", "memory")
CHIP_DETAILS = ("info-vnpu",)
_CARD = re.compile(r"^(?:Card\s+|\|\s*)([0-9]{1,4})\s*(?:$|/)", re.MULTILINE)
_MOST = 64


def follow_ups(answers: Mapping[Argv, CommandResult]) -> tuple[Argv, ...]:
    """The questions a card, for the cards that the answers so far name."""
    return (*_npu_smi(answers), *_cnmon(answers))


def _npu_smi(answers: Mapping[Argv, CommandResult]) -> Iterator[Argv]:
    def text(*args: str) -> str:
        return answers.get(("npu-smi", "info", *args), ABSENT).stdout

    chips = {(row.npu, row.chip) for row in npu_smi_text.parse_table(text()).rows}
    chips |= {(row.npu, row.chip) for row in npu_smi_text.parse_mapping(text("-m"))}
    cards = {npu for npu, _ in chips} | set(npu_smi_text.parse_list(key_values(text("-l"))))
    for npu in sorted(cards)[:_MOST]:
        for detail in NPU_DETAILS:
            asked = ("npu-smi", "info", "-t", detail, "-i", str(npu))
            yield asked
            for chip in sorted(chip for card, chip in chips if card == npu):
                yield (*asked, "-c", str(chip))
        for detail in CHIP_DETAILS:
            for chip in sorted(chip for card, chip in chips if card == npu):
                yield ("npu-smi", "info", "-t", detail, "-i", str(npu), "-c", str(chip))


def _cnmon(answers: Mapping[Argv, CommandResult]) -> Iterator[Argv]:
    texts = (answers.get(argv, ABSENT).stdout for argv in (("cnmon",), ("cnmon", "info")))
    cards = {int(number) for text in texts for number in _CARD.findall(text)}
    for card in sorted(cards)[:_MOST]:
        yield ("cnmon", "info", "-c", str(card))
