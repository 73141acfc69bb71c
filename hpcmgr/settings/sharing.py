"""Devices that several jobs use at once."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from hpcmgr.settings.fields import Section


class Sharing(Section):
    """How one device type is shared: by ``shard`` or by ``mps``. Neither fences the memory."""

    shard: int | None = Field(None, ge=2, le=1024)
    """Shares a device; a job asks `--gres=shard:1`."""
    mps: bool = False
    """Percents of a device by NVIDIA's MPS; a job asks `--gres=mps:25`. Its daemon is not started
    by hpcmgr."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.shard is not None) is self.mps:
            raise ValueError("give either shard (shares a device) or mps: true")
        return self

    @property
    def name(self) -> str:
        """The GRES of the shares."""
        return "mps" if self.mps else "shard"

    @property
    def shares(self) -> int:
        """Of one device; Slurm counts MPS in percent."""
        return self.shard or 100
