"""One device model as YAML, ``hpcmgr.profile/1``.

Figures carry their source. ``units`` is counted from dense BF16/FP16 against an A100 = 8 (one unit
= 39 TFLOPS), rounded, at least 1; without a figure it stays unknown and the device cannot be asked
for in neutral units until a site sets it.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from hpcmgr.versions import compare, starts_with

UNIT_TFLOPS = 39.0
"""Dense BF16 TFLOPS of one unit: an eighth of an A100-80G (312 / 8)."""


class Strict(BaseModel):
    """Base of what people write: no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _gres_word(value: str) -> str:
    # Slurm's own parsers look for "gres" inside strings, take numbers for counts, and had faults
    # with upper case (before 25.05) and hyphens (before 25.11).
    if not re.fullmatch(r"[a-z][a-z0-9_.]*", value) or "gres" in value:
        raise ValueError(
            "a GRES name or type is lower case, starts with a letter, holds only letters, digits, "
            "_ and ., and does not contain 'gres'"
        )
    return value


GresWord = Annotated[str, AfterValidator(_gres_word)]
Word = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
Version = Annotated[str, Field(pattern=r"^[0-9][0-9A-Za-z._-]*$")]
PciId = Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")]


class Match(Strict):
    """A device matches when its PCI id is listed (if any are) and its model fits a pattern (if any
    are) and its reported memory is within the bounds (MiB, both ends included)."""

    pci: tuple[PciId, ...] = ()
    model: tuple[str, ...] = ()
    memory_mib: tuple[int, int] | None = None

    @model_validator(mode="after")
    def _something(self) -> Match:
        if not self.pci and not self.model:
            raise ValueError("names neither pci nor model: it would match every device")
        for pattern in self.model:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"model pattern {pattern!r} is no regular expression") from error
        return self


class Gres(Strict):
    """Name and type in Slurm. ``flags`` are gres.conf's environment flags (name gpu only)."""

    name: GresWord
    type: GresWord
    flags: tuple[str, ...] = ()


class Visible(Strict):
    """The variable that makes devices visible to the runtime.

    ``by`` says what it counts: ``index`` (number in the vendor's runtime), ``local`` (0, 1, … of
    what the step may open), ``uuid`` or ``node`` (number in the name of the device node). ``slurm``
    true: Slurm sets it itself (gres.conf flags).
    """

    variable: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]
    by: Literal["index", "local", "uuid", "node"] = "index"
    slurm: bool = False


class Peak(Strict):
    """Peak figures of one device and where they come from (TFLOPS dense; GB/s)."""

    bf16_dense_tflops: float | None = None
    fp32_tflops: float | None = None
    mem_bw_gb_s: float | None = None
    source: str = ""


class DriverRule(Strict):
    """Drivers that drive the model, in the maker's count of releases: from ``minimum`` on, to
    ``last``, of which the first parts are given (``580`` is every 580.x)."""

    minimum: Version | None = None
    last: Version | None = None
    source: str = Field(min_length=1)

    @model_validator(mode="after")
    def _something(self) -> DriverRule:
        if self.minimum is None and self.last is None:
            raise ValueError("give minimum, last or both")
        return self

    def wanted(self, release: str) -> str:
        """What is wanted instead of this release; empty if it drives the model."""
        if self.minimum is not None and compare(release, self.minimum) < 0:
            return f"{self.minimum} or newer"
        beyond = self.last is not None and compare(release, self.last) > 0
        if beyond and not starts_with(release, self.last or ""):
            return f"{self.last} or older"
        return ""


class SliceKind(Strict):
    """One size of slice. ``parts``: how many of the device's parts it has; ``most``: how many a
    device can be cut into; ``memory_gib``: so that a full cut has not more than the device.
    ``type``: its GRES type where the device's with the slice's name behind will not do."""

    parts: int = Field(ge=1)
    memory_gib: int = Field(ge=1)
    most: int = Field(ge=1)
    units: int | None = Field(None, ge=1)
    type: GresWord | None = None


SliceName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.+-]*$")]


class Slicing(Strict):
    """What a device can be cut into, in hardware. ``parts``: of a whole device (MIG: compute
    slices, vNPU: AI cores); ``slices`` by the name that the vendor's tool gives them; ``visible``:
    the variable of a slice."""

    kind: Literal["mig", "vnpu"]
    parts: int = Field(ge=1)
    slices: dict[SliceName, SliceKind]
    visible: Visible
    source: str

    @model_validator(mode="after")
    def _possible(self) -> Slicing:
        for name, kind in self.slices.items():
            if kind.parts * kind.most > self.parts:
                raise ValueError(
                    f"slice {name}: {kind.most} of {kind.parts} parts are more than {self.parts}"
                )
        return self


class PartOf(Strict):
    """The device is one of ``parts`` equal partitions of a device with another ``profile``."""

    profile: Word
    parts: int = Field(ge=2)


class DeviceProfile(Strict):
    """One device model. ``features`` become node features; ``link_kind`` is the tool's word for a
    direct link between two such devices (regular expression); ``price`` is that of a device-hour.
    A slice is a profile of its own, made from its device's table: ``slice_of`` names the device's
    profile, ``slice_name`` is the vendor's word."""

    schema_: Literal["hpcmgr.profile/1"] = Field("hpcmgr.profile/1", alias="schema")
    name: Word
    title: str
    vendor: Word
    kind: Literal["gpu", "npu"]
    runtime: Word
    match: Match
    gres: Gres
    memory_gib: int | None = Field(None, ge=1)
    units: int | None = Field(None, ge=1)
    peak: Peak = Peak()
    features: tuple[Word, ...] = ()
    link_kind: str = ""
    visible: Visible | None = None
    driver: DriverRule | None = None
    price: float | None = Field(None, gt=0)
    cpus_per_device: int | None = Field(None, ge=1)
    mem_per_device_mib: int | None = Field(None, ge=1)
    slicing: Slicing | None = None
    part_of: PartOf | None = None
    slice_of: Word | None = None
    slice_name: str | None = None

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @property
    def gres_key(self) -> str:
        """``name:type`` as Slurm prints it."""
        return f"{self.gres.name}:{self.gres.type}"

    @property
    def cost(self) -> float:
        """Price of a device-hour, its units where the site set none."""
        return self.price or float(self.booked_units or 1)

    @property
    def booked_units(self) -> int | None:
        """Units of one device: set, else counted from its peak figure, else None."""
        if self.units is not None:
            return self.units
        if self.peak.bf16_dense_tflops is None:
            return None
        return max(1, round(self.peak.bf16_dense_tflops / UNIT_TFLOPS))
