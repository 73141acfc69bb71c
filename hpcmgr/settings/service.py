"""The scoring service, and the weights of its score."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from hpcmgr.settings.fields import Address, Section


class Service(Section):
    """The scoring service. Times in seconds unless the name says otherwise. ``door``: where it
    answers ordinary users (HOST:PORT; 0.0.0.0 listens everywhere), None: it does not."""

    socket: Path = Path("/run/hpcmgr/submit.sock")
    """Where job_submit.lua asks; the shim's `socket` must be the same."""
    door: Address | None = None
    """Where ordinary users ask (HOST:PORT; `0.0.0.0:7321` listens everywhere); `null`: nowhere. See
    [door.md](door.md)."""
    state_dir: Path = Path("/var/lib/hpcmgr/service")
    """Where the journal lies."""
    journal_days: int = Field(180, ge=1)
    """Days after which the journal forgets; records of jobs that wait or run are kept."""
    journal_mib: int = Field(2048, ge=16)
    """Size (MiB) over which the journal forgets its oldest quarter; likewise."""
    refresh: float = Field(2.0, gt=0)
    """Seconds between two looks at Slurm."""
    inventory_refresh: float = Field(60.0, gt=0)
    """Seconds between two looks at the inventories: drivers, health, links."""
    tentative: float = Field(30.0, gt=0)
    """Seconds for which a granted device counts as taken, until Slurm shows it."""
    snapshot_max_age: float = Field(120.0, gt=0)
    """Seconds after which the picture is too old to answer from; requests are then held."""


class Weights(Section):
    """Weights of the score terms; higher fits better, every term lies in 0…1."""

    fit: float = Field(3.0, ge=0)
    """Share of the booked units that was asked for."""
    free_now: float = Field(4.0, ge=0)
    """Whether it could start at once."""
    queue_ahead: float = Field(2.0, ge=0)
    """Falls with the devices that others wait for."""
    finish: float = Field(6.0, ge=0)
    """How early it would end, against the candidate that would end first; in place of `free_now`
    and `queue_ahead` wherever late binding has looked at the queue and the job has a time limit."""
    speed: float = Field(3.0, ge=0)
    """Expected speed at the class's workload, over that of the fastest candidate; only for classes
    that name one."""
    preference: float = Field(2.0, ge=0)
    """The class's order."""
    few_devices: float = Field(1.0, ge=0)
    """One over the number of devices."""
    locality: float = Field(1.0, ge=0)
    """Whether the devices can be in one link domain or on one socket, and the nodes below one
    switch."""
    fragmentation: float = Field(0.5, ge=0)
    """Falls with the devices that would be left over on the node: keeps whole nodes free."""
    cost: float = Field(0.5, ge=0)
    """Cost of the cheapest candidate over its own."""
