"""Late binding: when a waiting job moves to another device type."""

from __future__ import annotations

from pydantic import Field

from hpcmgr.settings.fields import Section


class Rebind(Section):
    """Late binding. Times in seconds."""

    enabled: bool = True
    """Whether `hpcmgr serve` moves waiting jobs."""
    interval: float = Field(30.0, ge=1)
    """Seconds between two cycles, at least; after a long one the pause is longer."""
    gain: float = Field(0.2, ge=0, le=1)
    """A job moves only if it would end earlier by that share of the time until its end, …"""
    gain_seconds: float = Field(600.0, ge=0)
    """… and by at least so much."""
    max_moves: int = Field(3, ge=0)
    """Moves of one job, at most; a move away from devices that are out of service is not one."""
    moves_per_minute: int = Field(60, ge=1)
    """Moves in a minute, at most, of all jobs together (an array is one)."""
    near_start: float = Field(60.0, ge=0)
    """A job that Slurm's backfill expects to start within that time is left alone."""
    settle: float = Field(120.0, ge=0)
    """After a move a job is left alone for so long: Slurm's scheduler must see it first."""
