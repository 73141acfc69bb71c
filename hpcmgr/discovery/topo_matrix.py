"""Link matrices as nvidia-smi, npu-smi, mx-smi and cnmon print them.

    GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity
    GPU0     X      NV12    SYS     0-31    0

nvidia-smi underlines its heading, also where no terminal reads. Columns shift: labels may be
indented or not, and affinity cells may be empty. Link cells never are, so a row is its label and
as many words as there are labels; what follows is not read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LABEL = re.compile(r"^(?:(?:GPU|NPU|MLU|NIC)[0-9]{1,5}|[a-z][a-z0-9_-]{0,60})$")
_KIND = re.compile(r"^[A-Z][A-Z0-9_#]*$")
_STYLE = re.compile(r"\x1b?\[[0-9;]{0,8}m")
"""Underlining and colours; where a text was copied, without their first character."""
_NIC = re.compile(r"^\s*(NIC[0-9]+):\s*(\S+)\s*$")
_FABRIC = re.compile(r"^(?:NV[0-9]+|HCCS(?:_SW)?|SIO|UB|MX|MLK)$")


@dataclass(frozen=True, slots=True)
class TopoMatrix:
    """Links by pair of labels in the order of the header; ``nics``: names that labels stand for."""

    labels: tuple[str, ...]
    links: dict[tuple[str, str], str]
    nics: dict[str, str]


def is_direct(kind: str) -> bool:
    """Whether the word means a link of the devices' own fabric."""
    return bool(_FABRIC.match(kind))


def parse(text: str, prefix: str) -> TopoMatrix | None:
    """The matrix of the devices called ``prefix`` (GPU, NPU, MLU); None if the text holds none.

    Rows that do not fit the header (no X at the row's own place) are passed over.
    """
    labels: tuple[str, ...] = ()
    links: dict[tuple[str, str], str] = {}
    nics: dict[str, str] = {}
    for line in _STYLE.sub("", text).splitlines():
        words = line.split()
        legend = _NIC.match(line)
        if legend:
            nics[legend[1]] = legend[2]
        elif not labels:
            labels = _header(words, prefix)
        elif words and words[0] in labels:
            _add_row(words, labels, links)
    return TopoMatrix(labels, links, nics) if labels else None


def _header(words: list[str], prefix: str) -> tuple[str, ...]:
    """Labels up to the affinity columns; empty if the line is no header."""
    labels: list[str] = []
    for word in words:
        if not _LABEL.match(word):
            break
        labels.append(word)
    devices = [label for label in labels if re.fullmatch(rf"{prefix}[0-9]{{1,5}}", label)]
    follows = words[len(labels) : len(labels) + 1]
    if not devices or labels[0] != devices[0] or len(set(labels)) != len(labels):
        return ()
    return tuple(labels) if not follows or follows[0] in ("CPU", "NUMA", "Node") else ()


def _add_row(words: list[str], labels: tuple[str, ...], links: dict[tuple[str, str], str]) -> None:
    own = labels.index(words[0])
    cells = words[1 : 1 + len(labels)]
    if len(cells) <= own or cells[own] != "X":
        return
    for column, kind in enumerate(cells):
        if column == own or kind == "NA" or not _KIND.match(kind):
            continue
        pair = (labels[min(own, column)], labels[max(own, column)])
        links.setdefault(pair, kind)
