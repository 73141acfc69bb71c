"""Selectors: the word between ``compute:`` and the count.

A class of site.yaml, a kind, a runtime, a vendor, a profile or its GRES type. No word has two
meanings: a site whose names clash is refused when it is loaded, not when a user asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hpcmgr.errors import ConfigError, Problem, RequestError, did_you_mean
from hpcmgr.profile import DeviceProfile, ProfileLibrary
from hpcmgr.settings import DeviceChoice, JobClass, Site
from hpcmgr.submit.messages import text

ATTRIBUTES = ("kind", "runtime", "vendor", "name")


@dataclass(frozen=True, slots=True)
class Selection:
    """What a selector means: a class, and profile names that it is narrowed to (None: all).

    ``named``: the user named the very device type; then as many devices as it takes are meant.
    """

    class_name: str
    job_class: JobClass
    profiles: frozenset[str] | None = None
    named: bool = False

    def allows(self, profile: DeviceProfile) -> str | None:
        """None if the class allows the device type, else why not."""
        if self.profiles is not None and profile.name not in self.profiles:
            return text("not_asked")
        if profile.slice_of and not self.job_class.slices:
            return text("no_slices", name=self.class_name)
        return refusal_of(self.job_class, self.class_name, profile)


def refusal_of(choice: DeviceChoice, class_name: str, profile: DeviceProfile) -> str | None:
    """None if a class, or a group of it, allows the device type, else why not."""
    names = (profile.name, profile.slice_of)
    for values, allowed, what in (
        ((profile.kind,), choice.kinds, "kinds"),
        ((profile.runtime,), choice.runtimes, "runtimes"),
        ((profile.vendor,), choice.vendors, "vendors"),
        (names, choice.profiles, "profiles"),
    ):
        if allowed and not {*values} & {*allowed}:
            return text("class_allows", name=class_name, what=what, allowed=", ".join(allowed))
    return None


@dataclass(frozen=True)
class Selectors:
    """Every selector word of a site."""

    words: Mapping[str, Selection]
    default: Selection

    def find(self, word: str | None, present: Iterable[DeviceProfile] = ()) -> Selection:
        """The meaning of ``word`` (None: the default class). ``present``: device types that the
        cluster has; only their words are offered to a user who mistyped.

        Raises:
            RequestError: nothing has that name; with the nearest and the useful ones.
        """
        if word is None:
            return self.default
        found = self.words.get(word)
        if found is None:
            maybe = did_you_mean(word, self.words)
            valid = ", ".join(self._useful({p.name for p in present}))
            raise RequestError(text("unknown_selector", word=word, maybe=maybe, valid=valid))
        return found

    def _useful(self, present: set[str]) -> list[str]:
        """Classes, and words that mean a device type of the cluster."""
        return sorted(
            word
            for word, meaning in self.words.items()
            if meaning.profiles is None or meaning.profiles & present
        )


def make_selectors(site: Site, library: ProfileLibrary) -> Selectors:
    """Collect all words.

    Raises:
        ConfigError: two things of different sort have one name.
    """
    default = Selection("default", site.default_class)
    owner: dict[str, str] = {}
    words: dict[str, Selection] = {}
    problems: list[Problem] = []
    for name, job_class in site.classes.items():
        owner[name], words[name] = "class", Selection(name, job_class)
    for attribute in ATTRIBUTES:
        for profile in library.profiles:
            word = str(getattr(profile, attribute))
            sort = "profile" if attribute == "name" else attribute
            if owner.setdefault(word, sort) != sort:
                problems.append(
                    Problem(site.file, None, f"{word!r} is both {owner[word]} and {sort}")
                )
                continue
            names = (words[word].profiles or frozenset()) if word in words else frozenset()
            words[word] = Selection(
                "default", site.default_class, names | {profile.name}, named=sort == "profile"
            )
    for profile in library.profiles:
        # A GRES type is a short name for its profile wherever no other word is meant.
        words.setdefault(
            profile.gres.type,
            Selection("default", site.default_class, frozenset({profile.name}), named=True),
        )
    if problems:
        unique = tuple(dict.fromkeys(problems))
        raise ConfigError(unique, "a selector has one meaning: rename the class in site.yaml")
    return Selectors(words, default)
