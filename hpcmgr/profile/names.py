"""Words of site.yaml that stand for devices: each must be one that some profile has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hpcmgr.errors import did_you_mean
from hpcmgr.profile.library import ProfileLibrary
from hpcmgr.settings import Site

_SORTS = {"kinds": "kind", "vendors": "vendor", "runtimes": "runtime", "profiles": "name"}
"""Key of a class → attribute of a profile."""


def unknown_names(site: Site, library: ProfileLibrary) -> Iterator[str]:
    """What no profile has: a class would allow no device, or a share would not be rendered."""
    words = {
        sort: frozenset(str(getattr(profile, sort)) for profile in library.profiles)
        for sort in _SORTS.values()
    }
    liked = frozenset().union(*words.values(), (p.gres.type for p in library.profiles))
    for name, job_class in site.classes.items():
        where = f"classes.{name}"
        yield from _unknown(f"{where}.prefer", job_class.prefer, liked)
        yield from _unknown(f"{where}.needs", job_class.needs, words["runtime"])
        for choice in (job_class, *job_class.groups):
            for key, sort in _SORTS.items():
                yield from _unknown(f"{where}.{key}", getattr(choice, key), words[sort])
    yield from _unknown("sharing", site.sharing, words["name"])
    for group in site.nodes:
        yield from _unknown(f"nodes ({group.nodes}) sharing", group.sharing, words["name"])


def _unknown(where: str, named: Iterable[str], valid: frozenset[str]) -> Iterator[str]:
    for word in named:
        if word not in valid:
            yield f"{where}: no profile has {word!r}{did_you_mean(word, valid)}"
