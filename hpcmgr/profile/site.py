"""The profiles that hold at a site: the packaged ones, its own, and what site.yaml overrides."""

from __future__ import annotations

from hpcmgr.errors import ConfigError, Problem
from hpcmgr.profile.library import ProfileLibrary, load_library
from hpcmgr.profile.names import unknown_names
from hpcmgr.settings import Site, override_fields


def library_of(site: Site) -> ProfileLibrary:
    """Read them.

    Raises:
        ConfigError: one of them is wrong, or site.yaml names devices that none of them is.
    """
    library = load_library(site.profiles.dirs, override_fields(site), site.file)
    problems = [Problem(site.file, None, text) for text in unknown_names(site, library)]
    if problems:
        raise ConfigError(problems, "'hpcmgr profiles list' shows names, kinds and vendors")
    return library
