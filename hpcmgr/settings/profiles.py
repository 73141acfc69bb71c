"""Sections on device profiles: the site's own, and what it overrides."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from hpcmgr.settings.fields import Section, Word


class ProfileOverride(Section):
    """Fields of a device profile that a site may set for itself."""

    units: int | None = Field(None, ge=1)
    """Units of one device: 1 is an eighth of an A100-80G, or what the site takes it for."""
    price: float | None = Field(None, gt=0)
    """Price of a device-hour, in the site's own money; without it as many as its units."""
    cpus_per_device: int | None = Field(None, ge=1)
    """CPUs a device, where neither the user nor the class says."""
    mem_per_device_mib: int | None = Field(None, ge=1)
    """Memory of the node a device (MiB), where neither the user nor the class says."""
    features: tuple[Word, ...] | None = None
    """Features of nodes that have it, in place of the profile's own."""


class Profiles(Section):
    """Own profile files and overrides by profile name."""

    dirs: tuple[Path, ...] = ()
    """Folders with profiles of the site's own, one YAML file each."""
    override: dict[str, ProfileOverride] = {}
    """By name of profile."""
