"""Candidates of a job that is already in the queue → the device types that it may have now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hpcmgr.slurm.capability import Release
from hpcmgr.submit.binding import late_binding
from hpcmgr.submit.candidates import Candidate
from hpcmgr.submit.estimate import Option
from hpcmgr.submit.request import JobFields


def options_of(
    ranked: Iterable[Candidate],
    fields: JobFields,
    release: Release,
    speeds: Mapping[str, float],
    *,
    enforced: bool,
    exclusive: bool = False,
) -> tuple[Option, ...]:
    """Types that the job may have, best liked first.

    ``speeds`` by profile, of one device, all on one scale.
    ``enforced``: the job's enforce-binding, which stays: a type for which it does not hold is none.
    """
    able = [
        c
        for c in ranked
        if not c.refused
        and not c.beside  # a template is looked at once, at its submission
        and not late_binding(c, fields, release, enforced=enforced, exclusive=exclusive).why_not
    ]
    return tuple(
        Option(
            gres=c.gres,
            devices=c.devices,
            pools=c.pools,
            cpus=c.need.cpus,
            memory=c.need.memory_mib,
            speed=c.devices * speeds[c.profile.name],
            out=c.waits,
            candidate=c,
        )
        for c in able
    )
