"""Requests: scripts of real users (directives only), and one of each form that users have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

BODY = "sleep 120\n"


@dataclass(frozen=True)
class Form:
    """A batch script with the name that it has in the table."""

    name: str
    directives: tuple[str, ...]
    neutral: bool = False
    """Whether plain Slurm would book units without a device."""

    @property
    def script(self) -> str:
        return "\n".join(["#!/bin/sh", *self.directives, BODY])


def real(text: str) -> list[Form]:
    """The scripts of directives.txt: ``== NAME`` and its lines."""
    forms = []
    for part in re.split(r"(?m)^== ", text)[1:]:
        name, *lines = part.splitlines()
        forms.append(Form(name.removesuffix(".sh"), tuple(lines)))
    return forms


def read_real(folder: Path) -> list[Form]:
    """The real scripts; none where the corpus is not there."""
    path = folder / "requests" / "directives.txt"
    return real(path.read_text()) if path.is_file() else []


def site_words(forms: Iterable[Form]) -> tuple[list[str], list[str]]:
    """Partitions and node features that the scripts name, so that a site can have them."""
    text = "\n".join(line for form in forms for line in form.directives)
    partitions = re.findall(r"\s(?:-p +|--partition[= ])([\w.,-]+)", text)
    features = re.findall(r"\s(?:-C +|--constraint[= ])(\S+)", text)
    names = {name for listed in partitions for name in listed.split(",")}
    words = {word for listed in features for word in re.findall(r"[\w.-]+", listed)}
    return sorted(names - {"main"}), sorted(words)


_PLAIN = (
    "--gres=gpu:t4:1",
    "--gres=gpu:t4",
    "--gres=gpu:1 -w t401",
    "--gres=gpu:1",
    "--gres=npu:1",
    "--gres=gres/npu:1",
    "--gres=gpu:a100:1,npu:1",
    "--gres=gpu:t4:1K",
    "--gres=gpu:0",
    "--gres=none",
    "--gpus=t4:2 -N1",
    "--gpus=t4:2 -N2",
    "--gpus=t4:2",
    "--gpus-per-node=t4:2",
    "--gpus-per-task=t4:1 -n2",
    "--gpus-per-socket=t4:1 --sockets-per-node=1",
    "--ntasks-per-gpu=1 --gpus-per-node=t4:2",
    "--ntasks-per-gpu=1 -n2",
    "--tres-per-task=gres/gpu:t4:1 -n2",
    "--tres-per-task=cpu=1,gres/npu=1 -n2 -N1",
    "--gres=gpu:t4:2 --cpus-per-gpu=2",
    "--gres=gpu:t4:2 --mem-per-gpu=64",
    "--gpus-per-node=t4:2 --cpus-per-gpu=1 --mem-per-gpu=64",
    "--gres=gpu:t4:1 --array=0-1",
    "--gres=gpu:t4:1 --exclusive",
    "--gres=gpu:t4:1 -C gpu",
    "--gres=gpu:t4:2 --gres-flags=enforce-binding",
)  # fmt: skip
_NEUTRAL = (
    "--gres=compute:8",
    "--gres=compute",
    "--gres=gres/compute:8",
    "--gres=compute:npu:8",
    "--gres=compute:npu",
    "--gres=compute:cuda:2",
    "--gres=compute:8,vram:80",
    "--gres=compute:8,vram:80G",
    "--gres=compute:8,vram:each:40960M",
    "--gres=compute:1K",
    "--gres=vram:80",
    "--gres=compute:8,gpu:a100:1",
    "--gres=compute:8 --gpus=1",
    "--gpus=compute:8",
    "--tres-per-task=gres/compute:8 -n2 -N1",
    "--tres-per-task=cpu=1,gres/compute:npu:8 -n2 -N1",
    "--gres=compute:npu:8 --cpus-per-gpu=2",
    "--gres=compute:8 --cpus-per-gpu=2",
    "--gres=compute:8 --mem-per-gpu=64",
    "--gres=compute:npu:8 --array=0-1",
    "--gres=compute:npu:8 --exclusive",
    "--gres=compute:npu:8 -C gpu",
    "--gres=compute:8 -C a100",
    "--gres=compute:t4:2 -N2",
    "--gres=compute:t4:2 -N1-2",
    "--gres=compute:0",
    "--gres=compute:8.5",
)
_HET = ((("-n1",), ("-n1", "--gres=gpu:t4:1")), (("--gres=gpu:t4:1",), ("--gpus=t4:1",)))
_HET_NEUTRAL = (
    (("--gres=compute:npu:8",), ("--gres=compute:t4:2",)),
    (("-n1",), ("--gres=compute:t4:2",)),
    (("--gres=compute:t4:2",), ("--gres=compute:800",)),
)


def own() -> list[Form]:
    """One of each form; heterogeneous jobs with ``:`` between the components."""
    forms = [_line(text, neutral=False) for text in _PLAIN]
    forms += [_line(text, neutral=True) for text in _NEUTRAL]
    forms += [het(*components) for components in _HET]
    forms += [het(*components, neutral=True) for components in _HET_NEUTRAL]
    return forms


def het(*components: Iterable[str], neutral: bool = False) -> Form:
    """A heterogeneous job of these options."""
    lines: list[str] = []
    for options in components:
        lines += ["#SBATCH hetjob"] if lines else []
        lines.append("#SBATCH " + " ".join(options))
    name = " : ".join(" ".join(options) for options in components)
    return Form(name, tuple(lines), neutral)


def _line(text: str, *, neutral: bool) -> Form:
    return Form(text, (f"#SBATCH {text}",), neutral)
