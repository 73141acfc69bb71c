"""What is known of the nodes besides Slurm's state: asked at the door, else read here."""

from __future__ import annotations

from hpcmgr.errors import CommandError, CredentialError, ServiceError
from hpcmgr.profile import ProfileLibrary
from hpcmgr.service.askdoor import ask
from hpcmgr.service.factswire import facts_of
from hpcmgr.service.knowledge import known_of, leaves_of
from hpcmgr.settings import Site
from hpcmgr.submit.facts import Known


def ask_known(site: Site, library: ProfileLibrary) -> Known:
    """What the service knows; without a door, or where it does not answer, what the inventories
    tell here, which takes seconds where there are thousands."""
    if site.service.door is not None:
        try:
            rows = ask(site.service.door, {"op": "facts"})["facts"]
            return Known(facts_of(rows), leaves_of(site), site.owned)
        except (ServiceError, CredentialError, CommandError, LookupError, TypeError, ValueError):
            pass
    return known_of(site, library)
