"""The profile library: packaged files, then the site's directory, then overrides in site.yaml.

A later profile of the same name replaces the earlier one. Matching is by attributes; the first
match in (most specific, then name) order wins, so that the result never depends on file order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hpcmgr.errors import ConfigError, Problem, did_you_mean
from hpcmgr.profile.model import DeviceProfile
from hpcmgr.profile.slices import with_slices, wrong_tables
from hpcmgr.slurm.tres import gres_id
from hpcmgr.yamlfile import load_model

if TYPE_CHECKING:
    from hpcmgr.inventory import Device

PACKAGED = Path(__file__).parent / "devices"


@dataclass(frozen=True)
class ProfileLibrary:
    """Profiles by name and by GRES type, slices among them.

    Raises:
        ConfigError: two profiles share a GRES type, or Slurm's hash of two types is the same.
    """

    profiles: tuple[DeviceProfile, ...]

    def __post_init__(self) -> None:
        problems = [Problem(None, None, text) for text in _clashes(self.profiles)]
        if problems:
            raise ConfigError(problems, "give one of them another gres.type")

    def get(self, name: str) -> DeviceProfile | None:
        """The profile of that name."""
        return self._by_name.get(name)

    def by_gres(self, name: str, type_: str) -> DeviceProfile | None:
        """The profile that Slurm knows as ``name:type``."""
        return self._by_gres.get((name, type_))

    def slice_of(self, device: DeviceProfile, name: str) -> DeviceProfile | None:
        """The profile of the slice that the vendor calls ``name``, of such a device."""
        return self._by_slice.get((device.name, name))

    @cached_property
    def _by_name(self) -> dict[str, DeviceProfile]:
        return {p.name: p for p in self.profiles}

    @cached_property
    def _by_gres(self) -> dict[tuple[str, str], DeviceProfile]:
        return {(p.gres.name, p.gres.type): p for p in self.profiles}

    @cached_property
    def _by_slice(self) -> dict[tuple[str, str], DeviceProfile]:
        return {
            (p.slice_of, p.slice_name): p
            for p in self.profiles
            if p.slice_of is not None and p.slice_name is not None
        }

    def match(self, device: Device) -> DeviceProfile | None:
        """The profile that fits ``device`` best, None if none does; never a slice."""
        fitting = [p for p in self.profiles if p.slice_of is None and _fits(p, device)]
        return min(fitting, key=lambda p: (-_specificity(p), p.name)) if fitting else None


def load_library(
    directories: Iterable[Path] = (),
    overrides: Mapping[str, Mapping[str, object]] | None = None,
    overrides_file: Path | None = None,
) -> ProfileLibrary:
    """Packaged profiles, those of ``directories``, then field ``overrides`` by profile name.

    Raises:
        ConfigError: with every problem of every file.
    """
    problems: list[Problem] = []
    found: dict[str, DeviceProfile] = {}
    for directory in (PACKAGED, *directories):
        if not directory.is_dir():
            problems.append(Problem(directory, None, "is no directory"))
            continue
        for path in sorted(directory.glob("*.yaml")):
            try:
                profile = load_model(path, DeviceProfile)
            except ConfigError as error:
                problems += error.problems
                continue
            if profile.name != path.stem:
                problems.append(Problem(path, 1, f"is named {profile.name!r}: name the file so"))
            found[profile.name] = profile
    overrides = overrides or {}
    # Slices have a share of what their device has, overridden or not.
    found = with_slices(_overridden(found, overrides).values())
    found = _overridden(found, {name: o for name, o in overrides.items() if _is_slice(found, name)})
    problems += [
        Problem(
            overrides_file,
            None,
            f"profiles.override: no profile {name!r}{did_you_mean(name, found)}",
        )
        for name in overrides
        if name not in found
    ]
    problems += [Problem(None, None, text) for text in wrong_tables(found.values())]
    if problems:
        raise ConfigError(problems)
    return ProfileLibrary(tuple(found[name] for name in sorted(found)))


def _overridden(
    found: Mapping[str, DeviceProfile], overrides: Mapping[str, Mapping[str, object]]
) -> dict[str, DeviceProfile]:
    return {
        name: profile.model_copy(update=dict(overrides[name])) if name in overrides else profile
        for name, profile in found.items()
    }


def _is_slice(found: Mapping[str, DeviceProfile], name: str) -> bool:
    return name in found and found[name].slice_of is not None


def _fits(profile: DeviceProfile, device: Device) -> bool:
    match = profile.match
    if match.pci and device.pci_id and device.pci_id not in match.pci:
        return False
    if match.pci and not device.pci_id and not match.model:
        return False
    if match.model and not any(re.search(p, device.model, re.IGNORECASE) for p in match.model):
        return False
    if match.memory_mib and device.memory_mib is not None:
        low, high = match.memory_mib
        return low <= device.memory_mib <= high
    # A part of a card whose memory nobody tells may be any part, never surely the whole.
    return not match.memory_mib or device.chip is None


def _specificity(profile: DeviceProfile) -> int:
    match = profile.match
    return bool(match.pci) + 2 * bool(match.model) + bool(match.memory_mib)


def _clashes(profiles: tuple[DeviceProfile, ...]) -> list[str]:
    texts = []
    owner: dict[tuple[str, str], str] = {}
    hashed: dict[tuple[str, int], str] = {}
    for profile in profiles:
        gres = profile.gres
        key = (gres.name, gres.type)
        if key in owner:
            texts.append(
                f"profiles {owner[key]!r} and {profile.name!r} share the GRES {':'.join(key)}"
            )
            continue
        owner[key] = profile.name
        mark = (gres.name, gres_id(gres.type))
        if mark in hashed:
            # Slurm tells types apart by a 32-bit sum over their letters only.
            texts.append(
                f"GRES types {hashed[mark]!r} and {gres.type!r} have the same hash in Slurm"
            )
        hashed[mark] = gres.type
    return texts
