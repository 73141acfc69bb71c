"""Outputs of vendors' tools in their true shapes, with values of our own."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent

Argv = tuple[str, ...]

OUTPUTS: dict[str, Argv] = {
    "nvidia-smi-q-x-mig.xml": ("nvidia-smi", "-q", "-x"),
    "nvidia-smi-L.txt": ("nvidia-smi", "-L"),
    "npu-smi-info-950.txt": ("npu-smi", "info"),
    "npu-smi-info-m-950.txt": ("npu-smi", "info", "-m"),
    "npu-smi-info-910c.txt": ("npu-smi", "info"),
    "npu-smi-info-duo.txt": ("npu-smi", "info"),
    "npu-smi-info-soc.txt": ("npu-smi", "info"),
    "npu-smi-info-t-topo-ub.txt": ("npu-smi", "info", "-t", "topo"),
    "cnmon.txt": ("cnmon",),
    "cnmon-release4.txt": ("cnmon",),
    "cnmon-info.txt": ("cnmon", "info"),
    "mx-smi.txt": ("mx-smi",),
    "mx-smi-old.txt": ("mx-smi",),
    "mx-smi-topo-n.txt": ("mx-smi", "topo", "-n"),
    "ht-smi.txt": ("ht-smi",),
    "ixsmi.txt": ("ixsmi",),
    "mthreads-gmi.txt": ("mthreads-gmi",),
    "mthreads-gmi-ecc.txt": ("mthreads-gmi",),
    "mthreads-gmi-q.txt": ("mthreads-gmi", "-q"),
    "efsmi.txt": ("efsmi",),
    "efsmi-stars.txt": ("efsmi",),
    "xpu_smi.txt": ("xpu_smi",),
    "xpu-smi.txt": ("xpu-smi",),
    "xpu-smi-q.txt": ("xpu-smi", "-q"),
    "neuron-ls.json": ("neuron-ls", "--json-output"),
    "neuron-ls.txt": ("neuron-ls",),
    "neuron-ls-procs.txt": ("neuron-ls",),
    "neuron-ls-inf1.txt": ("neuron-ls",),
    "tt-smi.txt": ("tt-smi", "-s"),
    "furiosa-smi-info.json": ("furiosa-smi", "info", "--format", "json"),
    "furiosa-smi-status.json": ("furiosa-smi", "status", "--format", "json"),
    "furiosa-smi-info.txt": ("furiosa-smi", "info"),
    "furiosactl-info.txt": ("furiosactl", "info", "--full"),
    "rbln-smi.json": ("rbln-smi", "-j"),
    "rbln-stat.txt": ("rbln-stat",),
    "ppu-smi.txt": ("ppu-smi",),
    "ppu-smi-L.txt": ("ppu-smi", "-L"),
}
"""The question that each file answers."""


def output(name: str) -> str:
    """The text of one file."""
    return (HERE / name).read_text()
